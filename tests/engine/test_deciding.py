"""Decisions of the worker thread: none that was overtaken is told again."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from stellwerk.core.inventory.live import Inventory
from stellwerk.core.inventory.merge import Source
from stellwerk.core.model.cluster import Cluster, Taint
from stellwerk.core.model.fleet import ClusterSet, Fleet, SetBinding, Told
from stellwerk.core.model.placement import (
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.selectors import Selector
from stellwerk.core.model.standing import Standing
from stellwerk.engine.deciding import Decider

EVERYTHING = ClusterSet("all", exclusive=False, selector=Selector())
ALL = Fleet((), sets=(EVERYTHING,), bindings=(SetBinding("lab", "all"),))
KEY = "lab/some"
FIRST = Cluster("first", "ocm", (), labels={"tier": "gold"})
SECOND = Cluster("second", "ocm", (), labels={"tier": "iron"})

Answers = list[tuple[int, tuple[str, ...]]]


def decider(*clusters: Cluster) -> Decider:
    """Over a fleet of these clusters, all of which may be chosen."""
    inventory = Inventory()
    inventory.say("lab", Source("lab", "declared", replace(ALL, clusters=clusters)))
    return Decider(inventory)


def of_tier(*tiers: str) -> Placement:
    """One cluster of any of these tiers."""
    predicates = tuple(Predicate(Selector({"tier": tier})) for tier in tiers)
    return Placement("lab", "some", count=1, predicates=predicates)


def told(one: Decider, now_ms: int, *used: str) -> Answers:
    """The answers, each with the version that it is for."""
    made = [each.answer for each in one.answers(now_ms, used)]
    return [(answer.version, answer.decided.clusters) for answer in made]


def test_a_placement_that_is_used_follows_its_new_spec() -> None:
    """What was decided for the old spec isn't told again for the new one."""
    one = decider(FIRST, SECOND)
    one.apply([Standing(of_tier("gold"))], (), ())
    assert told(one, 1000, KEY) == [(1, ("first",))]
    one.apply([Standing(of_tier("iron"), version=2)], (), ())
    assert told(one, 2000, KEY) == [(2, ("second",))]
    assert told(one, 3000, KEY) == []


def test_a_placement_that_is_used_moves_when_a_toleration_ends() -> None:
    """Time alone changes the choice, and the old one isn't told again after it."""
    taint = Taint("slow", "NoSelect", added_ms=1000)
    one = decider(replace(FIRST, taints=(taint,)), SECOND)
    placement = Placement(
        "lab", "some", count=1, tolerations=(Toleration("slow", "Exists", seconds=9),)
    )
    one.apply([Standing(placement)], (), ())
    assert told(one, 1000, KEY) == [(1, ("first",))]
    assert one.requeue_at_ms() == 10_000
    assert told(one, 10_000, KEY) == [(1, ("second",))]
    assert told(one, 11_000, KEY) == []


def test_a_new_spec_is_answered_even_if_the_clusters_stay() -> None:
    """Else the new version would count as not decided, and be explained by the old spec."""
    one = decider(FIRST, SECOND)
    one.apply([Standing(of_tier("gold"))], (), ())
    assert told(one, 1000) == [(1, ("first",))]
    one.apply([Standing(of_tier("gold", "none"), version=2)], (), ())
    assert told(one, 2000) == [(2, ("first",))]
    assert told(one, 3000) == []


def test_a_cluster_that_falls_silent_is_left() -> None:
    """Time alone does it, at the moment that was told before."""
    leased = replace(FIRST, lease_s=60)
    heard = {"first": {"lease": Told("Lease", 1000)}}
    inventory = Inventory()
    inventory.say("lab", Source("lab", "told", replace(ALL, clusters=(leased, SECOND), told=heard)))
    one = Decider(inventory)
    one.apply([Standing(Placement("lab", "some", count=1))], (), ())
    assert told(one, 2000) == [(1, ("first",))]
    assert one.requeue_at_ms() == 301_000
    assert told(one, 300_999) == []
    assert told(one, 301_000) == [(1, ("second",))]
    assert one.requeue_at_ms() == 0


BROKEN: dict[str, Callable[[Placement], Placement]] = {
    "compilation failed": lambda one: replace(one, predicates=(Predicate(cel=("nonsense(",)),)),
    "isn't from -10 to 10": lambda one: replace(one, prioritizers=(Prioritizer("Cost", 11),)),
    "value should be empty": lambda one: replace(
        one, tolerations=(Toleration("k", "Exists", "v"),)
    ),
    "incorrect builtin": lambda one: replace(one, prioritizers=(Prioritizer("Coast"),)),
    "not a percentage": lambda one: replace(one, clusters_per_group="many"),
    "a skew of 0": lambda one: replace(one, spread=(SpreadConstraint("zone", max_skew=0),)),
}


@pytest.mark.parametrize("wrong", BROKEN)
def test_what_was_decided_stays_whatever_is_wrong_with_a_new_spec(wrong: str) -> None:
    """And its condition says what is wrong, until the spec is mended."""
    one = decider(FIRST, SECOND)
    one.apply([Standing(of_tier("gold"))], (), ())
    [first] = (made.answer.decided for made in one.answers(1000))
    assert first.clusters == ("first",)
    broken = BROKEN[wrong](of_tier("iron"))
    one.apply([Standing(broken, version=2, decided=first, decided_for=1)], (), ())
    [made] = one.answers(2000)
    decided = made.answer.decided
    assert (decided.clusters, decided.kept) == (("first",), True)
    [condition] = [each for each in decided.conditions if each.type == "PlacementMisconfigured"]
    assert (condition.status, wrong in condition.message) == ("True", True)
    one.apply([Standing(of_tier("iron"), version=3)], (), ())
    assert told(one, 3000) == [(3, ("second",))]


def test_clusters_that_come_and_go_make_no_new_columns() -> None:
    """What was found stays, at the rows where its clusters are now, and tells the same."""
    inventory = Inventory()
    names = [f"c{number:02}" for number in range(0, 40, 2)]

    def say(*listed: str) -> None:
        gold = tuple(replace(FIRST, name=name) for name in listed)
        inventory.say("lab", Source("lab", "declared", replace(ALL, clusters=gold)))

    say(*names)
    one = Decider(inventory)
    one.apply([Standing(of_tier("gold"))], (), ())
    assert told(one, 1000) == [(1, ("c00",))]
    placer = one._placer
    say("a-first-one", *names[1:])
    assert told(one, 2000) == [(1, ("a-first-one",))]
    say("a-first-one", "b", *names[1:])
    assert told(one, 3000) == []
    say(*names[1:])
    assert told(one, 4000) == [(1, ("c02",))]
    assert one._placer is placer
