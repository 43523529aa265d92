"""Says how a waiting workload stands in its queue: place, quota, contenders, what would admit it.

A way in is told only if it was tried: the change is made on a copy of the view, and the next cycle
planned there. The smallest of each kind is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.contenders import Asking, Contender, contenders_of
from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.core.model.limits import Aging
from stellwerk.core.model.queueing import Pair
from stellwerk.core.model.resources import Shape
from stellwerk.core.place.aging import aging_of, risen, turn_of
from stellwerk.core.place.derived import derived
from stellwerk.core.place.past import PastOrder
from stellwerk.core.preview import without
from stellwerk.core.queue.asked import requests_of
from stellwerk.core.queue.entries import QueueState, Verdict
from stellwerk.core.queue.explain import narrowest
from stellwerk.core.queue.options import Option
from stellwerk.core.queue.quota import Quota
from stellwerk.core.queueing_preview import STARTS, WHEN_ROOM, outcomes_of
from stellwerk.core.view import Head, ShapeView, View
from stellwerk.core.what_if import MOST_PRIORITY, raised, with_quota, with_room

ENDS_TRIED = 6
PRIORITIES_TRIED = 5
PLACES_TRIED = 3


class Narrow(Struct, frozen=True):
    """What is lacking of a flavor's resource, and the level that lets the least through."""

    flavor: str
    resource: str
    wanted: int
    available: int
    level: str


class Rises(Struct, frozen=True, omit_defaults=True):
    """How its priority rises: by so much an hour, so much so far, and by so much at most.

    From ``at_ms`` on new work of the priority ``passes`` comes after it, the highest of those that
    wait; 0 = that is never so.
    """

    per_hour: int
    gained: int
    most: int
    passes: int = 0
    at_ms: int = 0


class WayIn(Struct, frozen=True):
    """A change that would let it start, as `whatif` takes it, and what it would do then."""

    kind: str
    change: str
    then: str


class InLine(Struct, frozen=True, omit_defaults=True):
    """How it stands. ``queue`` "" = no ClusterQueue binds it; ``ahead_wants`` is what those before
    it in the same queue ask for together, in thousandths of each unit.
    """

    queue: str
    place: int
    waiting: int
    ahead_wants: dict[str, int] = {}
    narrow: tuple[Narrow, ...] = ()
    contenders: tuple[Contender, ...] = ()
    ways: tuple[WayIn, ...] = ()
    rises: Rises | None = None


class _Mine(NamedTuple):
    part: ShapeView
    head: Head

    aging: Aging = Aging()
    now_ms: int = 0

    def comes_after(self, head: Head, used: float = 0.0, used_mine: float = 0.0) -> bool:
        mine = turn_of(self.aging, self.head, self.now_ms)
        return (used, *turn_of(self.aging, head, self.now_ms)) < (used_mine, *mine)


def quota_in(view: View) -> Quota | None:
    """The quota of a view's queues with all that is held; None where there are none."""
    if view.queueing is None:
        return None
    quota = Quota(derived(view.queueing, [one.cluster for one in view.clusters]))
    quota.begin(view.held)
    return quota


def in_line(view: View, id: WorkloadId, quota: Quota | None, *, ways: bool = True) -> InLine | None:
    """How a workload stands that waits in a view; None if it isn't among those looked at.

    ``quota`` is that of the view; it may be asked about many. Without ``ways`` only what it lacks
    is told, and who holds that; what waits for checks alone lacks nothing.
    """
    pairs = (_Mine(part, head) for part in view.shapes for head in part.heads if head.id == id)
    mine = next(pairs, None)
    if mine is None:
        return None
    door = quota.door(mine.part.shape.queue) if quota is not None else None
    queue = door.queue if door is not None else None
    mine = mine._replace(aging=aging_of(view, queue), now_ms=view.now_ms)
    nowhere: tuple[int, int, dict[str, int]] = 0, 0, {}
    place, waiting, ahead = _places(view, quota, mine, queue) if ways else nowhere
    rises = _rises(view, mine) if ways else None
    if quota is None or queue is None:
        found = InLine("", place, waiting, ahead, rises=rises)
        return replace(found, ways=tuple(_ways(view, mine, {}, (), None))) if ways else found
    if any(one.id == id and not one.live for one in view.claims):
        return InLine(queue.name, place, waiting, ahead, rises=rises)
    option, lacking = _lacking(quota, queue, mine.part.shape)
    usage = option.usage if option is not None else {}
    short = {one: amount - queue.node.available(one) for one, amount in lacking.items()}
    about = short or usage
    asking = Asking(quota, queue, mine.head, option, about, view.now_ms)
    contenders = contenders_of(asking)
    narrow = tuple(
        Narrow(
            one.flavor, one.resource, amount, queue.node.available(one),
            narrowest(queue.node, one),
        )
        for one, amount in lacking.items()
    )  # fmt: skip
    found = InLine(queue.name, place, waiting, ahead, narrow, contenders, rises=rises)
    if not ways:
        return found
    return replace(found, ways=tuple(_ways(view, mine, short, contenders, queue)))


def _places(
    view: View, quota: Quota | None, mine: _Mine, queue: QueueState | None
) -> tuple[int, int, dict[str, int]]:
    """Its place in its queue, how many wait there, and what those before it ask for."""
    place, waiting = 1, 0
    wants: dict[str, int] = {}
    used = PastOrder(view, quota) if quota is not None else None
    mine_used = _used(used, mine.part.shape)
    for part in view.shapes:
        door = quota.door(part.shape.queue) if quota is not None else None
        same = part.shape.queue == mine.part.shape.queue
        if queue is not None:
            same = door is not None and door.queue is queue
        if not same:
            continue
        waiting += part.count
        its_used = _used(used, part.shape)
        before = sum(mine.comes_after(head, its_used, mine_used) for head in part.heads)
        if before == len(part.heads):
            before = part.count
        place += before
        for resource, amount in _asks(part.shape).items() if before else ():
            wants[resource] = wants.get(resource, 0) + before * amount
    return place, waiting, wants


def _used(past: PastOrder | None, shape: Shape) -> float:
    """What comes before priority in the order of its queue: past use, or the same for all."""
    known = past.of(shape) if past is not None else None
    return 0.0 if known is None else known.used


def _rises(view: View, mine: _Mine) -> Rises | None:
    aging, head = mine.aging, mine.head
    if not aging.per_hour:
        return None
    highest = max(one.priority for part in view.shapes for one in part.heads)
    lacks = highest - head.priority
    at_ms = head.queued_ms - (-lacks * 3_600_000 // aging.per_hour) if lacks <= aging.most else 0
    gained = risen(aging, head, view.now_ms)
    return Rises(aging.per_hour, gained, aging.most, highest, at_ms)


def _asks(shape: Shape) -> dict[str, int]:
    requests = requests_of(shape.alternatives[0].request)
    return {name: amount * shape.num_nodes for name, amount in requests.items()}


def _lacking(
    quota: Quota, queue: QueueState, shape: Shape
) -> tuple[Option | None, dict[Pair, int]]:
    """The choice of flavors that is nearest to what it has, and what it asks of what is lacking.

    Nothing is lacking where quota would let it start.
    """
    best: tuple[int, Option | None, dict[Pair, int]] | None = None
    for alternative in shape.alternatives:
        requests = requests_of(alternative.request, queue.group_of)
        options, verdicts = quota.options(queue, requests, shape.num_nodes, shape.topology)
        for option in options:
            lacks = {pair: option.usage[pair] for pair in option.short}
            best = _nearer(best, queue, option, lacks)
        if not options:
            for lacks in _by_flavor(verdicts).values():
                best = _nearer(best, queue, None, lacks)
    return (None, {}) if best is None else best[1:]


def _by_flavor(verdicts: list[Verdict]) -> dict[str, dict[Pair, int]]:
    found: dict[str, dict[Pair, int]] = {}
    for one in verdicts:
        if one.code in {"short", "exceeds"}:
            found.setdefault(one.flavor, {})[Pair(one.flavor, one.resource)] = one.wanted
    return found


def _nearer(
    best: tuple[int, Option | None, dict[Pair, int]] | None,
    queue: QueueState,
    option: Option | None,
    lacks: dict[Pair, int],
) -> tuple[int, Option | None, dict[Pair, int]]:
    missing = sum(amount - queue.node.available(pair) for pair, amount in lacks.items())
    return best if best is not None and best[0] <= missing else (missing, option, lacks)


def _ways(
    view: View,
    mine: _Mine,
    short: dict[Pair, int],
    contenders: tuple[Contender, ...],
    queue: QueueState | None,
) -> Iterator[WayIn]:
    """One change of each kind that was tried and lets it start."""
    ahead = _up_to(view, mine)
    if _starts(ahead, mine):
        return  # by itself, in the next cycle
    for kind in (
        _ends(ahead, mine, contenders),
        _quotas(ahead, short, queue),
        _priorities(ahead, mine, contenders),
        _places_back(ahead),
    ):
        for one, change, changed in kind:
            then = _starts(changed, mine)
            if then:
                yield WayIn(one, change, then)
                break


def _starts(view: View, mine: _Mine) -> str:
    """What the next cycle makes of it, if it starts or others are stopped for it; else ""."""
    then = outcomes_of(view).get(mine.head.id)
    return then.what if then is not None and then.what in {STARTS, WHEN_ROOM} else ""


_Tried = Iterator[tuple[str, str, View]]


def _up_to(view: View, mine: _Mine) -> View:
    """The view without those whose turn comes later: they change nothing for it."""
    shapes = []
    for part in view.shapes:
        heads = tuple(one for one in part.heads if mine.comes_after(one) or one is mine.head)
        if heads:
            shapes.append(replace(part, heads=heads, count=len(heads)))
    return replace(view, shapes=tuple(shapes))


def _ends(view: View, mine: _Mine, contenders: tuple[Contender, ...]) -> _Tried:
    """The end of one run, or of one that waits before it; who holds least goes first."""
    names = {one.run: (one.workload, one.name) for one in contenders}
    runs: list[tuple[int, RunId, WorkloadId, str]] = []
    for part in view.clusters:
        for run, allocation in part.allocations:
            workload, name = names.get(run, (WorkloadId(run.rpartition("-")[0]), ""))
            if contenders and run not in names:
                continue
            devices = sum(len(node.devices) for node in allocation.nodes)
            cpus = sum(node.cpus_milli for node in allocation.nodes)
            runs.append((devices * 1_000_000 + cpus, run, workload, name or workload))
    for _, run, workload, name in sorted(runs)[:ENDS_TRIED]:
        yield "end", f"cancel {name}", without(view, workload, run)
    heads = [one for part in view.shapes for one in part.heads if mine.comes_after(one)]
    for head in sorted(heads, key=lambda one: (-one.priority, one.order))[:1]:
        yield "end", f"cancel {head.name}", without(view, head.id)


def _quotas(view: View, short: dict[Pair, int], queue: QueueState | None) -> _Tried:
    """So much more as is missing, at its queue or at a cohort above it."""
    if queue is None or not short:
        return
    for node in (queue.node, *queue.node.above()):
        changed, phrases = view, []
        for pair, missing in short.items():
            words = [node.name, pair.flavor, f"{pair.resource}=+{write_kubernetes(missing)}"]
            changed = with_quota(changed, words)
            phrases.append(" ".join(("quota", *words)))
        yield "quota", " and ".join(phrases), changed


def _priorities(view: View, mine: _Mine, contenders: tuple[Contender, ...]) -> _Tried:
    """The least priority with which it would pass others, or might stop them."""
    others = [one.priority for one in contenders]
    others += [one.priority for part in view.shapes for one in part.heads]
    now = mine.head.priority
    wanted = sorted({one + 1 for one in others if now <= one < MOST_PRIORITY})
    for priority in wanted[:PRIORITIES_TRIED]:
        changed = raised(view, mine.head.id, mine.head.name, priority)
        yield "priority", f"priority {mine.head.name} {priority}", changed


def _places_back(view: View) -> _Tried:
    """A cluster of which nodes can't be used now."""
    back = [
        part.cluster.name
        for part in view.clusters
        if any(node.state != "ready" for node in part.cluster.nodes)
    ]
    for name in back[:PLACES_TRIED]:
        yield "room", f"resume {name}", with_room(view, "resume", [name])
