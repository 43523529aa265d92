"""Lowers what a person wrote to what the core works with: a Task becomes a Shape with policies."""

import math
from collections.abc import Mapping

from msgspec import Struct

from stellwerk.core.describe.placements import DEFAULT_NAMESPACE
from stellwerk.core.describe.places import needs
from stellwerk.core.model.launch import started_ranks
from stellwerk.core.model.nearness import nearness_of
from stellwerk.core.model.queueing import MAX_EXEC_LABEL, MIN_NODES_LABEL, QUEUE_LABEL
from stellwerk.core.model.resources import (
    DEFAULT_QUEUE,
    Alternative,
    GpuRequest,
    Request,
    Shape,
    in_queue,
)
from stellwerk.core.model.task import AbortRule, ResourceRequest, Task
from stellwerk.core.model.workload import Policies

DEFAULT_CPUS_MILLI = 1000
DEFAULT_GRACE_MS = 30_000
WHOLE_MILLI = 1000


class Lowered(Struct, frozen=True):
    """The parts of a submission that the core works with."""

    shape: Shape
    policies: Policies
    priority: int
    queue: str


def lower(task: Task) -> Lowered:
    """Lowers a task that can be run (see ``describe.support``); never fails on one."""
    recovery = task.job_recovery
    policies = Policies(
        grace_ms=(
            max(DEFAULT_GRACE_MS, *(one.lead_ms for one in task.notice_signals), 0)
            if task.checkpoint_grace_ms is None
            else task.checkpoint_grace_ms
        ),
        time_limit_ms=task.time_limit_ms or 0,
        max_exec_ms=max_exec_ms(task.labels) or 0,
        full_nodes=task.num_nodes if min_nodes(task) else 0,
        max_restarts_on_errors=(recovery.max_restarts_on_errors or 0) if recovery else 0,
        recover_on_exit_codes=recovery.recover_on_exit_codes if recovery else (),
        recovers=recovery is not None,
        abort_when=(*task.abort_when, *_idle_rule(task)),
        ranks=started_ranks(task),
        protected_ms=task.protected_ms or 0,
    )
    queue = task.queue or task.labels.get(QUEUE_LABEL) or DEFAULT_QUEUE
    shape = Shape(
        alternatives=tuple(_alternative(one, task) for one in task.resources),
        ordered=task.choice == "ordered",
        num_nodes=task.num_nodes,
        placement=placement_key(task.placement),
        wishes=task.wishes,
        topology=nearness_of(task.labels),
        min_nodes=min_nodes(task) or 0,
    )
    return Lowered(
        shape=in_queue(shape, DEFAULT_QUEUE, queue),
        policies=policies,
        priority=_priority(task),
        queue=queue,
    )


def min_nodes(task: Task) -> int | None:
    """On how few of its nodes a task may run; 0 = on all or none, None = that can't be."""
    written = task.labels.get(MIN_NODES_LABEL, "0")
    least = task.min_nodes or (int(written) if written.isdecimal() else -1)
    if least == task.num_nodes:
        return 0
    return least if 0 <= least < task.num_nodes else None


def max_exec_ms(labels: Mapping[str, str]) -> int | None:
    """How long all runs together may take by Kueue's label; 0 = none, None = no number."""
    written = labels.get(MAX_EXEC_LABEL)
    if written is None:
        return 0
    return int(written) * 1000 if written.isdecimal() and 0 < int(written) < 1 << 31 else None


def _idle_rule(task: Task) -> tuple[AbortRule, ...]:
    return (AbortRule("idle", for_ms=task.idle_limit_ms),) if task.idle_limit_ms else ()


def placement_key(named: str | None) -> str:
    """``namespace/name`` of a placement that may be named without its namespace."""
    if not named or "/" in named:
        return named or ""
    return f"{DEFAULT_NAMESPACE}/{named}"


def _priority(task: Task) -> int:
    if task.priority is not None:
        return task.priority
    return next((one.priority for one in task.resources if one.priority is not None), 0)


def _alternative(wanted: ResourceRequest, task: Task) -> Alternative:
    share_bytes = task.gpu_memory_bytes or 0
    gpu = _gpu(wanted, share_bytes)
    if gpu is None and share_bytes and not any(one.gpus for one in task.resources):
        gpu = GpuRequest(count=1, share_bytes=share_bytes)
    return Alternative(
        request=Request(
            cpus_milli=wanted.cpus.value if wanted.cpus else DEFAULT_CPUS_MILLI,
            memory_bytes=wanted.memory.value if wanted.memory else 0,
            gpu=gpu,
        ),
        infra=wanted.infra or "",
        needs=needs(task, wanted),
    )


def _gpu(wanted: ResourceRequest, share_bytes: int) -> GpuRequest | None:
    selector = wanted.selector
    if selector is not None:
        whole, fraction = _count(selector.count)
        return GpuRequest(
            count=whole,
            fraction_milli=fraction,
            vendor=selector.vendor or "",
            share_bytes=share_bytes,
            memory_min_bytes=selector.memory_bytes if selector.at_least else 0,
            memory_exact_bytes=0 if selector.at_least else selector.memory_bytes,
        )
    for kind, count in wanted.accelerators.items():
        whole, fraction = _count(count)
        return GpuRequest(count=whole, kind=kind, fraction_milli=fraction, share_bytes=share_bytes)
    return None


def _count(count: float) -> tuple[int, int]:
    """Below one, a part of one card's memory; from one on, whole cards."""
    if count < 1:
        return 1, max(1, round(count * WHOLE_MILLI))
    return math.ceil(count), WHOLE_MILLI
