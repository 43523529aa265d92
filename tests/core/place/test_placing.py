"""What the default does where the reference has a trap or nothing at all, case by case."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from stellwerk.core.model.cluster import Costs, Device, Node, ScoreObject, Taint
from stellwerk.core.model.fleet import SET_LABEL, Latency
from stellwerk.core.model.placement import (
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
from stellwerk.core.place.placing import stored
from tests.core.place.arbitrary_placing import NOW_MS
from tests.core.place.placing_worlds import NOTHING, SCORE, answer, cluster, fleet, held, placement

GIB = 1 << 30


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


def test_what_nobody_knows_is_no_reason_to_move() -> None:
    """A cluster that is better as far as is known, and of which something isn't, isn't taken."""
    world = fleet(
        cluster("a", 0, allocatable={"cpu": 1000}),
        cluster("b", 100),
        cluster("c", -50, allocatable={"cpu": 1000}),
    )
    one = placement(count=1, prioritizers=(SCORE, Prioritizer("ResourceAllocatableCPU", -1)))
    assert answer(one, world, held("a"))[1].clusters == ("a",)
    assert answer(one, world)[1].clusters == ("a",)


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


@pytest.mark.parametrize("labels", [{}, {"other": "x"}], ids=["no labels", "another label"])
@pytest.mark.parametrize("read", ['labels["tier"]', "labels.tier"])
def test_the_label_that_an_expression_misses_is_named(labels: dict[str, str], read: str) -> None:
    """Also where the cluster has no labels at all; of another key, the key."""
    for path, told in ((read, "a label `tier`"), ("nothing", "a value for `nothing`")):
        cel = f'managedCluster.metadata.{path} == "gold"'
        one = placement(predicates=(Predicate(cel=(cel,)),))
        columns, choice = answer(one, fleet(cluster("b", labels=labels)))
        (rule,) = explain(one, choice, columns, NOTHING, ["b"])[0].failed
        assert rule.change is not None
        assert rule.change.text == f"{told}, such that `{cel}` is true"


def test_runtime_errors_are_told_by_cluster() -> None:
    """An expression that throws for a cluster refuses that one, with the error."""
    rule = Predicate(cel=('managedCluster.metadata.labels["tier"] == "gold"',))
    one = placement(predicates=(rule,))
    columns, choice = answer(one, fleet(cluster("a", labels={"tier": "gold"}), cluster("b")))
    assert choice.clusters == ("a",)
    failed = explain(one, choice, columns, NOTHING, ["b"])[0].failed
    assert [rule.found for rule in failed] == ['Key not found in map : "tier"']
    assert failed[0].change is not None
    assert failed[0].change.text == f"a label `tier`, such that `{rule.cel[0]}` is true"


def test_an_expression_that_takes_too_long_is_what_must_change() -> None:
    """No label would help; of a long one that gives false the beginning is told again."""
    digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    long = "a + b + c + d + e >= 0"
    for name in "edcba":
        long = f"{digits}.all({name}, {long})"
    untrue = " && ".join(["managedCluster.metadata.name == 'x'"] * 9)
    for cel, change in (
        (long, "an expression that takes fewer steps"),
        (untrue, f"what makes `{untrue[:100]}…` true"),
    ):
        one = placement(predicates=(Predicate(cel=(cel,)),))
        columns, choice = answer(one, fleet(cluster("b")))
        (rule,) = explain(one, choice, columns, NOTHING, ["b"])[0].failed
        assert (rule.rule, rule.change and rule.change.text) == (cel, change)


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
    one = placement(objective="finish")
    columns, choice = answer(one, world, context)
    assert choice.clusters == ("b", "a", "c")
    told = explain(one, choice, columns, context)
    assert [(each.cluster, each.rank, each.margin) for each in told] == [
        ("b", 1, None),
        ("a", 2, None),
        ("c", 3, None),
    ]


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


def test_what_somebody_else_decides_is_left_alone() -> None:
    """An external placement keeps what it has, and nothing is said about it."""
    _, choice = answer(placement(external=True), fleet(cluster("a", 1), cluster("b", 2)), held("a"))
    assert choice == Choice("d/p", ("a",))


def test_the_ways_in_which_nothing_can_be_chosen() -> None:
    """Each has its reason: no binding, no common set, no member, none that passes, none wanted."""
    tainted = cluster("a", taints=(Taint("k", "NoSelect"),))
    elsewhere = cluster("a", labels={SET_LABEL: "t"})
    for world, one, reason in (
        (fleet(tainted, bindings=()), placement(), "NoManagedClusterSetBindings"),
        (fleet(tainted, sets=()), placement(), "NoManagedClusterSetBindings"),
        (fleet(tainted), placement(sets=("t",)), "NoIntersection"),
        (fleet(elsewhere), placement(), "AllManagedClusterSetsEmpty"),
        (fleet(tainted), placement(), "NoManagedClusterMatched"),
        (fleet(cluster("a")), placement(count=0), "NoManagedClusterMatched"),
        (fleet(cluster("a")), placement(count=3), "NotAllDecisionsScheduled"),
        (fleet(cluster("a")), placement(count=1), "AllDecisionsScheduled"),
    ):
        for mode in ("", "ocm"):
            _, choice = answer(replace(one, compat=mode), world)
            assert choice.conditions[0].reason == reason
            assert choice.groups[0].objects == ("p-decision-1",)
