"""Says why one decision about a placement isn't another: what of inputs and verdicts differs."""

from collections.abc import Iterable

from stellwerk.core.model.placing import Explained
from stellwerk.server import standing_models as models
from stellwerk.server.differing import fact_changes, spec_changes
from stellwerk.server.placements import Loaded, explained_clusters

MOST_DIFFERENCES = 50

OF_TIME = "Window"
"""What this filter finds is other words at any other moment."""


def difference(one: Loaded, two: Loaded) -> models.Difference:
    """What differs between two decisions, the clusters that came or went first."""
    old = {row.cluster.name: row.cluster for row in one.rows}
    new = {row.cluster.name: row.cluster for row in two.rows}
    verdicts = [_by_cluster(each) for each in (one, two)]
    found: list[models.ClusterDiff] = []
    for name in sorted({**old, **new}):
        facts = fact_changes(old.get(name), new.get(name))
        verdict, scores = verdict_changes(verdicts[0].get(name), verdicts[1].get(name))
        if facts or verdict or scores:
            found.append(models.ClusterDiff(name, facts, verdict, scores))
    then, now = one.choice.clusters, two.choice.clusters
    found.sort(key=lambda each: (each.cluster in then) == (each.cluster in now))
    return models.Difference(
        first=one.placed.id,
        second=two.placed.id,
        key=two.placement.key,
        inputs=_input_changes(one, two, found),
        taken=[name for name in now if name not in then],
        left=[name for name in then if name not in now],
        clusters=found[:MOST_DIFFERENCES],
        more=max(0, len(found) - MOST_DIFFERENCES),
    )


def _by_cluster(loaded: Loaded) -> dict[str, Explained]:
    all_of = explained_clusters(
        loaded.placement, loaded.choice, loaded.columns, loaded.context, models.ExplainBody()
    )
    return {one.cluster: one for one in all_of}


def verdict_changes(old: Explained | None, new: Explained | None) -> tuple[list[str], list[str]]:
    """What differs in the verdict on a cluster, and in its scores."""
    if old is None or new is None:
        return [], []
    verdict = [f"{old.verdict} -> {new.verdict}"] if old.verdict != new.verdict else []
    before = {one.rule: True for one in old.failed}
    after = {one.rule: True for one in new.failed}
    found = {(one.rule, one.found): True for one in old.failed}
    for one in new.failed:
        if one.rule not in before:
            verdict.append(f"fails now: {one.rule}, and {one.found}")
        elif (one.rule, one.found) not in found and one.filter != OF_TIME:
            verdict.append(f"fails as before: {one.rule}, and now {one.found}")
    verdict += [f"fails no more: {one.rule}" for one in old.failed if one.rule not in after]
    values = {one.title: one for one in old.scores}
    scores = [
        f"{one.title}: {values[one.title].value} -> {one.value}"
        for one in new.scores
        if one.title in values and values[one.title].value != one.value
    ]
    if old.total is not None and new.total is not None and old.total != new.total:
        scores.append(f"total: {old.total} -> {new.total}")
    return verdict, scores


def _input_changes(one: Loaded, two: Loaded, found: Iterable[models.ClusterDiff]) -> list[str]:
    changes = []
    if one.placement.key != two.placement.key:
        changes.append(f"the placement: {one.placement.key} -> {two.placement.key}")
    changes += spec_changes(one.placement, two.placement)
    changed = sum(bool(each.facts) for each in found)
    if changed:
        changes.append(f"facts of {changed} cluster{'s' * (changed > 1)}")
    if one.around != two.around:
        changes.append("sets, bindings, links or latencies")
    if one.own != two.own:
        changes.append("what its own work holds")
    first, second = one.decision.inputs, two.decision.inputs
    if first.core_version != second.core_version:
        changes.append(f"version: {first.core_version} -> {second.core_version}")
    if not changes:
        changes.append("only the time, or what other placements were given")
    return changes
