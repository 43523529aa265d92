"""From a task to what the core works with: nothing is added, nothing that was written is lost."""

import pytest

from stellwerk.core.lower import DEFAULT_GRACE_MS, lower
from stellwerk.core.model.devices import AcceleratorSelector
from stellwerk.core.model.quantity import GIB, Amount
from stellwerk.core.model.resources import Alternative, GpuRequest, Request, Shape
from stellwerk.core.model.task import AbortRule, JobRecovery, ResourceRequest, Task
from stellwerk.core.model.workload import Policies


def wanted(request: ResourceRequest, **task: int) -> Request:
    """The request of a task with one way to run."""
    shape = lower(Task(resources=(request,), gpu_memory_bytes=task.get("gpu_memory"))).shape
    (alternative,) = shape.alternatives
    return alternative.request


def test_a_bare_task_asks_for_one_cpu_and_promises_a_grace() -> None:
    """What isn't said has a small default."""
    lowered = lower(Task(run="true"))
    assert lowered.shape == Shape((Alternative(Request(cpus_milli=1000)),))
    assert lowered.policies == Policies(grace_ms=DEFAULT_GRACE_MS)
    assert (lowered.priority, lowered.queue) == (0, "default")


def test_amounts_are_taken_over() -> None:
    """`4+` and `4` ask for the same room."""
    for at_least in (True, False):
        request = ResourceRequest(
            cpus=Amount(1500, at_least), memory=Amount(3 * GIB, at_least), infra="ssh/k017"
        )
        lowered = lower(Task(resources=(request,), num_nodes=3)).shape
        assert lowered.num_nodes == 3
        assert lowered.alternatives == (Alternative(Request(1500, 3 * GIB), "ssh/k017"),)


@pytest.mark.parametrize(
    ("request_", "gpu"),
    [
        (ResourceRequest(accelerators={"A100": 2}), GpuRequest(2, "A100")),
        (ResourceRequest(accelerators={"A100": 1.5}), GpuRequest(2, "A100")),
        (
            ResourceRequest(accelerators={"A100": 0.5}),
            GpuRequest(1, "A100", fraction_milli=500),
        ),
        (
            ResourceRequest(accelerators={"A100": 0.0001}),
            GpuRequest(1, "A100", fraction_milli=1),
        ),
        (
            ResourceRequest(selector=AcceleratorSelector(24 * GIB, at_least=True, count=2)),
            GpuRequest(2, memory_min_bytes=24 * GIB),
        ),
        (
            ResourceRequest(selector=AcceleratorSelector(24 * GIB, vendor="amd")),
            GpuRequest(1, vendor="amd", memory_exact_bytes=24 * GIB),
        ),
        (ResourceRequest(), None),
    ],
)
def test_accelerators_are_counted_or_shared(
    request_: ResourceRequest, gpu: GpuRequest | None
) -> None:
    """Below one it is a part of one card; from one on, whole cards."""
    assert wanted(request_).gpu == gpu


def test_memory_on_a_card_asks_for_a_card() -> None:
    """Alone it means any card; beside kinds, each of those; work without cards stays without."""
    kind = ResourceRequest(accelerators={"A100": 2})
    assert wanted(ResourceRequest(), gpu_memory=8 * GIB).gpu == GpuRequest(1, share_bytes=8 * GIB)
    assert wanted(kind, gpu_memory=8 * GIB).gpu == GpuRequest(2, "A100", share_bytes=8 * GIB)
    either = Task(resources=(kind, ResourceRequest()), choice="any_of", gpu_memory_bytes=8 * GIB)
    first, second = lower(either).shape.alternatives
    assert first.request.gpu == GpuRequest(2, "A100", share_bytes=8 * GIB)
    assert second.request.gpu is None


def test_only_an_ordered_choice_is_an_order() -> None:
    """`any_of` is a set."""
    two = (ResourceRequest(cpus=Amount(1000)), ResourceRequest(cpus=Amount(2000)))
    assert not lower(Task(resources=two, choice="any_of")).shape.ordered
    assert lower(Task(resources=two, choice="ordered")).shape.ordered


def test_policies_come_from_the_recovery_and_the_extras() -> None:
    """A grace of zero is a grace of zero."""
    recovery = JobRecovery(max_restarts_on_errors=3, recover_on_exit_codes=(33, 34))
    task = Task(
        resources=(ResourceRequest(job_recovery=recovery, priority=7),),
        time_limit_ms=60_000,
        checkpoint_grace_ms=0,
        idle_limit_ms=9_000,
        queue="night",
    )
    lowered = lower(task)
    assert lowered.policies == Policies(
        grace_ms=0,
        time_limit_ms=60_000,
        max_restarts_on_errors=3,
        recover_on_exit_codes=(33, 34),
        recovers=True,
        abort_when=(AbortRule("idle", for_ms=9_000),),
    )
    assert lower(Task(idle_limit_ms=0)).policies.abort_when == ()
    assert (lowered.priority, lowered.queue) == (7, "night")


def test_a_flag_says_more_than_the_file() -> None:
    """The task's own priority before that of its resources, zero too."""
    assert lower(Task(resources=(ResourceRequest(priority=7),), priority=0)).priority == 0
