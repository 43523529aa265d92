"""Many placements over a changing fleet: only what a change concerns is decided again."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, Device, Node, ScoreObject, Taint
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, SetBinding
from stellwerk.core.model.placement import (
    Compat,
    GroupRule,
    Placement,
    Predicate,
    Prioritizer,
    Toleration,
)
from stellwerk.core.model.placing import Existing, PlacingContext
from stellwerk.core.model.resources import (
    Allocation,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)
from stellwerk.core.model.selectors import Selector
from stellwerk.core.place.admitted import Tools
from stellwerk.core.place.placer import Placer
from stellwerk.core.place.placing import choose
from tests.core.place.arbitrary_placing import NOW_MS, cluster_of, fleet_of, placement_of

SCORE = Prioritizer("free", 2, "gpu")
SEEDS = st.integers(0, 1 << 32)


def cluster(number: int, free: int, tier: str = "gold") -> Cluster:
    """A cluster with a score."""
    return Cluster(
        name=f"c{number:03}",
        driver="ocm",
        nodes=(),
        labels={SET_LABEL: "s", "tier": tier},
        scores={"gpu": ScoreObject({"free": free})},
        allocatable={"cpu": 1000 * (number + 1)},
        capacity={"cpu": 100_000},
    )


def world(count: int, chance: Random) -> Fleet:
    """So many clusters with arbitrary scores."""
    return Fleet(
        clusters=tuple(cluster(number, chance.randint(-100, 100)) for number in range(count)),
        sets=(ClusterSet("s"),),
        bindings=(SetBinding("d", "s"),),
    )


def placements(count: int, *scores: Prioritizer, wanted: int = 3) -> list[Placement]:
    """So many with one spec."""
    rule = (Predicate(Selector({"tier": "gold"})),)
    return [
        Placement("d", f"p{number}", (), rule, wanted, "Exact", scores or (SCORE,))
        for number in range(count)
    ]


def decisions(placer: Placer, all_of_them: list[Placement]) -> tuple[Existing, ...]:
    """What everybody has."""
    return tuple(
        Existing(one.namespace, one.name, tuple(placer.ledger.of(one.key))) for one in all_of_them
    )


@settings(max_examples=40)
@given(SEEDS)
def test_one_after_the_other_sees_those_before(seed: int) -> None:
    """The first round gives what asking for each in turn gives."""
    chance = Random(seed)
    columns = FleetColumns(world(9, chance))
    asked = placements(4, SCORE, Prioritizer("Balance", 1))
    placer = Placer(columns)
    for one in asked:
        placer.put(one)
    found = {choice.placement: choice for choice in placer.replan(NOW_MS)}
    existing: list[Existing] = []
    for one in asked:
        choice = choose(one, columns, PlacingContext(NOW_MS, tuple(existing)))
        assert found[one.key] == choice
        existing.append(Existing("d", one.name, choice.clusters))


def changing(columns: FleetColumns, chance: Random) -> None:
    """Clusters of a world get other scores or labels, come and go."""
    changed, gone = [], []
    for _ in range(chance.randint(1, 3)):
        number = chance.randrange(14)
        if chance.random() < 0.15:
            gone.append(f"c{number:03}")
        else:
            tier = chance.choice(["gold", "gold", "iron"])
            changed.append(cluster(number, chance.randint(-100, 100), tier))
    columns.update(changed, [name for name in gone if name not in {c.name for c in changed}])


@settings(max_examples=30)
@given(SEEDS, st.booleans())
def test_nothing_that_should_change_is_left_out(seed: int, balanced: bool) -> None:
    """After a round no placement would be given other clusters if it were asked again.

    Where decisions count, those of the others stay as they are.
    """
    chance = Random(seed)
    columns = FleetColumns(world(chance.randint(2, 12), chance))
    weights = [chance.randint(-3, 3), chance.randint(0, 2)] if balanced else [0, 0]
    own = [Prioritizer("Balance", weights[0]), Prioritizer("Steady", weights[1])]
    asked = placements(5, SCORE, Prioritizer("ResourceAllocatableCPU", 1), *own)
    asked[0] = replace(asked[0], move_gain=chance.choice([0, 1, 10]))
    placer = Placer(columns)
    for number, one in enumerate(asked):
        had = chance.sample([f"c{number:03}" for number in range(14)], 3)
        fixed = balanced and number > 0
        placer.put(replace(one, external=fixed), had if fixed or chance.random() < 0.5 else ())
    list(placer.replan(NOW_MS))
    for round in range(4):
        changing(columns, chance)
        list(placer.replan(NOW_MS + round))
        existing = decisions(placer, asked)
        for one in asked[:1] if balanced else asked:
            again = choose(one, columns, PlacingContext(NOW_MS + round, existing))
            assert sorted(again.clusters) == sorted(placer.ledger.of(one.key))
            assert balanced or again.clusters == tuple(placer.ledger.of(one.key))


@settings(max_examples=12)
@given(SEEDS)
def test_each_is_given_what_it_would_get_alone(seed: int) -> None:
    """However many are asked at once, each choice is made with the decisions before it."""
    chance = Random(seed)
    columns = FleetColumns(world(chance.randint(4, 12), chance))
    asked = placements(chance.randint(3, 50), SCORE, Prioritizer("Balance"), wanted=2)
    by_key = {one.key: one for one in asked}
    placer = Placer(columns)
    for one in asked:
        placer.put(one)
    for _ in range(4):
        existing = decisions(placer, asked)
        for choice in placer.replan(NOW_MS):
            one = by_key[choice.placement]
            assert choice == choose(one, columns, PlacingContext(NOW_MS, existing))
            existing = decisions(placer, asked)
        changing(columns, chance)


@settings(max_examples=12)
@given(SEEDS)
def test_many_asked_at_once_get_what_each_gets_in_turn(seed: int) -> None:
    """By the reference's rules everybody is asked anew, each seeing the decisions before it."""
    chance = Random(seed)
    columns = FleetColumns(world(chance.randint(2, 12), chance))
    scores = [SCORE, Prioritizer("ResourceAllocatableCPU", chance.choice([0, 1]))]
    scores += [Prioritizer(name, chance.randint(-2, 3)) for name in ("Balance", "Steady")]
    asked = placements(chance.randint(3, 40), *scores, wanted=chance.randint(1, 4))
    asked = [replace(one, compat="ocm") for one in asked]
    placer = Placer(columns)
    held: dict[str, tuple[str, ...]] = {}
    for one in asked:
        held[one.key] = ("c000",) if chance.random() < 0.1 else ()
        placer.put(one, held[one.key])
    for round in range(4):
        told = {choice.placement: choice.clusters for choice in placer.replan(NOW_MS)}
        for one in asked:
            existing = tuple(Existing("d", key[2:], names) for key, names in held.items())
            now = choose(one, columns, PlacingContext(NOW_MS, existing)).clusters
            assert placer.ledger.of(one.key) == list(now)
            if round and one.key in told:
                assert told[one.key] == now != held[one.key]
            held[one.key] = now
        changing(columns, chance)
        columns.update([cluster(0, 90 - round)])


@pytest.mark.parametrize("compat", ["", "ocm"])
def test_what_follows_from_no_cluster_is_told_too(compat: Compat) -> None:
    """Decision groups by a label that changes, and why nothing could be chosen."""
    fleet = world(3, Random(7))
    columns = FleetColumns(fleet)
    placer = Placer(columns)
    (one,) = placements(1)
    groups = (GroupRule("canary", Selector({"stage": "canary"})),)
    placer.put(replace(one, compat=compat, groups=groups))
    (first,) = placer.replan(NOW_MS)
    assert [group.name for group in first.groups] == [""]
    labels = {**columns.clusters[1].labels, "stage": "canary"}
    columns.update([replace(columns.clusters[1], labels=labels)])
    (second,) = placer.replan(NOW_MS)
    assert [group.clusters for group in second.groups if group.name] == [("c001",)]
    columns.update((), [one.name for one in fleet.clusters])
    (third,) = placer.replan(NOW_MS)
    assert third.conditions[0].reason == "AllManagedClusterSetsEmpty"
    columns.around(replace(fleet, bindings=()))
    (fourth,) = placer.replan(NOW_MS)
    assert fourth.conditions[0].reason == "NoManagedClusterSetBindings"


def test_a_cluster_that_is_told_twice_is_one() -> None:
    """Of two with one name the last counts, and one that goes twice is gone."""
    columns = FleetColumns(world(1, Random(1)))
    columns.update([cluster(7, 1, "gold"), cluster(7, 2, "iron")])
    assert columns.size == 2
    assert columns.clusters[columns.row["c007"]] == cluster(7, 2, "iron")
    columns.update((), ["c007", "c007"])
    assert list(columns.row) == ["c000"]


@settings(max_examples=80)
@given(SEEDS)
def test_changed_columns_are_those_of_the_changed_fleet(seed: int) -> None:
    """Row by row or read in anew, the same fleet gives the same choice and explanation."""
    chance = Random(seed)
    fleet, one = fleet_of(chance), placement_of(chance, chance.choice(["", "ocm"]))
    columns = FleetColumns(fleet)
    tools = Tools(columns)
    choose(one, columns, PlacingContext(NOW_MS), tools)
    known = {each.name: each for each in fleet.clusters}
    for _ in range(3):
        name = chance.choice([*known, "c9"])
        if chance.random() < 0.2 and name in known:
            del known[name]
            columns.update((), [name])
        else:
            known[name] = cluster_of(chance, name)
            columns.update([known[name]])
        fresh = FleetColumns(replace(fleet, clusters=tuple(known.values())))
        first = choose(one, columns, PlacingContext(NOW_MS), tools)
        second = choose(one, fresh, PlacingContext(NOW_MS))
        assert first == second
        assert columns.roster_id == fresh.roster_id


def test_only_what_a_change_concerns_is_decided_again() -> None:
    """A score that lifts a cluster nowhere near the chosen ones costs no decision."""
    chance = Random(1)
    columns = FleetColumns(world(50, chance))
    placer = Placer(columns)
    asked = placements(30)
    for one in asked:
        placer.put(one)
    assert len(list(placer.replan(NOW_MS))) == 30
    chosen = dict.fromkeys(placer.ledger.of("d/p0"), True)
    worst = next(one for one in columns.clusters if one.name not in chosen)
    columns.update([replace(worst, scores={"gpu": ScoreObject({"free": -100})})])
    assert list(placer.replan(NOW_MS)) == []
    assert placer.decided == 30
    columns.update([replace(worst, scores={"gpu": ScoreObject({"free": 100})})])
    best = sorted(placer.ledger.of("d/p0"))
    moved = list(placer.replan(NOW_MS))
    assert {len(choice.moves) for choice in moved} <= {1}
    assert all(worst.name in choice.clusters for choice in moved) or best == list(chosen)


def test_a_changed_spec_is_decided_and_a_dropped_one_forgotten() -> None:
    """Replacing a placement counts its clusters once; dropping it counts them no more."""
    columns = FleetColumns(world(4, Random(2)))
    placer = Placer(columns)
    (one,) = placements(1)
    placer.put(one)
    list(placer.replan(NOW_MS))
    placer.put(replace(one, count=1))
    (choice,) = placer.replan(NOW_MS)
    assert len(choice.clusters) == 1
    assert [move.reason.code for move in choice.moves] == ["fewer_wanted", "fewer_wanted"]
    assert placer.ledger.others("")[0].sum() == 1
    placer.drop(one.key)
    assert placer.ledger.others("")[0].sum() == 0
    assert list(placer.replan(NOW_MS)) == []


def test_it_is_looked_at_again_when_a_score_ends() -> None:
    """At the end of its validity a score becomes unknown, and the time for that is told."""
    chance = Random(3)
    fleet = world(3, chance)
    ending = replace(fleet.clusters[0], scores={"gpu": ScoreObject({"free": 100}, NOW_MS + 500)})
    columns = FleetColumns(replace(fleet, clusters=(ending, *fleet.clusters[1:])))
    placer = Placer(columns)
    (one,) = placements(1, wanted=1)
    placer.put(one)
    list(placer.replan(NOW_MS))
    assert placer.ledger.of(one.key) == ["c000"]
    assert placer.requeue_at_ms() == NOW_MS + 501
    list(placer.replan(NOW_MS + 501))
    assert placer.ledger.of(one.key) == ["c000"], "what nobody knows is no reason to leave"
    assert placer.requeue_at_ms() == 0


@pytest.mark.parametrize("compat", ["", "ocm"])
def test_a_toleration_ends_by_itself(compat: Compat) -> None:
    """A placement is decided again when a toleration of one of its clusters is over."""
    fleet = world(2, Random(4))
    tainted = replace(fleet.clusters[0], taints=(Taint("k", "NoSelect", "", NOW_MS),))
    columns = FleetColumns(replace(fleet, clusters=(tainted, fleet.clusters[1])))
    (one,) = placements(1)
    one = replace(one, tolerations=(Toleration("k", "Exists", seconds=60),), compat=compat)
    placer = Placer(columns)
    placer.put(one)
    list(placer.replan(NOW_MS))
    list(placer.replan(NOW_MS + 59_999))
    assert sorted(placer.ledger.of(one.key)) == ["c000", "c001"]
    list(placer.replan(NOW_MS + 60_000))
    assert placer.ledger.of(one.key) == ["c001"]


def test_own_work_is_no_reason_to_leave() -> None:
    """What a placement's own work holds counts against others, not against itself."""
    device = Device(0, "A100", 80 << 30)
    node = Node("n", 8000, 64 << 30, devices=(device,))
    fleet = world(2, Random(5))
    columns = FleetColumns(
        replace(fleet, clusters=tuple(replace(one, nodes=(node,)) for one in fleet.clusters))
    )
    first, second = (
        replace(one, demand=Request(1000, gpu=GpuRequest(1))) for one in placements(2, wanted=1)
    )
    placer = Placer(columns)
    placer.put(first)
    list(placer.replan(NOW_MS))
    (home,) = placer.ledger.of(first.key)
    held = Allocation(home, (NodeAllocation("n", 1000, devices=(DeviceShare(0, 80 << 30),)),))
    columns.take({home: (held,)})
    placer.know(first.key, own=(held,))
    placer.put(second)
    list(placer.replan(NOW_MS))
    assert placer.ledger.of(first.key) == [home]
    assert placer.ledger.of(second.key) == [name for name in ("c000", "c001") if name != home]


def test_a_taint_and_a_newcomer_are_seen() -> None:
    """A cluster that is tainted is left, and one that comes fills the place that was open."""
    columns = FleetColumns(world(3, Random(6)))
    placer = Placer(columns)
    (one,) = placements(1, wanted=3)
    placer.put(one)
    list(placer.replan(NOW_MS))
    columns.update([replace(columns.clusters[1], taints=(Taint("k", "NoSelect"),))])
    (left,) = placer.replan(NOW_MS)
    assert sorted(left.clusters) == ["c000", "c002"]
    assert left.unscheduled == 1
    columns.update([cluster(7, -100)])
    (filled,) = placer.replan(NOW_MS)
    assert sorted(filled.clusters) == ["c000", "c002", "c007"]
