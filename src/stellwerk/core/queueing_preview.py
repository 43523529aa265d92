"""Says what would follow at once if other objects of queueing held: who starts, waits, is stopped.

The cycle that is planned with the objects as they are is compared with the one that is planned with
those that would be; nothing is changed. What happens later isn't foreseen here.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.actions import ClaimRoom, Plan, StartRun, StopRun, TellWaiting
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.ids import ShapeId, WorkloadId
from stellwerk.core.model.queueing import Pair, QueueObjects
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.derived import derived
from stellwerk.core.plan import plan
from stellwerk.core.queueing_quota import PairUse, QuotaOf, quota_of
from stellwerk.core.view import View

STARTS, STOPS = "starts now", "is stopped"
NEXT = "waits for its turn"
WHEN_AGREED = "starts when its checks agree"
WHEN_ROOM = "starts when there is room"


class Outcome(Struct, frozen=True):
    """What becomes of a workload in a cycle: in a word, and why."""

    what: str
    why: str = ""
    code: str = ""


class MovedWork(Struct, frozen=True):
    """Live work for which a change matters; ``others`` of its shape fare like it."""

    id: WorkloadId
    before: Outcome
    after: Outcome
    others: int = 0


class Over(Struct, frozen=True):
    """A queue or cohort that would use more than it may."""

    node: QuotaOf
    pair: PairUse


class Consequences(Struct, frozen=True):
    """What would follow from a change at once."""

    moved: tuple[MovedWork, ...] = ()
    over: tuple[Over, ...] = ()


def consequences(view: View, after: QueueObjects, live: Iterable[Workload]) -> Consequences:
    """What would follow if these objects were those that hold."""
    work = list(live)
    clusters = [one.cluster for one in view.clusters]
    before, after = derived(view.queueing or QueueObjects(), clusters), derived(after, clusters)
    was, now = outcomes_of(with_objects(view, before)), outcomes_of(with_objects(view, after))
    moved: dict[tuple[ShapeId, Outcome, Outcome], MovedWork] = {}
    shapes = {one.id: one.shape for one in work}
    for id in dict.fromkeys((*was, *now)):
        pair = was.get(id, Outcome("goes on")), now.get(id, Outcome("goes on"))
        if (pair[0].what, pair[0].code) == (pair[1].what, pair[1].code) or id not in shapes:
            continue
        key = shapes[id], *pair
        known = moved.get(key)
        moved[key] = (
            MovedWork(id, *pair) if known is None else replace(known, others=known.others + 1)
        )
    return Consequences(tuple(moved.values()), tuple(newly_over(before, after, work)))


def with_objects(view: View, objects: QueueObjects) -> View:
    """The view as it is, but for the objects of queueing."""
    queueing = objects if objects.queues or objects.local_queues else None
    return replace(view, queueing=queueing, queueing_version=-1)


def outcomes_of(view: View) -> dict[WorkloadId, Outcome]:
    """What a cycle would do with everybody that it looks at."""
    planned = plan(replace(view, shapes=tuple(replace(part, waits=None) for part in view.shapes)))
    told = _told(planned)
    found = {
        head.id: told.get(part.id, Outcome(NEXT)) for part in view.shapes for head in part.heads
    }
    for action in planned.actions:
        match action:
            case StartRun():
                found[action.workload] = Outcome(STARTS)
            case ClaimRoom() if action.claim is not None:
                count = len(action.stops)
                if not count:
                    asked = ", ".join(action.claim.checks)
                    found[action.workload] = Outcome(WHEN_AGREED, f"asks {asked}", asked)
                    continue
                why = f"{count} running {'workload makes' if count == 1 else 'workloads make'} room"
                found[action.workload] = Outcome(WHEN_ROOM, why)
                for stop in action.stops:
                    found[stop.workload] = _stopped(stop)
            case StopRun():
                found[action.workload] = _stopped(action)
            case _:
                continue
    return found


def _stopped(stop: StopRun) -> Outcome:
    if stop.reason is None:
        return Outcome(STOPS, stop.why, stop.why)
    return Outcome(STOPS, render(stop.reason).sentence, stop.reason.code)


def _told(planned: Plan) -> dict[ShapeId, Outcome]:
    """Why the shapes wait that are told so, by the reason that weighs most."""
    found = {}
    for action in planned.actions:
        if isinstance(action, TellWaiting) and action.reasons:
            first = render(action.reasons[0])
            what = "is blocked" if first.tier == "blocked" else "waits"
            found[action.shape] = Outcome(what, first.sentence, first.code)
    return found


def newly_over(
    before: QueueObjects, after: QueueObjects, work: Sequence[Workload]
) -> Iterable[Over]:
    """The pairs of which more is used than could be, where that wasn't so before."""
    was = {key for key, _ in _over(before, work)}
    return [over for key, over in _over(after, work) if key not in was]


def _over(
    objects: QueueObjects, work: Sequence[Workload]
) -> list[tuple[tuple[str, str, Pair], Over]]:
    return [
        ((node.kind, node.name, Pair(pair.flavor, pair.resource)), Over(node, pair))
        for node in quota_of(objects, work)
        for pair in node.pairs
        if pair.used > pair.most
    ]
