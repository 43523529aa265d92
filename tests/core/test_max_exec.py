"""How long a workload may run in all: what earlier runs took counts, and the rest is the limit."""

import pytest
from msgspec.structs import replace

from stellwerk.core.lower import max_exec_ms
from stellwerk.core.model import events as ev
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.testing.builders import a_cluster, a_node
from tests.core.hall import Hall

HOUR = 3_600_000
PREEMPTED = RunEnd(how="notice", code=143, put_back=True, new_checkpoint=True)


def a_hall(policies: Policies) -> tuple[Hall, str]:
    """One machine, and a workload of which two runs took 20 minutes each by the runtime's clock."""
    hall = Hall(a_cluster("lab", a_node(cpus=4)))
    key = hall.submit(policies=policies)
    for _ in range(2):
        hall.settle()
        hall.seen(key)
        hall.now_ms += HOUR
        end = replace(PREEMPTED, started_at_ms=1_000, ended_at_ms=1_000 + HOUR // 3)
        hall.end(key, end)
    return hall, key


@pytest.mark.parametrize(
    ("policies", "left_ms"),
    [
        (Policies(), 0),
        (Policies(time_limit_ms=HOUR), HOUR),
        (Policies(max_exec_ms=HOUR), HOUR // 3),
        (Policies(max_exec_ms=HOUR, time_limit_ms=1_000), 1_000),
        (Policies(max_exec_ms=HOUR, time_limit_ms=2 * HOUR), HOUR // 3),
    ],
)
def test_the_limit_of_the_next_run_is_what_is_left(policies: Policies, left_ms: int) -> None:
    """The time limit bounds each run, the other all of them; without either nothing does."""
    hall, key = a_hall(policies)
    assert hall.workload(key).limit_ms == left_ms
    [shape] = hall.view().shapes
    assert shape.heads[0].limit_ms == (left_ms + policies.grace_ms if left_ms else 0)


def test_work_that_has_had_its_time_is_not_put_back() -> None:
    """The third run of 20 minutes is the last; it fails with that reason, whoever ended it."""
    hall, key = a_hall(Policies(max_exec_ms=HOUR))
    hall.settle()
    hall.seen(key)
    events = hall.end(key, replace(PREEMPTED, started_at_ms=1, ended_at_ms=1 + HOUR // 3))
    assert isinstance(events[-1], ev.WorkloadEnded)
    assert (events[-1].phase, events[-1].reason.code) == ("Failed", "max_exec_time")


def test_an_end_by_the_runtime_says_which_limit_it_was() -> None:
    """The same word of the runtime, by what was left when it was started."""
    for policies, code in (
        (Policies(max_exec_ms=HOUR), "max_exec_time"),
        (Policies(max_exec_ms=2 * HOUR, time_limit_ms=HOUR), "time_limit"),
    ):
        hall, key = a_hall(policies)
        hall.settle()
        hall.seen(key)
        events = hall.end(key, RunEnd(how="time_limit", signal=15))
        assert isinstance(events[-1], ev.WorkloadEnded)
        assert events[-1].reason.code == code


def test_what_the_label_may_say() -> None:
    """Seconds from 1 on; anything else isn't a number of them."""
    label = "kueue.x-k8s.io/max-exec-time-seconds"
    found = [max_exec_ms({label: one}) for one in ("60", "0", "-5", "1h", "99999999999")]
    assert found == [60_000, None, None, None, None]
    assert max_exec_ms({}) == 0
