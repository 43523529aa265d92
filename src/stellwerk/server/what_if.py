"""Answers what changes would do to a workload on what is live now. Nothing is carried out."""

from collections.abc import Sequence

from msgspec.structs import replace

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import ShapeId, digest
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.standing import Decided, Standing
from stellwerk.core.model.task import Task
from stellwerk.core.model.workload import ENDED, Workload
from stellwerk.core.place.change_verbs import World
from stellwerk.core.place.live_changes import Live, change_live
from stellwerk.core.place.policies import OPEN
from stellwerk.core.preview import Outcome, outcome
from stellwerk.core.standing import without_job
from stellwerk.core.view import View
from stellwerk.server import explain_models as models
from stellwerk.server import views
from stellwerk.server.one_cluster import head_of, shape_of
from stellwerk.server.services import Engine
from stellwerk.store import Store

IF_DECISION = "if"
"""Stands for the id of a decision that nobody stores."""


def what_if(
    store: Store, engine: Engine, view: View, workload: Workload, changes: Sequence[str]
) -> models.IfAnswer:
    """Where a workload would go, or why it would wait, without the changes and with them."""
    if workload.phase in ENDED:
        raise StellwerkError.of(
            "find/over",
            f"{workload.name} is over, so nothing is decided about it any more",
            "`stw plan FILE` says where a new one would go",
        )
    shape = shape_of(store, workload)
    standing = store.placements()
    fleet = _fleet(engine, view, standing)
    task = Task(name=workload.name, wishes=shape.wishes)
    world = World(fleet, _placements(shape, standing), view.now_ms, (task,))
    changed = change_live(Live(view, shape, world), tuple(changes))
    after = changed.view
    if changed.world != world and shape.placement and world.placements:
        decided = _decided(engine, changed, standing)
        after = replace(after, placements={**after.placements, shape.placement: decided})
    if changed.shape.wishes is not None and (changed.world, changed.shape) != (world, shape):
        after = replace(after, own={**after.own, **_own(changed, workload)})
    return models.IfAnswer(
        id=workload.id,
        name=workload.name,
        phase=workload.phase,
        runs_on=workload.live_run.allocation.cluster if workload.live_run is not None else None,
        changes=list(changes),
        before=_outcome(view, shape, workload),
        after=_outcome(after, changed.shape, workload),
        at_ms=view.now_ms,
        seq=view.seq,
    )


def _placements(shape: Shape, standing: Sequence[Standing]) -> tuple[Placement, ...]:
    """The placement that the work names, or the one that its wishes narrow."""
    named = next((one for one in standing if one.placement.key == shape.placement), None)
    if named is not None:
        return (named.placement if shape.wishes is not None else without_job(named.placement),)
    return (OPEN,) if shape.wishes is not None and not shape.placement else ()


def _own(changed: Live, workload: Workload) -> dict[ShapeId, OwnDecided]:
    """What would be decided for the wishes of the workload, as if its own run weren't there."""
    from stellwerk.core.place.own import OwnGround, decide_own, own_policy

    shape, fleet = changed.shape, changed.world.fleet
    policies = {one.key: one for one in changed.world.placements}
    key = next(iter(policies), shape.placement)
    policy = own_policy(replace(shape, placement=key), policies)
    if policy is None:
        return {}
    held = workload.live_run.allocation if workload.live_run is not None else None
    others = tuple(one for one in fleet.taken if one != held)
    ground = OwnGround(replace(fleet, taken=others))
    here = [part.cluster.name for part in changed.view.clusters]
    decided = decide_own(shape, policy, ground, changed.world.now_ms, here).decided
    return {ShapeId(digest(shape)): decided}


def _fleet(engine: Engine, view: View, standing: Sequence[Standing]) -> Fleet:
    """The fleet as placements see it; a cluster found a moment ago may not be in it yet."""
    namespaces = sorted({one.placement.namespace for one in standing})
    fleet = engine.placements.fleet(namespaces)
    known = {one.name: True for one in fleet.clusters}
    new = tuple(one.cluster for one in view.clusters if one.cluster.name not in known)
    return replace(fleet, clusters=(*fleet.clusters, *new)) if new else fleet


def _decided(engine: Engine, changed: Live, standing: Sequence[Standing]) -> Decided:
    """What the placement would be given in the changed world."""
    from stellwerk.core.inventory.columns import FleetColumns
    from stellwerk.core.model.placing import Existing, PlacingContext
    from stellwerk.core.place.placing import choose
    from stellwerk.engine.deciding import decided_of, why_not

    placement = without_job(changed.world.placements[0])
    columns = FleetColumns(changed.world.fleet)
    existing = tuple(
        Existing(one.placement.namespace, one.placement.name, one.decided.clusters)
        for one in standing
        if one.decided is not None
    )
    own = engine.placements.own(placement.key)
    context = PlacingContext(changed.world.now_ms, existing, own=own)
    choice = choose(placement, columns, context)
    chosen = {*choice.clusters, *choice.standby}
    here = [part.cluster.name for part in changed.view.clusters]
    refused = {
        name: why_not(placement, choice, columns, name, context)
        for name in here
        if name in columns.row and name not in chosen
    }
    return replace(decided_of(choice, refused), decision=IF_DECISION)


def _outcome(view: View, shape: Shape, workload: Workload) -> models.IfOutcome:
    run = workload.live_run.id if workload.live_run is not None else None
    found: Outcome = outcome(view, shape, head_of(workload), run, workload.queue)
    decided = view.placements.get(shape.placement) if shape.placement else None
    candidates = found.decision.candidates if found.decision is not None else ()
    return models.IfOutcome(
        cluster=found.allocation.cluster if found.allocation is not None else None,
        nodes=_nodes(found.allocation),
        reasons=views.rendered(found.reasons),
        candidates=[views.candidate_view(one, shape) for one in candidates],
        alone=found.alone.cluster if found.alone is not None else None,
        ahead=found.ahead,
        placement=list(decided.clusters) if decided is not None else None,
    )


def _nodes(allocation: Allocation | None) -> list[str]:
    return list(views.node_names(allocation)) if allocation is not None else []
