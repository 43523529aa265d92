"""What the queues of some objects would do now: a plan that carries nothing out."""

from __future__ import annotations

from msgspec import Struct

from stellwerk.core.model.queueing import PodSetAssignment, QueueObjects
from stellwerk.core.queue.explain import UsageView, WaitingView, usage_views, waiting_views
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.settle import settle


class AdmittedView(Struct, frozen=True, omit_defaults=True):
    """A workload that would get quota, in which cycle, where; ``borrows`` = how many levels up."""

    name: str
    namespace: str
    queue: str
    cycle: int
    pod_sets: tuple[PodSetAssignment, ...]
    borrows: int = 0
    checks: tuple[str, ...] = ()


class PreemptedView(Struct, frozen=True, omit_defaults=True):
    """A workload that would have to go; ``by`` "" = its queue is stopped."""

    name: str
    namespace: str
    queue: str
    cycle: int
    reason: str
    by: str = ""


class QueuesPlanned(Struct, frozen=True):
    """Everything that cycles came to, and the state after them."""

    cycles: int
    settled: bool
    admitted: tuple[AdmittedView, ...]
    preempted: tuple[PreemptedView, ...]
    waiting: tuple[WaitingView, ...]
    usage: tuple[UsageView, ...]


def planned_of(objects: QueueObjects, now_ms: int, most: int) -> QueuesPlanned:
    """At most so many cycles; workloads with an admission hold their quota."""
    queues = Queues(objects, now_ms=now_ms)
    for workload in objects.workloads:
        if workload.admission is not None:
            queues.hold(workload)
        else:
            queues.submit(workload)
    found = settle(queues, now_ms, most)
    return QueuesPlanned(
        cycles=found.cycles,
        settled=found.settled,
        admitted=tuple(
            AdmittedView(*_names(one.key), one.queue, cycle, one.pod_sets, one.level, one.checks)
            for cycle, one in found.admitted
        ),
        preempted=tuple(
            PreemptedView(*_names(one.key), one.queue, cycle, one.reason, one.by)
            for cycle, one in found.evicted
        ),
        waiting=tuple(waiting_views(queues, found.waits)),
        usage=tuple(usage_views(queues)),
    )


def _names(key: str) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return name, namespace
