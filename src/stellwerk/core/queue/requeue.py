"""How an evicted workload comes back: at its old place, at the back, later, or not at all."""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.core.model.queueing import QueuedWorkload, Requeuing

NOT_READY = "PodsReadyTimeout"
CHECK = "AdmissionCheck"
LIMIT = "its pods weren't ready in time, too often"


def backoff_ms(times: int, rules: Requeuing) -> int:
    """How long to wait before the n-th try again."""
    # Beyond 40 doublings every base is more than any limit.
    return min(rules.most_ms, rules.base_ms << min(max(times, 1) - 1, 40))


def coming_back(
    workload: QueuedWorkload, reason: str, now_ms: int, rules: Requeuing
) -> QueuedWorkload:
    """The workload as it waits again; ``reason`` is why it was evicted.

    Who was preempted keeps the place of its creation, and so comes first again.
    """
    back = replace(workload, admission=None, evicted=False)
    if reason == CHECK:
        return replace(back, queued_ms=now_ms)
    if reason != NOT_READY:
        return back
    times = workload.requeues + 1
    return replace(
        back,
        requeues=times,
        queued_ms=now_ms if rules.to_the_back else workload.queued_ms,
        requeue_at_ms=now_ms + backoff_ms(times, rules),
        active=workload.active and (rules.limit is None or times <= rules.limit),
    )
