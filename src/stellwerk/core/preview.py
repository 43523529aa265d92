"""Answers "where would this go now?" for a workload that nobody has submitted; changes nothing.

The workload is put into a view behind all that waits with its priority, and the view is planned as
a cycle would plan it. What comes out holds as long as nothing that was looked at changes; the
``id`` is a digest of exactly that, so that "run it as planned" can be refused when it has changed.
"""

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.actions import StartRun, TellWaiting
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import ShapeId, WorkloadId, digest
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.plan import plan
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import Head, ShapeView, View

NOBODY = WorkloadId("w-nobody")
LAST = 1 << 62


class Preview(Struct, frozen=True):
    """What would become of the workload in the next cycle.

    ``ahead`` counts the waiting workloads that come before it.
    """

    id: str
    starts_now: bool
    decision: Decision
    reasons: tuple[Reason, ...] = ()
    ahead: int = 0


def preview(view: View, shape: Shape, priority: int, spec: str) -> Preview:
    """Plans a view with one workload more. ``spec`` is the hash of all else about the workload."""
    shape_id = ShapeId(digest(shape))
    head = Head(NOBODY, 0, priority, LAST, view.now_ms, "this")
    identity = f"p-{digest((spec, shape, priority, _facts(view), CORE_VERSION))}"
    ahead = sum(_before(part, head) for part in view.shapes)
    starts_now, decision, reasons = _look(_with(view, shape_id, shape, head), shape_id)
    if decision is None:
        alone = replace(view, shapes=())
        _, decision, _ = _look(_with(alone, shape_id, shape, head), shape_id)
        reasons = (Reason("behind", {"ahead": ahead, "queue": "default"}),)
    assert decision is not None, "alone it either starts or is told why it waits"
    return Preview(identity, starts_now, decision, reasons, ahead)


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


def _facts(view: View) -> list[object]:
    """What a plan looked at: each cluster's facts with what is allocated on it, and the queue."""
    clusters = [(part.facts, sorted(part.allocations)) for part in view.clusters]
    queue = [(part.id, part.count, part.heads[:1]) for part in view.shapes]
    return [clusters, sorted(queue, key=lambda item: item[0])]
