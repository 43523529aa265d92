"""Where a workload over several machines was when its last run ended, for its next one."""

from msgspec import Struct

from stellwerk.core.model.holding import Holding
from stellwerk.core.model.workload import Run, Workload

REPAIRED = ("reboot", "machine_lost", "wrapper_died", "declared_lost")
"""Ends of a run that has lost a machine, while the others are as they were."""


class LastPlace(Struct, frozen=True):
    """The nodes of a gang in the order of their ranks. With ``repairs`` it has lost one of them."""

    cluster: str
    nodes: tuple[str, ...]
    holding: Holding | None = None
    repairs: bool = False
    alternative: int = 0


def last_place(workload: Workload) -> LastPlace | None:
    """Where its last run was that had begun, if that was on several machines."""
    run = next((one for one in reversed(workload.runs) if _was_there(one)), None)
    if run is None or len(run.allocation.nodes) < 2:
        return None
    ranked = sorted((rank, part.node) for part in run.allocation.nodes for rank in part.ranks)
    nodes = tuple(node for _, node in ranked)
    if len(dict.fromkeys(nodes)) < len(nodes):
        return None
    repairs = run.end is not None and run.end.how in REPAIRED
    allocation = run.allocation
    return LastPlace(allocation.cluster, nodes, run.holding, repairs, allocation.alternative)


def _was_there(run: Run) -> bool:
    """Whether it ended there, and wasn't refused."""
    return run.end is not None and run.end.how != "start_refused"
