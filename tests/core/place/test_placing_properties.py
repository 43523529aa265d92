"""Placements over columns come to what plain loops come to, in both modes, and keep their word."""

import subprocess
import sys
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Costs, Device, Node, Taint
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, Latency, SetBinding
from stellwerk.core.model.placement import (
    Compat,
    Limits,
    Placement,
    Predicate,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.placing import FailedRule, PlacingContext
from stellwerk.core.model.resources import GpuRequest, Request
from stellwerk.core.model.selectors import Requirement
from stellwerk.core.place.explained import explain
from tests.core.place.arbitrary_placing import NOW_MS, context_of, fleet_of, placement_of
from tests.core.place.naive_placing import choose_naively
from tests.core.place.placing_worlds import NOTHING, answer, cluster, fleet, held, placement

GIB = 1 << 30

SEEDS = st.integers(0, 1 << 32)
MODES: st.SearchStrategy[Compat] = st.sampled_from(["", "ocm"])


def arbitrary(
    seed: int, mode: Compat, *, own: bool = True
) -> tuple[Fleet, Placement, PlacingContext]:
    """A fleet, a placement and decisions."""
    chance = Random(seed)
    return fleet_of(chance), placement_of(chance, mode), context_of(chance, own=own)


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


def changed(
    world: Fleet, one: Placement, name: str, failed: tuple[FailedRule, ...]
) -> tuple[Fleet, Placement]:
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


LIMITED = Limits(
    claims=(Requirement("compliance", "In", ("gdpr", "hipaa")),),
    usd_per_hour_max=2.0,
    latency_ms=50.0,
    client_regions=("eu", "us"),
)
RULE = Predicate(claims=(Requirement("compliance", "NotIn", ("gdpr",)),))
NODE = Node("n", 4000, 64 * GIB, devices=(Device(0, "A100", 80 * GIB), Device(1, "L4", 24 * GIB)))


def provided(target: Cluster, resource: str, amount: int) -> Cluster:
    """The cluster with so much more of a resource."""
    if not target.nodes:
        name, unit = {"CPUs": ("cpu", 1), "memory": ("memory", 1000)}.get(
            resource, ("nvidia.com/gpu", 1000)
        )
        have = {**target.allocatable, name: target.allocatable.get(name, 0) + unit * amount}
        return replace(target, allocatable=have)
    node = target.nodes[0]
    if resource == "CPUs":
        node = replace(node, cpus_milli=node.cpus_milli + amount)
    elif resource == "memory":
        node = replace(node, memory_bytes=node.memory_bytes + amount)
    else:
        more = (Device(9 + number, "A100", 80 * GIB) for number in range(amount))
        node = replace(node, devices=(*node.devices, *more))
    return replace(target, nodes=(node,))


@settings(max_examples=150)
@given(SEEDS)
def test_changes_of_limits_and_room_admit(seed: int) -> None:
    """Prices, latency, claims, windows and room: the changes that are told are enough."""
    chance = Random(seed)
    demand = Request(
        chance.choice([1000, 6000]),
        chance.choice([0, 128 * GIB]),
        gpu=chance.choice([None, GpuRequest(1, "A100"), GpuRequest(3, "A100")]),
    )
    one = placement(prioritizers=(), limits=LIMITED, predicates=(RULE,), demand=demand)
    target = cluster(
        "a",
        nodes=chance.choice([(), (NODE,)]),
        allocatable={"cpu": 2000, "memory": 1000 * GIB, "nvidia.com/gpu": 1000},
        claims=chance.choice([{}, {"compliance": "gdpr"}, {"compliance": "hipaa"}])
        | {"gpu.model": "A100"},
        costs=Costs(usd_per_hour=chance.choice([1.0, 3.5])),
        windows=chance.choice([(), ((NOW_MS + 1000, NOW_MS + 2000),)]),
        taints=chance.choice([(), (Taint("k", "NoSelect", "v"),)]),
    )
    known = [Latency(region, "a", chance.choice([10.0, 80.0])) for region in ("eu", "us")]
    world = fleet(target, latencies=tuple(chance.sample(known, chance.randint(1, 2))))
    columns, choice = answer(one, world)
    (told,) = explain(one, choice, columns, NOTHING)
    latency_max = 0.0
    for rule in told.failed:
        assert rule.change is not None
        key, value = rule.change.key, rule.change.value
        match rule.change.kind:
            case "free":
                target = provided(target, key, int(value))
            case "tell":
                missing = rule.change.text.rpartition(" ")[2].rstrip(")")
                extra = Latency(missing, "a", 1.0)
                world = replace(world, latencies=(*world.latencies, extra))
            case "limit" if key == "latency_ms":
                latency_max = max(latency_max, float(value))
                one = replace(one, limits=replace(one.limits, latency_ms=latency_max))
            case "open":
                target = replace(target, windows=())
            case "claim":
                target = replace(target, claims={**target.claims, key: value})
            case _:
                world, one = changed(replace(world, clusters=(target,)), one, "a", (rule,))
                target = world.clusters[0]
    _, after = answer(one, replace(world, clusters=(target,)))
    assert after.clusters == ("a",), (told, target)


SITES = ["x", "y", "z"]


@settings(max_examples=300)
@given(SEEDS)
def test_a_hard_spread_is_kept(seed: int) -> None:
    """Counts per domain never differ by more than the skew, whatever was held before."""
    chance = Random(seed)
    rows = [
        (chance.choice([*SITES, ""]), chance.randint(-100, 100))
        for _ in range(chance.randint(0, 12))
    ]
    skew, count = chance.randint(1, 2), chance.choice([None, 1, 3, 5])
    clusters = [
        cluster(f"c{number:02}", score, labels={"site": site} if site else {})
        for number, (site, score) in enumerate(rows)
    ]
    spread = (SpreadConstraint("site", "Label", skew, "DoNotSchedule"),)
    context = held(*(f"c{number:02}" for number in chance.sample(range(12), chance.randint(0, 4))))
    _, choice = answer(placement(spread=spread, count=count), fleet(*clusters), context)
    site_of = {each.name: each.labels.get("site") for each in clusters}
    domains = {site for site, _ in rows if site}
    counts = [sum(site_of[name] == site for name in choice.clusters) for site in sorted(domains)]
    assert not counts or max(counts) - min(counts) <= skew
    assert None not in [site_of[name] for name in choice.clusters]
    assert len(choice.clusters) == len(set(choice.clusters))


PROGRAM = """
import msgspec
from tests.core.place import placing_worlds as t
from stellwerk.core.model.placement import Predicate, SpreadConstraint
world = t.fleet(*(t.cluster(f"c{n}", n % 3, labels={"site": "xyz"[n % 3]}) for n in range(9)))
spread = (SpreadConstraint("site", "Label", 1, "DoNotSchedule"),)
one = t.placement(spread=spread, count=4, predicates=(Predicate(cel=("1 == 1",)),))
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
