"""Answers "where would this go now?" for a workload, submitted or not; changes nothing.

The workload is put into a view behind all that waits with its priority, and the view is planned as
a cycle would plan it. What comes out holds as long as nothing that was looked at changes; the
``id`` is made of digests of exactly that, so that "run it as planned" can be refused when it has
changed, and two ids say by themselves what did.
"""

import re
from collections.abc import Container

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.actions import StartRun, TellWaiting
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import RunId, ShapeId, WorkloadId, digest
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import plan
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import Head, ShapeView, View

NOBODY = WorkloadId("w-nobody")
LAST = 1 << 62

PARTS = ("the task", "the clusters", "what runs hold", "the queue")
"""What an id looks at, each with `PART_DIGITS` digits of its own, before those of all together."""

PART_DIGITS = 3
WHOLE_DIGITS = 8
PLAN_ID = re.compile(rf"p-[0-9a-f]{{{PART_DIGITS * len(PARTS) + WHOLE_DIGITS}}}")


class Preview(Struct, frozen=True):
    """What would become of the workload in the next cycle.

    ``ahead`` counts the waiting workloads that come before it.
    """

    id: str
    starts_now: bool
    decision: Decision
    reasons: tuple[Reason, ...] = ()
    ahead: int = 0


class Outcome(Struct, frozen=True):
    """What would become of a submitted workload if it waited now: where it starts, or why not.

    ``alone`` is where it would start if nobody else waited; ``ahead`` counts those before it.
    """

    allocation: Allocation | None
    decision: Decision | None
    reasons: tuple[Reason, ...] = ()
    alone: Allocation | None = None
    ahead: int = 0


def outcome(
    view: View, shape: Shape, head: Head, run: RunId | None = None, queue: str = "default"
) -> Outcome:
    """Plans a view in which a submitted workload waits in its place, and holds nothing by a run."""
    others = without(view, head.id, run)
    shape_id = ShapeId(digest(shape))
    found = _planned(_with(others, shape_id, shape, head), shape_id, head.id)
    if found.allocation is not None:
        return found
    ahead = sum(_before(part, head) for part in others.shapes)
    nobody = _with(replace(others, shapes=()), shape_id, shape, head)
    alone = _planned(nobody, shape_id, head.id)
    reasons = found.reasons or (Reason("behind", {"ahead": ahead, "queue": queue}),)
    decision = found.decision or alone.decision
    return Outcome(None, decision, reasons, alone.allocation, ahead)


def without(view: View, id: WorkloadId, run: RunId | None = None) -> View:
    """The view as if a workload weren't there: not in line, and with nothing held by its run."""
    shapes = []
    for part in view.shapes:
        heads = tuple(one for one in part.heads if one.id != id)
        count = part.count - (len(part.heads) - len(heads))
        if heads:
            shapes.append(part if count == part.count else replace(part, heads=heads, count=count))
    clusters = tuple(
        replace(part, allocations=tuple(one for one in part.allocations if one[0] != run))
        if run is not None and any(held == run for held, _ in part.allocations)
        else part
        for part in view.clusters
    )
    return replace(
        view,
        shapes=tuple(shapes),
        clusters=clusters,
        held=tuple(one for one in view.held if one.workload != id),
        claims=tuple(one for one in view.claims if one.id != id),
    )


def decided_again(view: View, then: Decision, workload: WorkloadId | None) -> Decision | None:
    """The decision that the view gives now in the place of one that was made on it; None where it
    gives none, about the workload (or, where it isn't one's start, about its shape).
    """
    planned = plan(view)
    decisions = {decision.id: decision for decision in planned.decisions}
    for action in planned.actions:
        match action:
            case StartRun() if action.workload == workload:
                return decisions[action.decision]
            case TellWaiting() if action.shape == then.inputs.shape:
                return decisions[action.decision]
            case _:
                continue
    return None


def just_before(view: View, workload: WorkloadId | None) -> View:
    """The view with what the same cycle had started before it came to a workload; None: to those
    that wait, which are told at its end.
    """
    taken: dict[str, list[tuple[RunId, Allocation]]] = {}
    for action in plan(view).actions:
        if isinstance(action, StartRun):
            if action.workload == workload:
                break
            run = RunId(f"{action.workload}-next")
            taken.setdefault(action.allocation.cluster, []).append((run, action.allocation))
    clusters = tuple(
        replace(part, allocations=(*part.allocations, *taken[part.cluster.name]))
        if part.cluster.name in taken
        else part
        for part in view.clusters
    )
    return replace(view, clusters=clusters)


def says_the_same(one: Decision, other: Decision) -> bool:
    """Whether two decisions differ in nothing but their inputs and ids. An id isn't asked, since it
    may tell a whole number from the same one with a point.
    """
    return replace(one, id=other.id, inputs=other.inputs) == other


def _planned(view: View, shape_id: ShapeId, id: WorkloadId) -> Outcome:
    planned = plan(view)
    decisions = {decision.id: decision for decision in planned.decisions}
    for action in planned.actions:
        match action:
            case StartRun() if action.workload == id:
                return Outcome(action.allocation, decisions[action.decision])
            case TellWaiting() if action.shape == shape_id:
                return Outcome(None, decisions[action.decision], action.reasons)
            case _:
                continue
    return Outcome(None, None)


def preview(view: View, shape: Shape, priority: int, spec: str, queue: str = "default") -> Preview:
    """Plans a view with one workload more. ``spec`` is the hash of all else about the workload."""
    shape_id = ShapeId(digest(shape))
    head = Head(NOBODY, 0, priority, LAST, view.now_ms, "this")
    ahead = sum(_before(part, head) for part in view.shapes)
    starts_now, decision, reasons = _look(_with(view, shape_id, shape, head), shape_id)
    if decision is None:
        alone = replace(view, shapes=())
        _, decision, _ = _look(_with(alone, shape_id, shape, head), shape_id)
        reasons = (Reason("behind", {"ahead": ahead, "queue": queue}),)
    assert decision is not None, "alone it either starts or is told why it waits"
    place = decision.candidates[decision.chosen] if decision.chosen >= 0 else None
    outcome = (starts_now, place and (place.cluster, place.alternative))
    identity = _identity(((spec, shape, priority), *_facts(view)), outcome)
    return Preview(identity, starts_now, decision, reasons, ahead)


def waiting_now(view: View, shapes: Container[ShapeId], memory: Memory) -> dict[ShapeId, Decision]:
    """What these shapes wait for by the numbers of this view, also where it was told before.

    A shape that would start, or whose turn a cycle doesn't get to, isn't in it.
    """
    untold = (replace(part, waits=None) if part.id in shapes else part for part in view.shapes)
    planned = plan(replace(view, shapes=tuple(untold), stops=()), memory)
    decisions = {decision.id: decision for decision in planned.decisions}
    told = (action for action in planned.actions if isinstance(action, TellWaiting))
    return {one.shape: decisions[one.decision] for one in told if one.shape in shapes}


def with_one_more(view: View, shape: Shape, priority: int) -> View:
    """The view with a workload more, `NOBODY`, behind all that wait with its priority."""
    head = Head(NOBODY, 0, priority, LAST, view.now_ms, "this")
    return _with(view, ShapeId(digest(shape)), shape, head)


def changes(planned: str, now: str) -> tuple[str, ...]:
    """Names what differs between two ids of previews; "" stands for what follows from all of it."""
    if planned == now:
        return ()
    starts = range(len("p-"), len(now) - WHOLE_DIGITS, PART_DIGITS)
    differ = (planned[at : at + PART_DIGITS] != now[at : at + PART_DIGITS] for at in starts)
    return tuple(name for name, differs in zip(PARTS, differ, strict=True) if differs) or ("",)


def _identity(parts: tuple[object, ...], outcome: object) -> str:
    """An id whose digits tell apart what it was made of; the last ones are about everything."""
    digests = [digest(part) for part in parts]
    whole = digest((digests, outcome, CORE_VERSION))
    return f"p-{''.join(one[:PART_DIGITS] for one in digests)}{whole[:WHOLE_DIGITS]}"


Seen = tuple[bool, Decision | None, tuple[Reason, ...]]


def _look(view: View, shape_id: ShapeId) -> Seen:
    """Plans, and finds what became of the workload; nothing if a cycle ends before its turn."""
    planned = plan(view)
    decisions = {decision.id: decision for decision in planned.decisions}
    for action in planned.actions:
        match action:
            case StartRun() if action.workload == NOBODY:
                return True, decisions[action.decision], ()
            case TellWaiting() if action.shape == shape_id:
                return False, decisions[action.decision], action.reasons
            case _:
                continue
    return False, None, ()


def _with(view: View, shape_id: ShapeId, shape: Shape, head: Head) -> View:
    """Adds the workload; what its shape was told before is left out, so that it is told again."""
    shapes = []
    heads: tuple[Head, ...] = (head,)
    count = 1
    for part in view.shapes:
        if part.id == shape_id:
            heads = tuple(sorted((*part.heads, head), key=lambda h: (-h.priority, h.order)))
            count = part.count + 1
        else:
            shapes.append(part)
    shapes.append(ShapeView(shape_id, shape, -1, heads, count, None))
    return replace(view, shapes=tuple(shapes), stops=())


def _before(part: ShapeView, head: Head) -> int:
    """Counts those of a shape before ``head``; beyond the heads all have the lowest priority."""
    before = sum(1 for one in part.heads if one.priority >= head.priority)
    return part.count if before == len(part.heads) else before


def _facts(view: View) -> tuple[object, object, object]:
    """What a plan looked at: what the clusters are, what is allocated on them, and the queue."""
    clusters = [(part.cluster.name, part.facts) for part in view.clusters]
    held = [(part.cluster.name, sorted(part.allocations)) for part in view.clusters]
    queue = [(part.id, part.count, part.heads[:1]) for part in view.shapes]
    return clusters, held, sorted(queue, key=lambda item: item[0])
