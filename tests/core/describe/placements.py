"""Hypothesis strategies for placements that a person could have written."""

from hypothesis import strategies as st

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
from stellwerk.core.model.quantity import GIB, MIB
from stellwerk.core.model.resources import GpuRequest, Request
from stellwerk.core.model.selectors import Requirement, Selector

WORDS = st.sampled_from(["a", "b-1", "eu.west", "x", "Tier_2"])
NAMES = st.sampled_from(["p", "team-a", "a.b"])
TEXTS = st.sampled_from(["", "v", "true", "1", "12e3", "ja: nein", "#x", "null", "ü"])
POSITIVE = st.sampled_from([0.25, 1.0, 12.5, 400.0])


def lists(each: st.SearchStrategy) -> st.SearchStrategy:
    """A few of them, as a tuple."""
    return st.lists(each, max_size=3).map(tuple)


def names(each: st.SearchStrategy) -> st.SearchStrategy:
    """A few different ones, as a tuple."""
    return st.lists(each, max_size=3, unique=True).map(tuple)


REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        WORDS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Requirement, WORDS, st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(Selector, st.dictionaries(WORDS, TEXTS, max_size=2), lists(REQUIREMENTS))
PREDICATES = st.builds(
    Predicate, SELECTORS, lists(REQUIREMENTS), lists(st.sampled_from(["1 == 1", "has(a.b)"]))
)
TOLERATIONS = st.one_of(
    st.builds(
        Toleration,
        WORDS,
        st.just("Equal"),
        TEXTS,
        st.sampled_from(["", "NoSelect", "NoSelectIfNew"]),
        st.sampled_from([None, 0, 300]),
    ),
    st.builds(Toleration, st.sampled_from(["", "a"]), st.just("Exists")),
)
WEIGHTS = st.integers(-10, 10)
REFERENCE = st.one_of(
    st.builds(Prioritizer, st.sampled_from(["Balance", "Steady"]), WEIGHTS),
    st.builds(Prioritizer, WORDS, WEIGHTS, WORDS),
)
OWN = st.builds(Prioritizer, st.sampled_from(["Cost", "Start", "Latency"]), WEIGHTS)
SPREADS = st.builds(
    SpreadConstraint,
    WORDS,
    st.sampled_from(["Label", "Claim"]),
    st.integers(1, 5),
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
)
GROUPS = st.builds(GroupRule, WORDS, SELECTORS, lists(REQUIREMENTS))
LIMITS = st.builds(
    lambda claims, money, hourly, by, latency, clients: Limits(
        claims, money, hourly, by, latency if clients else 0.0, clients
    ),
    lists(REQUIREMENTS),
    st.sampled_from([0.0, 0.1, 12.5]),
    st.sampled_from([0.0, 3.0]),
    st.sampled_from([0, 1_800_000_000_000, 1_800_000_000_001]),
    st.sampled_from([0.0, 40.0, 0.5]),
    names(WORDS),
)
SIZES = st.sampled_from([0, GIB, 80 * GIB, 1500 * MIB])
GPUS = st.one_of(
    st.builds(
        lambda count, kind, vendor, share: GpuRequest(
            count, kind, "" if kind else vendor, share_bytes=share
        ),
        st.integers(1, 8),
        st.sampled_from(["", "A100-80GB", "RTX4090", "Own-Chip"]),
        st.sampled_from(["", "amd"]),
        SIZES,
    ),
    st.builds(
        lambda kind, part: GpuRequest(1, kind, fraction_milli=part),
        st.sampled_from(["", "A100"]),
        st.integers(1, 999),
    ),
    st.builds(
        lambda count, vendor, least, exact: GpuRequest(
            count, vendor=vendor, memory_min_bytes=least, memory_exact_bytes=0 if least else exact
        ),
        st.integers(1, 8),
        st.sampled_from(["", "nvidia"]),
        SIZES,
        st.sampled_from([24 * GIB, 1500 * MIB]),
    ),
)
DEMANDS = st.builds(Request, st.sampled_from([1000, 500, 64_000]), SIZES, SIZES, st.none() | GPUS)
EXACT: st.SearchStrategy[Compat] = st.sampled_from(["", "ocm"])


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """A placement that any of its parts may be left out of."""
    compat = draw(EXACT)
    own = lists(OWN)
    prioritizers = draw(lists(REFERENCE | OWN)) if compat else (*draw(lists(REFERENCE)), *draw(own))
    return Placement(
        namespace=draw(NAMES),
        name=draw(NAMES),
        sets=draw(names(WORDS)),
        predicates=draw(lists(PREDICATES)),
        count=draw(st.sampled_from([None, 0, 3])),
        mode=draw(st.sampled_from(["Additive", "Exact"])),
        prioritizers=prioritizers,
        tolerations=draw(lists(TOLERATIONS)),
        spread=draw(lists(SPREADS)),
        groups=draw(lists(GROUPS)),
        clusters_per_group=draw(st.sampled_from(["100%", "25%", "3"])),
        compat=compat,
        external=draw(st.booleans()),
        objective=draw(st.sampled_from(["score", "cost", "weighted"])),
        usd_per_hour_of_waiting=draw(st.sampled_from([0.0, 1.5])),
        limits=draw(LIMITS),
        demand=draw(st.none() | DEMANDS),
        num_nodes=draw(st.integers(1, 3)),
        standby=draw(st.integers(0, 2)),
        move_gain=draw(st.sampled_from([10, 0, 25])),
        data=draw(names(st.sampled_from(["c4-nl@r3", "toy"]))),
        labels=draw(st.dictionaries(WORDS, TEXTS, max_size=2)),
        annotations=draw(st.dictionaries(WORDS, TEXTS, max_size=2)),
    )
