"""Placements over columns come to what plain loops come to, in both modes, and keep their word."""

import subprocess
import sys
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, Costs, Device, Node, ScoreObject, Taint
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, Latency, SetBinding
from stellwerk.core.model.placement import (
    Compat,
    GroupRule,
    Limits,
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.placing import Choice, Existing, PlacingContext
from stellwerk.core.model.resources import (
    Allocation,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.place.explained import explain
from stellwerk.core.place.placing import choose, stored
from tests.core.place.arbitrary_placing import NOW_MS, context_of, fleet_of, placement_of
from tests.core.place.naive_placing import choose_naively

GIB = 1 << 30
SCORE = Prioritizer("free", 1, "gpu")


def cluster(name: str, free: int | None = None, **fields: object) -> Cluster:
    """A cluster of set s."""
    labels = {SET_LABEL: "s", **fields.pop("labels", {})}  # type: ignore[dict-item]
    scores = {} if free is None else {"gpu": ScoreObject({"free": free})}
    given = {"driver": "ocm", "nodes": (), "labels": labels, "scores": scores, **fields}
    return Cluster(name=name, **given)  # type: ignore[arg-type]


def fleet(*clusters: Cluster, **fields: object) -> Fleet:
    """These clusters, their set bound to namespace d."""
    given = {"sets": (ClusterSet("s"),), "bindings": (SetBinding("d", "s"),), **fields}
    return Fleet(clusters=clusters, **given)  # type: ignore[arg-type]


def placement(**fields: object) -> Placement:
    """A placement by the free score alone."""
    given = {"mode": "Exact", "prioritizers": (SCORE,), **fields}
    return Placement("d", "p", **given)  # type: ignore[arg-type]


def held(*names: str) -> PlacingContext:
    """What the placement has."""
    return PlacingContext(NOW_MS, (Existing("d", "p", names),))


NOTHING = PlacingContext(NOW_MS)
SEEDS = st.integers(0, 1 << 32)
MODES: st.SearchStrategy[Compat] = st.sampled_from(["", "ocm"])


def arbitrary(
    seed: int, mode: Compat, *, own: bool = True
) -> tuple[Fleet, Placement, PlacingContext]:
    """A fleet, a placement and decisions."""
    chance = Random(seed)
    return fleet_of(chance), placement_of(chance, mode), context_of(chance, own=own)


def answer(
    one: Placement, world: Fleet, context: PlacingContext = NOTHING
) -> tuple[FleetColumns, Choice]:
    """The columns, and the choice on them."""
    columns = FleetColumns.of(world)
    return columns, choose(one, columns, context)


@settings(max_examples=150)
@given(SEEDS)
def test_as_in_the_reference(seed: int) -> None:
    """Under compat the columns come to exactly what loops over structs come to."""
    world, one, context = arbitrary(seed, "ocm")
    _, choice = answer(one, world, context)
    names, totals = choose_naively(world, one, context)
    assert choice.clusters == tuple(names)
    assert choice.totals == tuple(totals[name] for name in names)


@settings(max_examples=150)
@given(SEEDS)
def test_by_default_without_decisions(seed: int) -> None:
    """By default, too, where nothing was decided before."""
    world, one, context = arbitrary(seed, "", own=False)
    _, choice = answer(one, world, context)
    names, totals = choose_naively(world, one, context)
    assert choice.clusters == tuple(names)
    assert choice.totals == tuple(totals[name] for name in names)


@settings(max_examples=60)
@given(SEEDS, MODES)
def test_the_explanation_recomputes_the_total(seed: int, mode: Compat) -> None:
    """Contributions add up to the total, and the verdicts are those of the choice."""
    world, one, context = arbitrary(seed, mode)
    columns, choice = answer(one, world, context)
    told = explain(one, choice, columns, context)
    assert len(told) == len({cluster.name for cluster in world.clusters})
    total_of = dict(zip(choice.clusters, choice.totals, strict=True))
    for candidate in told:
        assert (candidate.verdict == "refused") == bool(candidate.failed)
        if candidate.verdict == "refused":
            continue
        assert candidate.total == sum(line.contribution for line in candidate.scores)
        assert all(
            line.value is None or line.contribution == line.weight * line.value
            for line in candidate.scores
        )
        if candidate.verdict == "chosen":
            assert candidate.total == total_of[candidate.cluster]


@settings(max_examples=60)
@given(SEEDS, MODES)
def test_order_of_the_input_changes_nothing(seed: int, mode: Compat) -> None:
    """Clusters in another order give the same choice, to the byte."""
    world, one, context = arbitrary(seed, mode)
    clusters = list(world.clusters)
    Random(seed).shuffle(clusters)
    _, first = answer(one, world, context)
    _, second = answer(one, replace(world, clusters=tuple(clusters)), context)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)


@settings(max_examples=60)
@given(SEEDS, MODES)
def test_a_refused_cluster_changes_nothing_else(seed: int, mode: Compat) -> None:
    """One more cluster that no set has leaves clusters, totals and conditions as they are."""
    world, one, context = arbitrary(seed, mode)
    other = cluster("b-irrelevant", 100, labels={SET_LABEL: "elsewhere"})
    _, first = answer(one, world, context)
    _, second = answer(one, replace(world, clusters=(*world.clusters, other)), context)
    assert first.clusters == second.clusters
    assert first.totals == second.totals
    assert first.conditions == second.conditions
    assert first.requeue_at_ms == second.requeue_at_ms


def changed(world: Fleet, one: Placement, name: str, failed: tuple) -> tuple[Fleet, Placement]:  # type: ignore[type-arg]
    """The world and the placement after all needed changes for one cluster."""
    target = next(each for each in world.clusters if each.name == name)
    labels, claims = dict(target.labels), dict(target.claims)
    for rule in failed:
        change = rule.change
        if change is None or not rule.needed:
            continue
        match change.kind:
            case "label":
                labels[change.key] = change.value
            case "unlabel":
                labels.pop(change.key, None)
            case "claim":
                claims[change.key] = change.value
            case "unclaim":
                claims.pop(change.key, None)
            case "tolerate":
                extra = Toleration(change.key, "Equal", change.value, change.effect)
                one = replace(one, tolerations=(*one.tolerations, extra))
            case "bind":
                sets = (*world.sets, ClusterSet(change.value))
                bindings = (*world.bindings, SetBinding("team-a", change.value))
                labels[SET_LABEL] = change.value
                world = replace(world, sets=sets, bindings=bindings)
            case "limit":
                limits = replace(one.limits, **{change.key: float(change.value)})
                one = replace(one, limits=limits)
    target = replace(target, labels=labels, claims=claims)
    others = tuple(each for each in world.clusters if each.name != name)
    return replace(world, clusters=(*others, target)), one


@settings(max_examples=100)
@given(SEEDS, MODES)
def test_the_changes_admit(seed: int, mode: Compat) -> None:
    """Every refused cluster's set of changes, applied, admits it."""
    world, one, context = arbitrary(seed, mode)
    columns, choice = answer(one, world, context)
    for candidate in explain(one, choice, columns, context):
        target = columns.clusters[columns.row[candidate.cluster]]
        needed = [rule for rule in candidate.failed if rule.needed]
        if not candidate.failed or target.deleting:
            continue
        if any(rule.change is None for rule in needed):
            continue  # contradictory conditions on one key can't be met
        other_world, other = changed(world, one, candidate.cluster, candidate.failed)
        others, after = answer(replace(other, count=None), other_world, context)
        told = explain(other, after, others, context, [candidate.cluster])
        assert told[0].verdict == "chosen", (candidate, told)


SITES = ["x", "y", "z"]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from([*SITES, ""]), st.integers(-100, 100)), max_size=12),
    st.integers(1, 2),
    st.sampled_from([None, 1, 3, 5]),
    st.lists(st.integers(0, 11), max_size=4, unique=True),
)
def test_a_hard_spread_is_kept(
    rows: list[tuple[str, int]], skew: int, count: int | None, mine: list[int]
) -> None:
    """Counts per domain never differ by more than the skew, whatever was held before."""
    clusters = [
        cluster(f"c{number:02}", score, labels={"site": site} if site else {})
        for number, (site, score) in enumerate(rows)
    ]
    spread = (SpreadConstraint("site", "Label", skew, "DoNotSchedule"),)
    context = held(*(f"c{number:02}" for number in mine))
    _, choice = answer(placement(spread=spread, count=count), fleet(*clusters), context)
    site_of = {each.name: each.labels.get("site") for each in clusters}
    domains = {site for site, _ in rows if site}
    counts = [sum(site_of[name] == site for name in choice.clusters) for site in sorted(domains)]
    assert not counts or max(counts) - min(counts) <= skew
    assert None not in [site_of[name] for name in choice.clusters]
    assert len(choice.clusters) == len(set(choice.clusters))


def test_a_soft_spread_prefers_and_fills() -> None:
    """ScheduleAnyway takes another site first, and the same one rather than none."""
    world = fleet(
        cluster("a", 90, labels={"site": "x"}),
        cluster("b", 80, labels={"site": "x"}),
        cluster("c", 10, labels={"site": "y"}),
    )
    spread = (SpreadConstraint("site"),)
    _, two = answer(placement(spread=spread, count=2), world)
    _, three = answer(placement(spread=spread, count=3), world)
    assert two.clusters == ("a", "c")
    assert three.clusters == ("a", "b", "c")


def test_a_broken_spec_keeps_the_last_decision() -> None:
    """What was decided stays, and everything that is wrong is told at once."""
    one = placement(
        predicates=(Predicate(cel=("nosuch.x == 1",)),),
        tolerations=(Toleration("", "Equal", "v"), Toleration("k", "Exists", "v")),
        prioritizers=(Prioritizer("Nonsense"), Prioritizer("Balance", 77)),
        clusters_per_group="two",
    )
    world = fleet(cluster("a", 1), cluster("b", 2))
    _, choice = answer(one, world, held("b"))
    assert choice.clusters == ("b",)
    assert choice.kept
    assert choice.groups[0].clusters == ("b",)
    assert choice.conditions[1].status == "True"
    assert choice.conditions[1].message.startswith("Predicate:compilation failed: 1:")
    assert [trouble.path for trouble in choice.troubles] == [
        "predicates[0].requiredClusterSelector.celSelector.celExpressions[0]",
        "tolerations[0]",
        "tolerations[1]",
        "prioritizerPolicy.configurations",
        "decisionStrategy.groupStrategy.clustersPerDecisionGroup",
        "prioritizerPolicy.configurations[1].weight",
    ]
    assert all(trouble.message for trouble in choice.troubles)
    _, reference = answer(replace(one, compat="ocm"), world, held("b"))
    assert reference.clusters == ()


def test_a_stale_score_never_beats_a_known_one() -> None:
    """It is unknown: behind all known ones, with its age, until somebody scores it again."""
    stale = ScoreObject({"free": 100}, NOW_MS - 1, NOW_MS - 90_000)
    fresh = ScoreObject({"free": 40}, NOW_MS + 5_000, NOW_MS - 1_000)
    world = fleet(
        cluster("a", scores={"gpu": stale}), cluster("b", -90), cluster("c", scores={"gpu": fresh})
    )
    one = placement(count=2)
    columns, choice = answer(one, world)
    assert choice.clusters == ("c", "b")
    assert choice.requeue_at_ms == NOW_MS + 5_001
    assert choice.status.code == "Warning"
    line = explain(one, choice, columns, NOTHING, ["a"])[0].scores[0]
    assert (line.value, line.raw, line.age_ms) == (None, 100.0, 90_000)
    assert line.note == "its validity is over, so it isn't used"


def test_it_stays_until_another_is_clearly_better() -> None:
    """A chosen cluster is left for a gain of `move_gain` points, or when it no longer passes."""
    one = placement(count=1, move_gain=10)
    _, near = answer(one, fleet(cluster("a", 50), cluster("b", 59)), held("a"))
    _, far = answer(one, fleet(cluster("a", 50), cluster("b", 60)), held("a"))
    assert near.clusters == ("a",)
    assert near.moves == ()
    assert far.clusters == ("b",)
    assert [(move.left, move.taken, move.reason.code) for move in far.moves] == [
        ("a", "b", "better_cluster")
    ]
    tainted = cluster("a", 100, taints=(Taint("k", "NoSelect"),))
    _, out = answer(one, fleet(tainted, cluster("b", 0)), held("a"))
    assert out.clusters == ("b",)
    assert out.moves[0].reason.params == {"cluster": "a", "filter": "TaintToleration"}


def test_others_alone_are_no_reason_to_move() -> None:
    """One decision of another placement on the held cluster moves it in the reference only."""
    world = fleet(cluster("a"), cluster("b"))
    others = (Existing("d", "p", ("b",)), Existing("d", "q", ("b",)))
    one = Placement("d", "p", count=1)
    context = PlacingContext(NOW_MS, others)
    assert answer(one, world, context)[1].clusters == ("b",)
    assert answer(replace(one, compat="ocm"), world, context)[1].clusters == ("a",)


def test_a_taint_that_asks_to_be_avoided_costs_points() -> None:
    """PreferNoSelect lowers the score by default, unless it is tolerated."""
    world = fleet(cluster("a", 50, taints=(Taint("k", "PreferNoSelect"),)), cluster("b", 0))
    assert answer(placement(), world)[1].clusters == ("b", "a")
    assert answer(placement(compat="ocm"), world)[1].clusters == ("a", "b")
    tolerant = placement(tolerations=(Toleration("k", "Exists"),))
    assert answer(tolerant, world)[1].clusters == ("a", "b")


def test_groups_keep_the_rank() -> None:
    """Inside a group the best comes first; under compat the names are sorted."""
    world = fleet(cluster("a", 1), cluster("b", 9), cluster("c", 5))
    rule = (GroupRule("canary", Selector({SET_LABEL: "s"})),)
    one = placement(groups=rule, clusters_per_group="2")
    groups = answer(one, world)[1].groups
    assert [each.clusters for each in groups] == [("b", "c"), ("a",)]
    assert [each.objects for each in groups] == [("p-decision-1",), ("p-decision-2",)]
    old = answer(replace(one, compat="ocm"), world)[1].groups
    assert [each.clusters for each in old] == [("a", "b"), ("c",)]


def test_runtime_errors_are_told_by_cluster() -> None:
    """An expression that throws for a cluster refuses that one, with the error."""
    rule = Predicate(cel=('managedCluster.metadata.labels["tier"] == "gold"',))
    one = placement(predicates=(rule,))
    columns, choice = answer(one, fleet(cluster("a", labels={"tier": "gold"}), cluster("b")))
    assert choice.clusters == ("a",)
    failed = explain(one, choice, columns, NOTHING, ["b"])[0].failed
    assert [rule.found for rule in failed] == ['Key not found in map : "tier"']


GPUS = tuple(Device(number, "A100", 80 * GIB) for number in range(4))
BIG = Node("n", 64_000, 512 * GIB, devices=GPUS)


def test_demand_asks_for_what_is_free() -> None:
    """What others hold isn't free; what the placement's own work holds doesn't count against it."""
    taken = Allocation("a", (NodeAllocation("n", 1000, devices=(DeviceShare(0, 80 * GIB),)),))
    world = fleet(cluster("a", nodes=(BIG,)), cluster("b", nodes=(BIG,)), taken=(taken,))
    four = placement(demand=Request(1000, gpu=GpuRequest(4, "A100")), prioritizers=())
    columns, choice = answer(four, world)
    assert choice.clusters == ("b",)
    failed = explain(four, choice, columns, NOTHING, ["a"])[0].failed
    assert [(each.filter, each.change and each.change.text) for each in failed] == [
        ("Demand", "1 more A100 free")
    ]
    own = PlacingContext(NOW_MS, own=(taken,))
    assert answer(four, world, own)[1].clusters == ("a", "b")


def test_limits_are_hard_and_told_with_their_numbers() -> None:
    """Price, latency and claims exclude; each failed rule names its own change."""
    dear = cluster("dear", costs=Costs(usd_per_hour=9.0), claims={"compliance": "none"})
    cheap = cluster("cheap", costs=Costs(usd_per_hour=1.0), claims={"compliance": "gdpr"})
    near = (Latency("eu", "cheap", 20.0), Latency("eu", "dear", 90.0))
    limits = Limits(
        claims=(Requirement("compliance", "In", ("gdpr",)),),
        usd_per_hour_max=3.0,
        latency_ms=50.0,
        client_regions=("eu",),
    )
    one = placement(limits=limits, prioritizers=())
    columns, choice = answer(one, fleet(dear, cheap, latencies=near))
    assert choice.clusters == ("cheap",)
    failed = explain(one, choice, columns, NOTHING, ["dear"])[0].failed
    assert [each.change.text for each in failed if each.change] == [
        "needs claim compliance in (gdpr)", "allow 9 usd/h", "allow 90 ms from eu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "best"),
    [("Cost", "a"), ("Start", "b"), ("Energy", "a"), ("Reliability", "b"), ("Latency", "a")],
)
def test_views_of_numbers_with_units(name: str, best: str) -> None:
    """Each runs from -100 to 100 over what passed, the better end on top; unknown comes last."""
    world = fleet(
        cluster("a", costs=Costs(1.0, watts=100), wait_s=60, reliability=0.5),
        cluster("b", costs=Costs(2.0, watts=200), wait_s=0, reliability=0.9),
        latencies=(Latency("eu", "a", 10.0), Latency("eu", "b", 30.0)),
    )
    one = placement(prioritizers=(Prioritizer(name),))
    columns, choice = answer(one, world)
    assert choice.clusters[0] == best
    lines = [each.scores[0] for each in explain(one, choice, columns, NOTHING)]
    assert [line.value for line in lines] == [100, -100]
    assert lines[0].raw is not None
    assert lines[0].unit


def test_fragmentation_prefers_what_leaves_whole_devices() -> None:
    """Half a card goes where a card is already shared."""
    half = Allocation("b", (NodeAllocation("n", 1000, devices=(DeviceShare(0, 40 * GIB),)),))
    world = fleet(cluster("a", nodes=(BIG,)), cluster("b", nodes=(BIG,)), taken=(half,))
    demand = Request(1000, gpu=GpuRequest(1, "A100", fraction_milli=500))
    one = placement(demand=demand, prioritizers=(Prioritizer("Fragmentation"),))
    assert answer(one, world)[1].clusters == ("b", "a")


def test_an_objective_ranks_by_its_estimate() -> None:
    """Lowest first; what nobody could estimate comes last."""
    world = fleet(cluster("a", 100), cluster("b", 0), cluster("c", 50))
    context = PlacingContext(NOW_MS, estimates={"Finish": {"a": 900.0, "b": 60.0}})
    _, choice = answer(placement(objective="finish"), world, context)
    assert choice.clusters == ("b", "a", "c")


def test_standby_and_windows() -> None:
    """One beyond the count is kept ready; a closed cluster is out until its window opens."""
    closed = cluster("a", 99, windows=((NOW_MS + 60_000, NOW_MS + 90_000),))
    world = fleet(closed, cluster("b", 5), cluster("c", 1), cluster("d", 3))
    columns, choice = answer(placement(count=1, standby=1), world)
    assert choice.clusters == ("b",)
    assert choice.standby == ("d",)
    assert choice.requeue_at_ms == NOW_MS + 60_000
    told = explain(placement(count=1, standby=1), choice, columns, NOTHING, ["a", "d"])
    assert told[0].failed[0].found == "it opens in 1 min"
    assert told[1].verdict == "standby"


def test_an_explanation_is_small() -> None:
    """1,000 candidates with five scores take a few bytes each, and the shared part is left out."""
    clusters = [
        cluster(f"c{n:04}", n % 200 - 100, allocatable={"cpu": n * 1000, "memory": 1000 * n * GIB})
        for n in range(1000)
    ]
    names = ["ResourceAllocatableCPU", "ResourceAllocatableMemory", "Balance", "Steady"]
    one = placement(count=10, prioritizers=(SCORE, *map(Prioritizer, names)))
    _, choice = answer(one, fleet(*clusters))
    assert len(msgspec.msgpack.encode(choice)) < 16_000
    assert len(msgspec.msgpack.encode(stored(choice))) < 4_000


def test_strange_numbers_do_no_harm() -> None:
    """NaN, infinity and huge values in scores and estimates rank nothing above what is sound."""
    world = fleet(cluster("a", 10**9), cluster("b", 100), cluster("c", -(10**9)))
    _, choice = answer(placement(), world)
    assert choice.totals == (100, 100, -100)
    estimates = {"Cost": {"a": float("nan"), "b": float("inf"), "c": 5.0}}
    one = placement(prioritizers=(Prioritizer("Cost"),))
    _, priced = answer(one, world, PlacingContext(NOW_MS, estimates=estimates))
    assert priced.clusters[0] == "c"


def test_many_clusters_with_many_labels() -> None:
    """10,000 clusters with 200 labels each: a label nobody asks for costs nothing."""
    common = {f"k{number}": "v" for number in range(200)}
    clusters = [cluster(f"c{n:05}", n % 7, labels={**common, "n": str(n)}) for n in range(10_000)]
    rule = Predicate(Selector(requirements=(Requirement("n", "In", ("17", "4711")),)))
    columns, choice = answer(placement(predicates=(rule,)), fleet(*clusters))
    assert choice.clusters == ("c00017", "c04711")
    assert columns.words("labels", "n").codes.dtype == np.int32


PROGRAM = """
import msgspec
from tests.core.place import test_placing as t
world = t.fleet(*(t.cluster(f"c{n}", n % 3, labels={"site": "xyz"[n % 3]}) for n in range(9)))
spread = (t.SpreadConstraint("site", "Label", 1, "DoNotSchedule"),)
one = t.placement(spread=spread, count=4, predicates=(t.Predicate(cel=("1 == 1",)),))
print(msgspec.json.encode(t.answer(one, world, t.held("c1", "c8"))[1]).decode())
"""


def test_the_seed_of_hashes_changes_nothing() -> None:
    """Two processes with different hash seeds give the same bytes."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert '"clusters"' in outputs[0]
