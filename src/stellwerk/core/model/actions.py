"""Everything a plan may ask for: effects for the engine to carry out, and what they relied on."""

from msgspec import Struct

from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import DecisionId, RunId, ShapeId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.workload import NoticeWhy


class StartRun(Struct, frozen=True, tag="start-run"):
    """Start the next run of a workload on what ``allocation`` names.

    ``holding`` is the quota that it takes, by the objects of queueing at ``queueing_version``.
    """

    workload: WorkloadId
    workload_version: int
    cluster_version: int
    allocation: Allocation
    decision: DecisionId
    holding: Holding | None = None
    queueing_version: int = 0


class StopRun(Struct, frozen=True, tag="stop-run"):
    """Give a run notice."""

    workload: WorkloadId
    workload_version: int
    run: RunId
    why: NoticeWhy
    grace_ms: int
    reason: Reason | None = None


class ClaimRoom(Struct, frozen=True, tag="claim-room"):
    """Promise a waiting workload a place and quota, and stop the runs that are in its way.

    All of it or nothing. ``claim`` None takes the promise back.
    """

    workload: WorkloadId
    workload_version: int
    claim: Claim | None
    stops: tuple[StopRun, ...] = ()
    queueing_version: int = 0


class TellWaiting(Struct, frozen=True, tag="tell-waiting"):
    """Record why the waiting workloads of a shape wait, since that changed."""

    shape: ShapeId
    decision: DecisionId
    reasons: tuple[Reason, ...]


Action = StartRun | StopRun | ClaimRoom | TellWaiting


class Plan(Struct, frozen=True):
    """What to do now, with the decisions that say why. An empty plan changes nothing.

    ``complete``: every workload that may start now was looked at, so that planning again after all
    of it was accepted gives nothing.
    """

    actions: tuple[Action, ...]
    decisions: tuple[Decision, ...]
    wake_at_ms: int = 0
    complete: bool = False
