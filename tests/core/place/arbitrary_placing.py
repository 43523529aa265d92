"""Arbitrary fleets, placements and decisions, small enough to hit every rule often.

They are made of a seed: hypothesis draws the seed, which takes a hundredth of drawing each part.
"""

from random import Random

from stellwerk.core.model.cluster import Cluster, ScoreObject, Taint, TaintEffect
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, SetBinding
from stellwerk.core.model.placement import Compat, Placement, Predicate, Prioritizer, Toleration
from stellwerk.core.model.placing import Existing, PlacingContext
from stellwerk.core.model.selectors import Operator, Requirement, Selector

NOW_MS = 1_800_000_000_000
NAMES = [f"c{number}" for number in range(8)]
KEYS = ("site", "tier")
VALUES = ("lab", "cloud", "edge")
EFFECTS: tuple[TaintEffect, ...] = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
WITH_VALUES: tuple[Operator, ...] = ("In", "NotIn")
WITHOUT: tuple[Operator, ...] = ("Exists", "DoesNotExist")


def requirement(chance: Random) -> Requirement:
    """A condition of any operator that makes sense."""
    key = chance.choice(KEYS)
    if chance.random() < 0.6:
        values = tuple(chance.sample(VALUES, chance.randint(1, 2)))
        return Requirement(key, chance.choice(WITH_VALUES), values)
    return Requirement(key, chance.choice(WITHOUT))


def texts(chance: Random, most: int) -> dict[str, str]:
    """A few labels or claims."""
    return {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randint(0, most))}


def taint(chance: Random) -> Taint:
    """A taint, old or of unknown age."""
    age = chance.choice([0, NOW_MS - 50_000, NOW_MS - 60_000, NOW_MS - 200_000])
    return Taint(chance.choice("km"), chance.choice(EFFECTS), chance.choice(["", "v"]), age)


def toleration(chance: Random) -> Toleration:
    """A toleration that makes sense."""
    effect = chance.choice(["", "NoSelect", "NoSelectIfNew"])
    if chance.random() < 0.5:
        return Toleration(chance.choice(["", "k"]), "Exists", "", effect)
    seconds = chance.choice([None, None, 60, 120])
    return Toleration(chance.choice("km"), "Equal", chance.choice(["", "v"]), effect, seconds)


def cluster_of(chance: Random, name: str) -> Cluster:
    """A cluster, in a set or not."""
    labels = texts(chance, 2)
    member = chance.choice(["s", "s", "s", "t", ""])
    if member:
        labels[SET_LABEL] = member
    resources = chance.sample(["cpu", "memory"], chance.randint(0, 2))
    allocatable = {one: chance.choice([4000, 7000, 16000, 48000]) for one in resources}
    until = chance.choice([0, 0, NOW_MS - 1, NOW_MS, NOW_MS + 60_000])
    score = ScoreObject({"free": chance.randint(-100, 100)}, until, NOW_MS - 5000)
    return Cluster(
        name=name,
        driver="ocm",
        nodes=(),
        labels=labels,
        claims=texts(chance, 2),
        taints=tuple(taint(chance) for _ in range(chance.choice([0, 0, 1, 2]))),
        allocatable=allocatable,
        capacity=allocatable if chance.random() < 0.5 else {"cpu": 64_000},
        scores={"gpu": score} if chance.random() < 0.8 else {},
        deleting=chance.random() < 0.1,
    )


def fleet_of(chance: Random) -> Fleet:
    """A few clusters in two sets, one or both of them bound."""
    names = chance.sample(NAMES, chance.randint(1, 8))
    bound = chance.choice([("s",), ("s", "t"), ("t",)])
    return Fleet(
        clusters=tuple(cluster_of(chance, name) for name in names),
        sets=(ClusterSet("s"), ClusterSet("t")),
        bindings=tuple(SetBinding("team-a", name) for name in bound),
    )


def placement_of(chance: Random, compat: Compat = "") -> Placement:
    """A placement whose spec makes sense."""
    names = ["Balance", "Steady", "ResourceAllocatableCPU"]
    scores = [
        Prioritizer("free", chance.randint(-3, 5), "gpu")
        if chance.random() < 0.5
        else Prioritizer(chance.choice(names), chance.randint(-3, 5))
        for _ in range(chance.randint(0, 3))
    ]
    rules = [
        Predicate(
            Selector(
                texts(chance, 1), tuple(requirement(chance) for _ in range(chance.randint(0, 1)))
            ),
            tuple(requirement(chance) for _ in range(chance.randint(0, 2))),
        )
        for _ in range(chance.randint(0, 2))
    ]
    return Placement(
        namespace="team-a",
        name="p",
        sets=chance.choice([(), (), ("s",), ("t", "u")]),
        predicates=tuple(rules),
        count=chance.choice([None, 0, 1, 2, 3, 9]),
        mode=chance.choice(["Additive", "Exact"]),
        prioritizers=tuple(scores),
        tolerations=tuple(toleration(chance) for _ in range(chance.randint(0, 2))),
        compat=compat,
    )


def context_of(chance: Random, *, own: bool = True) -> PlacingContext:
    """Decisions that others, and perhaps the placement itself, have."""

    def some() -> tuple[str, ...]:
        return tuple(chance.sample([*NAMES, "far"], chance.randint(0, 4)))

    existing = [Existing("team-b", f"q{number}", some()) for number in range(chance.randint(0, 3))]
    if own:
        existing.append(Existing("team-a", "p", some()))
    return PlacingContext(NOW_MS, tuple(existing))
