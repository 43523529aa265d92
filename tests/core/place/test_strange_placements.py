"""Whatever a placement asks and a fleet says: an answer comes, and it can be explained."""

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, Costs, Device, Node, ScoreObject
from stellwerk.core.model.fleet import ClusterSet, Fleet, Latency, SetBinding
from stellwerk.core.model.placement import (
    Compat,
    GroupRule,
    Limits,
    Objective,
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.resources import GpuRequest, Request
from stellwerk.core.model.selectors import Selector
from stellwerk.core.place.explained import explain
from stellwerk.core.place.placer import Placer
from stellwerk.core.place.placing import choose, stored
from tests.core.place.arbitrary_placing import (
    KEYS,
    NAMES,
    NOW_MS,
    cluster_of,
    context_of,
    fleet_of,
    placement_of,
    requirement,
)

NAN, INF = float("nan"), float("inf")
EXPRESSIONS = (
    "1 ==",
    "nothing",
    'managedCluster.metadata.labels["site"] == "lab"',
    'managedCluster.scores("gpu")[0].value > 3',
    "managedCluster.metadata.labels",
)
TOLERATIONS = (
    Toleration(),
    Toleration("k", "Exists", "v"),
    Toleration("k", "Strange"),
    Toleration("", "Exists", seconds=-5),
)
MEASURED = ("Cost", "Start", "Transfer", "Latency", "Energy", "Reliability", "Fragmentation", "?")
OBJECTIVES: tuple[Objective, ...] = ("finish", "start", "cost", "weighted")
GPUS = (None, GpuRequest(1), GpuRequest(2, "A100"), GpuRequest(1, "A100", fraction_milli=500))


def spread_of(chance: Random) -> SpreadConstraint:
    """A constraint, of a skew that may make no sense."""
    key_type = "Label" if chance.random() < 0.5 else "Claim"
    when = "DoNotSchedule" if chance.random() < 0.5 else "ScheduleAnyway"
    skew = chance.choice([0, 1, 1, 2])
    return SpreadConstraint(chance.choice(KEYS), key_type, skew, when)  # type: ignore[arg-type]


def strange_placement(chance: Random, compat: Compat) -> Placement:
    """A placement with some fields that are rare, and some that are wrong."""
    one = placement_of(chance, compat)
    expressions = tuple(chance.sample(EXPRESSIONS, 2))
    limits = Limits(
        claims=(requirement(chance),),
        usd_max=chance.choice([0, 5.0]),
        usd_per_hour_max=chance.choice([0, 1.0, NAN]),
        finish_by_ms=chance.choice([0, NOW_MS + 1000]),
        latency_ms=chance.choice([0, 10.0]),
        client_regions=chance.choice([(), ("eu",), ("eu", "us")]),
    )
    demand = Request(
        chance.choice([0, 1000, 10**9]), chance.choice([0, 1 << 30]), gpu=chance.choice(GPUS)
    )
    score = Prioritizer(chance.choice(MEASURED), chance.choice([1, -2, 77]))
    fields = {
        "predicates": (*one.predicates, Predicate(cel=expressions)),
        "spread": tuple(spread_of(chance) for _ in range(chance.randint(1, 2))),
        "standby": chance.choice([1, 2, 50]),
        "objective": chance.choice(OBJECTIVES),
        "usd_per_hour_of_waiting": 2.0,
        "tolerations": (*one.tolerations, chance.choice(TOLERATIONS)),
        "prioritizers": (*one.prioritizers, score),
        "limits": limits,
        "demand": demand,
        "num_nodes": chance.choice([0, 1, 2]),
        "clusters_per_group": chance.choice(["", "1", "33%", "x", "nan%", "inf%", "-1%"]),
        "groups": (GroupRule("g", Selector({"site": "lab"})), GroupRule("", claims=limits.claims)),
        "move_gain": chance.choice([0, -1, 1000]),
        "count": chance.choice([-1, 1, 10**9]),
    }
    return replace(one, **{name: fields[name] for name in fields if chance.random() < 0.25})


def strange_cluster(chance: Random, one: Cluster) -> Cluster:
    """A cluster with nodes, windows, costs and scores that may be anything."""
    devices = tuple(
        Device(number, chance.choice(["A100", "L4"]), chance.choice([0, 80 << 30]))
        for number in range(chance.randint(0, 3))
    )
    node = Node("n", chance.choice([0, 4000]), 1 << 33, devices=devices)
    spans = chance.choice([(), ((-5, 5),), ((5, 9),), ((-9, -1),), ((-9, -1), (3, 4))])
    fields = {
        "nodes": (node, replace(node, name="m", state="unreachable")),
        "kind": chance.choice(["machine", "room"]),
        "windows": tuple((NOW_MS + start, NOW_MS + end) for start, end in spans),
        "costs": Costs(chance.choice([0.0, 1.0, NAN, INF]), {"A100": 2.0}, 100.0),
        "reliability": chance.choice([0.5, NAN]),
        "wait_s": chance.choice([5.0, NAN, INF]),
        "scores": {"gpu": ScoreObject({"free": chance.choice([10**9, -(10**9), 5])})},
    }
    return replace(one, **{name: fields[name] for name in fields if chance.random() < 0.3})


def strange_fleet(chance: Random) -> Fleet:
    """Such clusters, a set by a selector, and latencies."""
    fleet = fleet_of(chance)
    selector = chance.choice([None, Selector(), Selector({"site": "lab"})])
    latencies = (
        Latency(chance.choice(["eu", "us"]), chance.choice(NAMES), chance.choice([5.0, NAN]))
        for _ in range(3)
    )
    return replace(
        fleet,
        clusters=tuple(strange_cluster(chance, one) for one in fleet.clusters),
        sets=(*fleet.sets, ClusterSet("l", False, selector)),
        bindings=(*fleet.bindings, SetBinding("team-a", chance.choice(["l", "nope", "s"]))),
        latencies=tuple(latencies),
    )


@settings(max_examples=150)
@given(st.integers(0, 1 << 32), st.sampled_from(["", "ocm"]))
def test_there_is_always_an_answer(seed: int, mode: Compat) -> None:
    """It is sound, it can be written down, and every refused cluster has a rule that it fails."""
    chance = Random(seed)
    fleet, one = strange_fleet(chance), strange_placement(chance, mode)
    names = ("Finish", "Start", "Cost", "Transfer", "Energy")
    estimates = {
        name: {each.name: chance.choice([1.0, NAN, INF, 500.0]) for each in fleet.clusters}
        for name in chance.sample(names, 3)
    }
    context = replace(context_of(chance), estimates=estimates)
    columns = FleetColumns(fleet)
    choice = choose(one, columns, context)
    assert msgspec.msgpack.encode(choice)
    assert msgspec.json.encode(stored(choice))
    assert len(set(choice.clusters) | set(choice.standby)) == len(choice.clusters + choice.standby)
    for candidate in explain(one, choice, columns, context):
        assert (candidate.verdict == "refused") == bool(candidate.failed)
        for rule in candidate.failed:
            assert rule.found != "it would pass as things are now", candidate


@settings(max_examples=60)
@given(st.integers(0, 1 << 32), st.sampled_from(["", "ocm"]))
def test_many_are_answered_while_the_fleet_changes(seed: int, mode: Compat) -> None:
    """Clusters come, change and go; every answer is the one that is written down."""
    chance = Random(seed)
    columns = FleetColumns(strange_fleet(chance))
    one = strange_placement(chance, mode)
    placer = Placer(columns)
    for number in range(3):
        had = chance.sample(NAMES, 2) if chance.random() < 0.5 else []
        placer.put(replace(one, name=f"p{number}"), had)
    assert len(list(placer.replan(NOW_MS))) == 3
    for round in range(2):
        changed = [cluster_of(chance, chance.choice([*NAMES, "new"])) for _ in range(2)]
        columns.update(changed, [chance.choice(NAMES)] if chance.random() < 0.3 else [])
        for choice in placer.replan(NOW_MS + 30_000 * round):
            assert choice.clusters == tuple(placer.ledger.of(choice.placement))
