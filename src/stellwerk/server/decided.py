"""What was decided about one workload: its decisions, why one isn't another, and each again."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Candidate, Decision
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import DecisionId, RunId, workload_of
from stellwerk.core.model.limits import NO_LIMITS, Limits
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.workload import ENDED, WAITING, Workload
from stellwerk.core.preview import decided_again, outcome, says_the_same
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import ClusterView, View
from stellwerk.server import standing_models as models
from stellwerk.server import views
from stellwerk.server.differing import fact_changes, field_changes, spec_changes
from stellwerk.server.one_cluster import head_of, shape_of
from stellwerk.server.past import Moment, Past
from stellwerk.store import Store, Wait

NOW = "now"
"""Stands for what would be decided at this moment."""

MOST_CLUSTERS = 50
RUNS_TOLD = 4


class Known(NamedTuple):
    """A decision with what it was made of; nothing of it where nobody noted that."""

    decision: Decision
    moment: Moment | None


def decisions_of(store: Store, workload: Workload) -> list[Decision]:
    """The stored decisions about a workload in the order they were made: of each run, and the last
    about why it waited.
    """
    names = [run.decision for run in workload.runs]
    wait = store.waits(workload.shape)
    if wait is not None and _is_about(wait, workload):
        names.append(wait.decision)
    found = [one[0] for name in dict.fromkeys(names) if (one := store.decision(name))]
    return sorted(found, key=lambda one: (one.inputs.now_ms, one.inputs.seq))


def _is_about(wait: Wait, workload: Workload) -> bool:
    """Whether a shape was found to wait while this workload did."""
    if workload.phase in WAITING:
        return True
    planned_ms = workload.runs[-1].planned_ms if workload.runs else workload.ended_ms
    return workload.submitted_ms <= wait.at_ms <= planned_ms


Shows = Callable[[str], bool]
"""Whether whoever asks is told the names of somebody's work."""


def difference(
    store: Store, workload: Workload, view: View, first: str, second: str, shows: Shows
) -> models.Difference:
    """Why one decision about a workload isn't another; without names, of the last two."""
    one, two = _two(store, workload, first, second)
    past = Past(store, view.limits)
    loaded = {}
    for each in sorted((one, two), key=lambda each: each.inputs.seq if each else view.seq):
        loaded[each is one] = _known(store, workload, view, past, each)
    return _compared(store, workload, loaded[True], loaded[False], (one, two), shows)


def _two(
    store: Store, workload: Workload, first: str, second: str
) -> tuple[Decision | None, Decision | None]:
    """The two that are meant; None is what would be decided now."""
    if first or second:
        return _named(store, workload, first or NOW), _named(store, workload, second or NOW)
    known = decisions_of(store, workload)
    if len(known) > 1:
        return known[-2], known[-1]
    if known and workload.phase not in ENDED:
        return known[0], None
    told = f"only {known[0].id}" if known else "nothing yet"
    raise StellwerkError.of(
        "find/decision",
        f"there are no two decisions about {workload.name}: {told} was decided",
        "`stw explain NAME` tells of the last one",
    )


def _named(store: Store, workload: Workload, name: str) -> Decision | None:
    if name == NOW and workload.phase not in ENDED:
        return None
    known = decisions_of(store, workload)
    found = next((one for one in known if one.id == name), None)
    stored = store.decision(DecisionId(name)) if found is None else None
    if stored is not None and stored[0].inputs.shape == workload.shape:
        return stored[0]
    if found is None:
        told = ", ".join(one.id for one in known[-8:]) or "none yet"
        raise StellwerkError.of(
            "find/decision",
            f"there is no decision `{name[:80]}` about {workload.name}",
            f"there are: {told}" + ("" if workload.phase in ENDED else f", and `{NOW}`"),
        )
    return found


def _known(
    store: Store, workload: Workload, view: View, past: Past, decision: Decision | None
) -> Known:
    if decision is not None:
        return Known(decision, past.of(decision) if decision.inputs.seq else None)
    run = workload.live_run.id if workload.live_run is not None else None
    found = outcome(view, shape_of(store, workload), head_of(workload), run).decision
    assert found is not None, "a plan tells of what it looked at"
    placements = {one.placement.key: one.placement for one in store.placements()}
    return Known(found, Moment(view, placements))


def _compared(
    store: Store,
    workload: Workload,
    one: Known,
    two: Known,
    named: tuple[Decision | None, Decision | None],
    shows: Shows,
) -> models.Difference:
    facts = _facts(store, one, two, workload, shows)
    verdicts = _verdicts(one.decision, two.decision)
    found = []
    for cluster in dict.fromkeys((*verdicts, *facts)):
        verdict, scores = verdicts.get(cluster, ([], []))
        found.append(models.ClusterDiff(cluster, facts.get(cluster, []), verdict, scores))
    then, now = _chosen(one.decision), _chosen(two.decision)
    first, second = (each.id if each is not None else NOW for each in named)
    return models.Difference(
        first=first,
        second=second,
        key=workload.name,
        inputs=_inputs(store, one, two, len(facts)),
        taken=[now] if now and now != then else [],
        left=[then] if then and now != then else [],
        clusters=found[:MOST_CLUSTERS],
        more=max(0, len(found) - MOST_CLUSTERS),
    )


def _chosen(decision: Decision) -> str:
    return decision.candidates[decision.chosen].cluster if decision.chosen >= 0 else ""


def _facts(
    store: Store, one: Known, two: Known, workload: Workload, shows: Shows
) -> dict[str, list[str]]:
    """What is otherwise about each cluster, and which runs came and went there."""
    if one.moment is None or two.moment is None:
        return {}
    old = {part.cluster.name: part for part in one.moment.view.clusters}
    new = {part.cluster.name: part for part in two.moment.view.clusters}
    found = {}
    for name in sorted({**old, **new}):
        before, after = old.get(name), new.get(name)
        told = fact_changes(_cluster(before), _cluster(after))
        if before is not None and after is not None:
            told += _runs(store, before, after, workload, shows)
        if told:
            found[name] = told
    return found


def _cluster(part: ClusterView | None) -> Cluster | None:
    return part.cluster if part is not None else None


def _runs(
    store: Store, old: ClusterView, new: ClusterView, workload: Workload, shows: Shows
) -> list[str]:
    before, after = dict(old.allocations), dict(new.allocations)
    came = {run: held for run, held in after.items() if run not in before}
    gone = {run: held for run, held in before.items() if run not in after}
    told = []
    for verb, all_of in (("came", came), ("left", gone)):
        runs = {run: held for run, held in all_of.items() if workload_of(run) != workload.id}
        listed = [_holding(store, run, held, shows) for run, held in list(runs.items())[:RUNS_TOLD]]
        more = [f"{len(runs) - RUNS_TOLD} more"] if len(runs) > RUNS_TOLD else []
        if listed:
            told.append(f"{verb}: {', '.join([*listed, *more])}")
    return told


def _holding(store: Store, run: RunId, held: Allocation, shows: Shows) -> str:
    row = store.workload(workload_of(run), "")
    name = "somebody's" if row is None or not shows(row.workload.owner) else row.workload.name
    return f"{name} ({views.holds_text(held)})"


def _verdicts(one: Decision, two: Decision) -> dict[str, tuple[list[str], list[str]]]:
    """What turned for each cluster: verdicts and reasons with their numbers, and scores."""
    old = {(each.cluster, each.alternative): each for each in one.candidates}
    new = {(each.cluster, each.alternative): each for each in two.candidates}
    found: dict[str, tuple[list[str], list[str]]] = {}
    for key in dict.fromkeys((*new, *old)):
        verdict, scores = _turned(old.get(key), new.get(key))
        if verdict or scores:
            told = found.setdefault(key[0], ([], []))
            told[0].extend(verdict)
            told[1].extend(scores)
    return found


def _turned(old: Candidate | None, new: Candidate | None) -> tuple[list[str], list[str]]:
    was, now = (_word(one) for one in (old, new))
    verdict = [f"{was} -> {now}"] if was != now else []
    before = _sentences(old)
    after = _sentences(new)
    verdict += [f"now: {one}" for one in after if one not in before]
    verdict += [f"no more: {one}" for one in before if one not in after]
    if old is None or new is None:
        return verdict, []
    scores = [
        f"{name}: {old.scores[name]} -> {new.scores[name]}"
        for name in new.scores
        if name in old.scores and old.scores[name] != new.scores[name]
    ]
    if old.scores and new.scores and old.total != new.total:
        scores.append(f"total: {old.total} -> {new.total}")
    return verdict, scores


def _word(one: Candidate | None) -> str:
    return one.verdict if one is not None else "no candidate"


def _sentences(one: Candidate | None) -> list[str]:
    return [each.sentence for each in views.rendered(one.reasons)] if one is not None else []


def _inputs(store: Store, one: Known, two: Known, changed: int) -> list[str]:
    """What the two were made of, as far as it differs."""
    first, second = one.decision.inputs, two.decision.inputs
    told = []
    shapes = (store.shape(first.shape), store.shape(second.shape))
    if first.shape != second.shape and shapes[0] is not None and shapes[1] is not None:
        told += [f"what it asks for, {each}" for each in field_changes(shapes[0], shapes[1])]
    told += _policy(one, two, shapes)
    if changed:
        told.append(f"{changed} cluster{'s' * (changed > 1)}, or what runs hold there")
    if first.core_version != second.core_version:
        told.append(f"version: {first.core_version} -> {second.core_version}")
    if one.moment is None or two.moment is None:
        told.append("what the older one was made of wasn't noted by the version that made it")
    return told or ["only the time, or who else waited"]


def _policy(one: Known, two: Known, shapes: tuple[Shape | None, Shape | None]) -> list[str]:
    """How the workload's placement differs, and what it and the wishes were given."""
    first, second = shapes
    if one.moment is None or two.moment is None or first is None or second is None:
        return []
    told = []
    if first.wishes is not None or second.wishes is not None:
        wished = (_wished(each) for each in (one, two))
        told += _given("its wishes gave", *wished)
    key = first.placement
    if not key or key != second.placement:
        return told
    specs = (one.moment.placements.get(key), two.moment.placements.get(key))
    if specs[0] is not None and specs[1] is not None:
        told += [f"placement {key}, {each}" for each in spec_changes(specs[0], specs[1])]
    elif specs[0] is not specs[1]:
        told.append(f"placement {key} {'is gone' if specs[1] is None else 'is new'}")
    given = (each.view.placements.get(key) for each in (one.moment, two.moment))
    chose = [each.clusters if each is not None else () for each in given]
    return told + _given(f"placement {key} chose", *chose)


def _given(what: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    if tuple(before) == tuple(after):
        return []
    return [f"{what} {', '.join(before) or 'nothing'} -> {', '.join(after) or 'nothing'}"]


def _wished(known: Known) -> tuple[str, ...]:
    """The clusters where the wishes let it start, best first."""
    own = known.moment.view.own if known.moment is not None else {}
    decided = own.get(known.decision.inputs.shape)
    return tuple(dict.fromkeys(one.cluster for one in decided.ranked)) if decided else ()


def replay(
    store: Store, workload: Workload, name: str, limits: Limits = NO_LIMITS
) -> models.Replayed:
    """Decides again what was decided about a workload, on what the journal says of that moment."""
    known = decisions_of(store, workload)
    if not known and not name:
        raise StellwerkError.of(
            "find/decision", f"nothing has been decided about {workload.name} yet", "wait a moment"
        )
    then = _named(store, workload, name) if name else known[-1]
    if then is None:
        raise StellwerkError.of(
            "find/decision", f"`{NOW}` isn't stored", "`--if` says what would be decided now"
        )
    moment = Past(store, limits).of(then)
    ran = any(run.decision == then.id for run in workload.runs)
    again = decided_again(moment.view, then, workload.id if ran else None)
    same_version = then.inputs.core_version == CORE_VERSION
    identical = again is not None and says_the_same(again, then)
    if identical and again is not None and same_version:
        identical = again.inputs == then.inputs
    return models.Replayed(
        decision=then.id,
        key=workload.name,
        identical=identical,
        same_version=same_version,
        core_version=then.inputs.core_version,
        then=[_chosen(then)] if _chosen(then) else [],
        now=[_chosen(again)] if again is not None and _chosen(again) else [],
        differences=[] if identical else _differences(then, again, limits),
    )


def _differences(then: Decision, again: Decision | None, limits: Limits) -> list[str]:
    noted = ["limits of people count as they are now"] if limits.bind else []
    if again is None:
        return ["it isn't decided at all", *noted]
    told = [
        f"{cluster}: {text}"
        for cluster, (verdict, scores) in _verdicts(then, again).items()
        for text in (*verdict, *scores)
    ]
    if then.inputs != again.inputs:
        told += [f"inputs, {each}" for each in field_changes(then.inputs, again.inputs)]
    told = told or ["the order of candidates, the next best, or what would change it"]
    return [*told, *noted]
