"""Tells everything about one candidate of a workload: of its decision, or as of now if it waits."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from msgspec.structs import replace

from stellwerk.core.model.decisions import Candidate, Decision
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.limits import NO_LIMITS, Limits
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.admitting import NodeWhy, nodes_of, ways_in
from stellwerk.core.place.candidates import answers_to
from stellwerk.core.place.changes import phrase_of
from stellwerk.core.preview import just_before, outcome
from stellwerk.core.view import Head, View
from stellwerk.server import explain_models as models
from stellwerk.server import views
from stellwerk.server.past import Past
from stellwerk.server.placements import PlacementPages, explained_clusters
from stellwerk.server.standing_models import ExplainBody
from stellwerk.store import Store

NODES_TOLD = 50
NOT_ASKED = "infra_differs"


def head_of(workload: Workload) -> Head:
    """A workload in its place in line."""
    one = workload
    return Head(one.id, one.version, one.priority, one.order, one.queued_ms, one.name)


Known = Callable[[], Iterable[str]]
"""All clusters that somebody speaks of, also those that no driver reaches."""


def of_now(
    store: Store, view: View, workload: Workload, cluster: str, known: Known
) -> models.OnCluster:
    """One candidate of a workload that waits, by the numbers of this moment."""
    shape = shape_of(store, workload)
    found = outcome(view, shape, head_of(workload))
    decision = found.decision
    assert decision is not None, "a plan tells of what it looked at"
    told = _told(store, workload, shape, view, decision, cluster, known)
    return replace(told, decision="", run=None)


def of_decision(
    store: Store,
    workload: Workload,
    decision: Decision,
    number: int,
    cluster: str,
    known: Known,
    limits: Limits = NO_LIMITS,
) -> models.OnCluster:
    """One candidate of a decision, with the nodes as they were when it was made."""
    shape = store.shape(decision.inputs.shape) or shape_of(store, workload)
    moment = Past(store, limits).of(decision)
    view = just_before(moment.view, workload.id)
    told = _told(store, workload, shape, view, decision, cluster, known)
    return replace(told, run=number)


def shape_of(store: Store, workload: Workload) -> Shape:
    """What a workload asks for."""
    shape = store.shape(workload.shape)
    assert shape is not None, "a shape is stored with the first workload that has it"
    return shape


def _told(
    store: Store,
    workload: Workload,
    shape: Shape,
    view: View,
    decision: Decision,
    cluster: str,
    known: Known,
) -> models.OnCluster:
    standing = _standing(store, shape, view, cluster)
    here = {part.cluster.name: True for part in view.clusters}
    here |= {one.cluster: True for one in decision.candidates if one.cluster != "any"}
    if cluster not in here and (standing is None or standing.candidate is None):
        names = here | dict.fromkeys(known(), True)
        if cluster not in names:
            raise no_cluster(cluster, names)
    chosen = decision.candidates[decision.chosen] if decision.chosen >= 0 else None
    return models.OnCluster(
        id=workload.id,
        name=workload.name,
        phase=workload.phase,
        run=None,
        cluster=cluster,
        at_ms=decision.inputs.now_ms,
        decision=decision.id,
        chosen=chosen.cluster if chosen is not None else None,
        alternatives=_alternatives(shape, view, decision, chosen, cluster),
        placement=standing,
        seq=store.seq(),
        reasons=views.rendered(one for one in decision.reasons if "cluster" not in one.params),
    )


def no_cluster(name: str, known: dict[str, bool]) -> StellwerkError:
    """Says that there is no such cluster, and which one may have been meant."""
    close = get_close_matches(name, known, 1)
    help = f"did you mean `{close[0]}`?" if close else "`stw clusters` lists them"
    return StellwerkError.of("find/cluster", f"there is no cluster `{name[:80]}`", help)


def _alternatives(
    shape: Shape, view: View, decision: Decision, chosen: Candidate | None, cluster: str
) -> list[models.AlternativeOn]:
    told = {one.alternative: one for one in decision.candidates if one.cluster == cluster}
    part = next((one for one in view.clusters if one.cluster.name == cluster), None)
    found = []
    for index, alternative in enumerate(shape.alternatives):
        one = told.get(index)
        if one is None:
            if part is not None and answers_to(part.cluster, alternative.infra):
                continue  # its placement speaks of the cluster once, whatever is asked for
            if not alternative.infra:
                continue
            reason = Reason(NOT_ASKED, {"cluster": cluster, "infra": alternative.infra})
            one = Candidate(cluster, index, "not asked", (reason,))
        shown = views.candidate_view(one, shape)
        nodes = nodes_of(view, cluster, shape, index)
        is_in = one.verdict in {"chosen", "fits"}
        scored = chosen is not None and one.verdict == "fits"
        found.append(
            models.AlternativeOn(
                alternative=index,
                wants=shown.wants,
                verdict=shown.verdict,
                reasons=shown.reasons,
                shortfalls=shown.shortfalls,
                scores=shown.scores,
                total=shown.total,
                behind=chosen.total - one.total if chosen is not None and scored else None,
                ways=[] if is_in else _ways(view, cluster, shape, index),
                nodes=[node_view(node) for node in nodes[:NODES_TOLD]],
                more_nodes=max(0, len(nodes) - NODES_TOLD),
                figures=shown.figures,
            )
        )
    return found


def _ways(view: View, cluster: str, shape: Shape, index: int) -> list[list[models.ChangeView]]:
    return [
        [models.ChangeView(change.text, change.change_if) for change in way]
        for way in ways_in(view, cluster, shape, index)
    ]


def node_view(one: NodeWhy) -> models.NodeOn:
    """A node with why nothing fits there, in short."""
    if one.state != "ready":
        told = one.note and one.note != one.state
        why = f"{one.state}: {one.note}" if told else one.state
    elif one.avoided:
        why = "kept off it: a run failed there for its fault"
    else:
        lacks = [views.shortfall_view(short).text for short in one.shortfalls]
        why = "; ".join([*lacks, *([one.note] if lacks and one.note else [])])
    return models.NodeOn(one.node, 0 if one.avoided else one.fits, why)


def _standing(store: Store, shape: Shape, view: View, cluster: str) -> models.InPlacement | None:
    """What the placement decided about the cluster, by the decision that held then."""
    decided = view.placements.get(shape.placement) if shape.placement else None
    if decided is None or not decided.decision:
        return None
    loaded = PlacementPages(store).load("", decided.decision)
    is_known = cluster in loaded.columns.row
    body = ExplainBody(clusters=[cluster])
    parts = (loaded.placement, loaded.choice, loaded.columns, loaded.context)
    found = explained_clusters(*parts, body) if is_known else []
    candidate = found[0] if found else None
    failed = candidate.failed if candidate is not None else ()
    return models.InPlacement(
        placement=shape.placement,
        decision=decided.decision,
        at_ms=loaded.placed.at_ms,
        clusters=list(decided.clusters),
        candidate=candidate,
        changes=[phrase_of(cluster, rule.change) for rule in failed],
    )
