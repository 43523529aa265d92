"""What may be asked with "if …": each change is seen in the changed world, and slips are told."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, Taint
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.fleet import Latency
from stellwerk.core.model.placement import Limits, Placement, Prioritizer, Toleration
from stellwerk.core.model.placing import Change as Turn
from stellwerk.core.model.resources import (
    Allocation,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)
from stellwerk.core.place.changes import CHANGES, World, apply_changes, phrase_of
from stellwerk.core.place.fleet_record import record_of
from stellwerk.core.place.freeing import cards_freed, fewest_cards
from stellwerk.core.place.on_fleet import Ask, plan_on_fleet
from stellwerk.core.place.policies import OPEN, policy_of
from tests.core.place.small_fleets import (
    DATA,
    GIB,
    NOW_MS,
    ask,
    chance_fleet,
    chance_task,
    cluster,
    fleet_of,
    node,
    task,
)

REGION = "topology.kubernetes.io/region"
OLD = Taint("old", "NoSelect")


def world(**more: Any) -> World:
    """Two clusters in two regions, one placement, one task."""
    a = cluster(
        "a",
        node("n1", "L40S", 2),
        node("n2", "L40S", 2),
        labels={REGION: "eu-west"},
        claims={"gdpr": "yes"},
        taints=(OLD,),
    )
    b = cluster("b", node("n", "T4", 1), labels={REGION: "us-east"})
    fleet = fleet_of(a, b, latencies=(Latency("eu-west", "a", 5.0),))
    placement = Placement("ns", "p", limits=Limits(usd_max=10), prioritizers=(Prioritizer("Cost"),))
    text = 'name: t\nrun: x\nresources: {labels: {"stellwerk/max-usd": "5"}}\n'
    return World(fleet, (placement, OPEN), NOW_MS, **{"tasks": (task(text),), **more})


def after(*phrases: str) -> World:
    return apply_changes(world(), phrases)


def first(*phrases: str) -> Cluster:
    """The cluster `a` after changes."""
    return after(*phrases).fleet.clusters[0]


def test_what_is_lost_takes_along_what_belongs_to_it() -> None:
    """No link of it is left, or it would count as a store; no latency either."""
    for phrase in ("lose a", f"lose {REGION}=eu-west", "lose region=eu-west"):
        fleet = after(phrase).fleet
        assert [one.name for one in fleet.clusters] == ["b"]
        assert (fleet.links, fleet.latencies) == ((), ())


@pytest.mark.parametrize(
    ("phrase", "field", "value"),
    [
        ("claim a tier=gold", "claims", {"gdpr": "yes", "tier": "gold"}),
        ("claim a gdpr-", "claims", {}),
        ("label a ring=1", "labels", {REGION: "eu-west", "ring": "1"}),
        ("untaint a old", "taints", ()),
        ("taint a k=v:NoSelect", "taints", (OLD, Taint("k", "NoSelect", "v", NOW_MS))),
        ("wait a 2h", "wait_s", 7200.0),
        ("window a closed", "windows", ((0, 0),)),
        ("window a open", "windows", ()),
    ],
)  # fmt: skip
def test_a_change_of_a_cluster_is_seen_there(phrase: str, field: str, value: object) -> None:
    """And nowhere else."""
    changed = after(phrase).fleet
    assert getattr(changed.clusters[0], field) == value
    assert changed.clusters[1:] == world().fleet.clusters[1:]


def test_nodes_are_drained_resumed_and_added() -> None:
    """One or all; a cluster whose nodes aren't known gets a taint in their place."""
    assert [one.state for one in first("drain a/n1").nodes] == ["drained", "ready"]
    assert [one.state for one in first("drain a", "resume a/n2").nodes] == ["drained", "ready"]
    bare = replace(world().fleet, clusters=(cluster("a"),))
    drained = apply_changes(World(bare, (OPEN,), NOW_MS), ("drain a",)).fleet.clusters[0]
    assert [one.effect for one in drained.taints] == ["NoSelect"]
    again = apply_changes(World(bare, (OPEN,), NOW_MS), ("drain a", "resume a"))
    assert again.fleet.clusters[0].taints == ()
    new = first("add a H100:2").nodes[-1]
    assert [(one.kind, one.memory_bytes) for one in new.devices] == [("H100", 80 * GIB)] * 2


def test_room_is_freed_in_full_or_by_cards() -> None:
    """Those that are free already count."""
    busy = replace(
        world().fleet.clusters[0],
        nodes=(
            replace(
                node("n1", "L40S", 4),
                devices=tuple(
                    Device(index, "L40S", 48 * GIB, foreign_bytes=(9 * GIB) * (index > 0))
                    for index in range(4)
                ),
            ),
        ),
    )
    before = replace(world(), fleet=fleet_of(busy))
    for phrase, free in (("free a", 4), ("free a gpus=1", 1), ("free a gpus=3", 3)):
        (node_after,) = apply_changes(before, (phrase,)).fleet.clusters[0].nodes
        assert sum(not one.foreign_bytes for one in node_after.devices) == free


def test_nobody_outside_holds_anything_of_what_is_free() -> None:
    """Their CPUs and memory are given back with their cards."""
    shared = replace(node("n1"), foreign_cpus_milli=2000, foreign_memory_bytes=GIB)
    before = replace(world(), fleet=fleet_of(cluster("a", shared)))
    assert apply_changes(before, ("free a",)).fleet.clusters[0].nodes == (node("n1"),)


def test_cards_are_freed_together_and_only_as_many_as_are_enough() -> None:
    """On the node where the least is in the way; what is told of a shortage is just that."""
    one = cluster("a", node("n1", "L40S", 4), node("n2", "L40S", 4), node("n3", "L40S", 2))
    taken = tuple(
        Allocation("a", (NodeAllocation(name, 1000, devices=(DeviceShare(index, 48 * GIB),)),))
        for name, indexes in (("n1", (0, 1, 2)), ("n2", (0, 1)))
        for index in indexes
    )
    freed, left = cards_freed(one, taken, 4)
    assert [part.node for each in left for part in each.nodes if part.devices] == ["n1"] * 3
    assert fewest_cards(freed, left, Request(1000, gpu=GpuRequest(4)), 1) == 4
    assert fewest_cards(one, taken, Request(1000, gpu=GpuRequest(4)), 1) == 4
    assert fewest_cards(one, taken, Request(1000, gpu=GpuRequest(4)), 2) == 8
    assert fewest_cards(one, taken, Request(900_000, gpu=GpuRequest(4)), 1) == 0
    wants = task("run: x\nresources: {accelerators: L40S:4, cpus: 1}\n")
    before = World(fleet_of(one, taken=taken), (OPEN,), NOW_MS, (replace(wants, name="t"),))
    plan = plan_on_fleet([ask(wants)], before.fleet, NOW_MS)
    (refused,) = record_of(plan.answers[0]).candidates
    assert [each.change_if for each in refused.refusals] == ["free a gpus=4"]
    after = apply_changes(before, ("free a gpus=4",))
    assert plan_on_fleet([ask(wants)], after.fleet, NOW_MS).answers[0].choice.clusters == ("a",)


def test_prices_scores_and_data_are_what_is_said() -> None:
    """Told now, by the question."""
    assert first("price a 2.5").costs.usd_per_hour == 2.5
    assert first("score a gpu/free=-7").scores["gpu"].values == {"free": -7}
    (held,) = first("hold a imgs@r1").held
    assert (held.data, held.bytes, held.source) == ("imgs", DATA.bytes, "what if")


def test_policies_change_everywhere() -> None:
    """Weights and tolerations in all placements; a limit where it is set, in tasks too."""
    heavy = after("weight Cost=5").placements
    assert [one.prioritizers for one in heavy] == [(Prioritizer("Cost", 5),)] * 2
    told = after("weight AddOn/gpu/free=2").placements[0].prioritizers[-1]
    assert told == Prioritizer("free", 2, "gpu")
    tolerant = after("tolerate old:NoSelect").placements
    assert all(
        one.tolerations == (Toleration("old", "Exists", "", "NoSelect"),) for one in tolerant
    )
    limited = after("limit max-usd=7")
    wishes = limited.tasks[0].wishes
    assert wishes is not None
    assert [one.limits.usd_max for one in limited.placements] == [7, 0]
    assert wishes.limits.usd_max == 7
    nowhere_set = after("limit finish-by=1h").placements
    assert [one.limits.finish_by_ms for one in nowhere_set] == [NOW_MS + 3_600_000] * 2


def test_a_task_may_wish_otherwise() -> None:
    """What isn't said stays as it was."""
    wishes = after("wish t objective=cost").tasks[0].wishes
    assert wishes is not None
    assert (wishes.objective, wishes.limits.usd_max) == ("cost", 5)
    required = after("wish t require=compliance in (gdpr)").tasks[0].wishes
    assert required is not None
    assert required.limits.claims[0].values == ("gdpr",)
    assert after("wish t stellwerk/expected-runtime=2h").tasks[0].wishes is not None


@pytest.mark.parametrize(
    ("phrase", "message", "remedy"),
    [
        ("", "nothing is changed", "changes are lose, drain"),
        ("loose a", "`loose` is no change", "write `lose CLUSTER` or `lose region=eu-central`"),
        ("lose", "`lose` takes 1 word after it", "write `lose"),
        ("lose aa", "there is no cluster `aa`; did you mean `a`?", "write `lose"),
        ("lose region=eu-wst", "no cluster has region `eu-wst`; did you mean `eu-west`?", ""),
        ("drain a/n9", "`a` has no node `n9`; there are n1, n2", ""),
        ("free a gpus=9", "`9` is no number from 1 to 4", "write `free CLUSTER [gpus=4]`"),
        ("free a cpus=9", "write `gpus=N`", ""),
        ("add a H1000", "`H1000` isn't in the table of devices", ""),
        ("taint a k=v:No", "the effect is one of NoSelect", ""),
        ("untaint a new", "`a` has no taint `new`; there are old", ""),
        ("label a ring-", "there is no `ring` to take away", ""),
        ("label a ring", "write KEY=VALUE, or KEY- to take it away", ""),
        ("price a much", "`much` is no number from 0 to 1e+06", ""),
        ("wait a long", "`long`", ""),
        ("window a ajar", "a window is `open` or `closed`", ""),
        ("hold a img@r1", "the fleet has no data `img@r1`; did you mean `imgs@r1`?", ""),
        ("score a gpu=3", "a score is written RESOURCE/NAME=VALUE", ""),
        ("score a gpu/free=300", "`300` is no number from -100 to 100", ""),
        ("bind x ns", "there is no cluster set `x`", ""),
        ("weight Cots=3", "`Cots` is no score; did you mean `Cost`?", ""),
        ("weight Cost=11", "`11` is no number from -10 to 10", ""),
        ("weight Cost=0.5", "a weight is a whole number", ""),
        ("limit max-uds=3", "`max-uds` is no limit; did you mean `max-usd`?", ""),
        ("wish u max-usd=3", "there is no task `u`", ""),
        ("wish t max-uds=3", "`max-uds` is nothing that a task can wish; did you mean", ""),
        ("wish t objective=best", "best", ""),
    ],
)
def test_a_slip_is_told_with_what_may_be_meant(phrase: str, message: str, remedy: str) -> None:
    """With the phrase, what is wrong, and how it is written."""
    with pytest.raises(StellwerkError) as raised:
        after(phrase)
    (problem,) = raised.value.problems
    assert problem.code == "if/change"
    assert problem.message.startswith(f"`{phrase}`: ")
    assert message in problem.message
    assert remedy in problem.help


def test_all_slips_are_told_at_once() -> None:
    """And those that are right change nothing then."""
    with pytest.raises(StellwerkError) as raised:
        after("lose x", "lose a", "drain y")
    assert len(raised.value.problems) == 2


EXAMPLES = {
    "lose": "lose a", "drain": "drain a", "resume": "resume a", "free": "free a",
    "add": "add a H100:8", "taint": "taint a k=v:NoSelect", "untaint": "untaint a old",
    "tolerate": "tolerate k=v:NoSelect", "label": "label a k=v", "claim": "claim a k=v",
    "price": "price a 2.5", "wait": "wait a 2h", "window": "window a closed",
    "hold": "hold a imgs@r1", "score": "score a r/n=50", "bind": "bind global other",
    "weight": "weight Cost=5", "limit": "limit max-usd=200", "wish": "wish t max-usd=200",
}  # fmt: skip


def test_every_change_changes_the_world() -> None:
    """All but those whose object is so already here."""
    assert set(EXAMPLES) == set(CHANGES)
    for verb, phrase in EXAMPLES.items():
        assert (after(phrase) == world()) == (verb in {"resume", "free"}), phrase


@given(st.integers(0, 1 << 32))
def test_the_changes_told_of_a_refused_cluster_admit_it(seed: int) -> None:
    """Where each failed rule has a change that can be asked about, all of them together let it in.

    Room that is missing because the cluster hasn't that much isn't to be had by a change.
    """
    chance = Random(seed)
    fleet, one = chance_fleet(chance), chance_task(chance, "t")
    limits = chance.choice(
        [
            Limits(usd_per_hour_max=0.6),
            Limits(usd_max=1.0),
            Limits(latency_ms=10.0, client_regions=("eu-west",)),
        ]
    )
    placement = Placement("ns", "p", limits=limits, sets=("global",))
    before = World(fleet, (placement,), NOW_MS, (replace(one, placement="p"),))
    for name, phrases in _turns(before).items():
        assert name not in _turns(apply_changes(before, phrases)), (name, phrases)


def _turns(world: World) -> dict[str, tuple[str, ...]]:
    """The changes by refused cluster that can all be asked about."""
    (one,) = world.tasks
    policy = policy_of(one, {each.key: each for each in world.placements})
    assert isinstance(policy, Placement)
    plan = plan_on_fleet([Ask("t", one, policy)], world.fleet, NOW_MS)
    found = {}
    for candidate in record_of(plan.answers[0]).candidates:
        phrases = tuple(each.change_if for each in candidate.refusals if each.rule.needed)
        if candidate.verdict == "refused" and all(phrases):
            found[candidate.cluster] = phrases
    return found


def test_what_has_no_phrase_has_none() -> None:
    """A remedy that somebody must see to is no change that can be asked about."""
    assert phrase_of("a", None) == ""
    assert phrase_of("a", Turn("remedy", "have it repaired")) == ""
    assert phrase_of("a", Turn("limit", "", "finish_by_ms", "59.2")) == "limit finish-by=60s"
    assert phrase_of("a", Turn("unlabel", "", "k")) == "label a k-"
    assert phrase_of("a", Turn("tolerate", "", "k", "v", "NoSelect")) == "tolerate k=v:NoSelect"


WORDS = st.sampled_from([
    "a", "b", "a/n1", "imgs", "imgs@r1", "t", "ns", "global", "p", "gpus=2", "H100:8", "T4",
    "2h", "0", "nan", "inf", "-1", "1e400", "", "=", ":", "/", "k=v:NoSelect", "old",
    "old:PreferNoSelect", "region=eu-west", "zone=", "=x", "gdpr-", "-", "max-usd=",
    "max-usd=3",
    "finish-by=2h", "finish-by=x", "max-latency=5ms", "objective=cost", "spread=zone?",
    "spread=?", "clusters=0",
    "prewarm=yes", "require=a in (b)", "require=(", "expected-runtime=0s", "prioritize=Cost=3",
    "prioritize==", "Cost=5", "AddOn/x/y=3", "AddOn//=3", "x/y=50", "open", "99999999999999d",
])  # fmt: skip


@given(st.sampled_from([*CHANGES, "", "x"]), st.lists(WORDS, max_size=3))
def test_no_phrase_breaks_anything(verb: str, words: list[str]) -> None:
    """It changes the world or is refused in words, and what it made can be planned on."""
    problems: tuple[Problem, ...] = ()
    try:
        _turns(after(" ".join([verb, *words])))
    except StellwerkError as error:
        problems = error.problems
    assert all(one.code == "if/change" and one.help for one in problems)


@given(st.integers(0, 1 << 32), st.sampled_from([
    "drain {}", "taint {} k=v:NoSelect", "label {} k=v", "claim {} k=v", "price {} 2.5",
    "wait {} 2h", "window {} closed", "hold {} imgs@r1", "score {} r/n=50", "add {} H100:2",
    "free {}", "resume {}",
]))  # fmt: skip
def test_a_change_of_a_cluster_leaves_all_others_alone(seed: int, form: str) -> None:
    """And done twice it is what it was done once, but for what adds up."""
    fleet = chance_fleet(Random(seed))
    before = World(fleet, (OPEN,), NOW_MS)
    name = fleet.clusters[seed % len(fleet.clusters)].name
    once = apply_changes(before, (form.format(name),))
    for old, new in zip(fleet.clusters, once.fleet.clusters, strict=True):
        assert old.name == new.name
        assert old.name == name or old == new
    if form.split(maxsplit=1)[0] not in {"taint", "add"}:
        assert apply_changes(once, (form.format(name),)) == once
