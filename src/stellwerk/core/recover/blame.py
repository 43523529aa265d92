"""Whether a run's end speaks against the node it was on, and when a node is quarantined. Pure.

Only what the runtime has seen itself counts towards a quarantine, or what no program can do to a
machine: never an exit code, and no text that anybody may print.
"""

from collections.abc import Sequence

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import Run, RunEnd

QUICK_MS = 60_000
"""What lasted longer got somewhere, so the node works."""

IN_A_ROW = 3
DISK_LEFT_BYTES = 64 << 20
"""With less than this left where runs write, a full disk is the node's."""

SAID_BY_JOB = ("disk_full", "gpu_broken")
REFUSED_BY_NODE = ("snapshot/disk-full", "snapshot/not-written", "runtime/start_failed")
SAYS_NOTHING = (
    "cancelled",
    "declared_lost",
    "machine_lost",
    "never_started",
    "reboot",
    "wrapper_died",
)
"""Ends that say neither that a node works nor that it doesn't."""


class Blame(Struct, frozen=True):
    """What an end says about a node."""

    node: str
    failed: bool


def is_of_node(end: RunEnd, reason: Reason) -> bool:
    """Whether another node might do better: the run failed for something that the machine lacks."""
    if end.how == "start_refused":
        return end.message.startswith(REFUSED_BY_NODE)
    return end.of_machine or reason.code in SAID_BY_JOB


def blame(run: Run, end: RunEnd, reason: Reason, node: str, now_ms: int) -> Blame | None:
    """Says what an end tells of its node; None if nothing."""
    if end.how in SAYS_NOTHING or run.notice:
        return None
    began_ms = end.started_at_ms or run.started_ms or run.planned_ms
    was_quick = (end.ended_at_ms or now_ms) - began_ms < QUICK_MS
    if not is_of_node(end, reason):
        if end.how == "start_refused":
            return None
        return Blame(node, failed=False)
    if not was_quick or (reason.code == "disk_full" and not _disk_is_full(end)):
        return None
    return Blame(node, failed=True)


def _disk_is_full(end: RunEnd) -> bool:
    left = end.disk_free_bytes
    return (
        end.how == "start_refused"
        or end.of_machine
        or (left is not None and left < DISK_LEFT_BYTES)
    )


def quarantine(
    cluster: Cluster | None,
    node: str,
    workload: WorkloadId,
    faults: Sequence[WorkloadId],
    reason: Reason,
) -> Reason | None:
    """Gives why a node gets nothing new from now on: the last ``IN_A_ROW`` workloads all failed.

    Of a cluster of several nodes at most half are quarantined: where more fail alike, something
    else is the matter.
    """
    in_a_row = dict.fromkeys([*faults, workload])
    if len(in_a_row) < IN_A_ROW or cluster is None or not _may_lose_one(cluster.nodes, node):
        return None
    params = {
        **reason.params,
        "cluster": cluster.name,
        "node": node,
        "failure": reason.code,
        "times": len(in_a_row),
        "quick_ms": QUICK_MS,
    }
    return Reason("node_faulty", params)


def _may_lose_one(nodes: Sequence[Node], name: str) -> bool:
    if not any(node.name == name and node.state != "quarantined" for node in nodes):
        return False
    lost = sum(node.state == "quarantined" for node in nodes) + 1
    return len(nodes) == 1 or 2 * lost <= len(nodes)
