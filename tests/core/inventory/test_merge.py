"""Several sources of one fleet: whom to believe, what is told, what contradicts."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.inventory.merge import Source, Trust, merge, with_everything, with_global_set
from stellwerk.core.inventory.merge_taken import amounts_of
from stellwerk.core.model.cluster import (
    Cluster,
    Costs,
    Device,
    Held,
    Node,
    ScoreObject,
    Taint,
)
from stellwerk.core.model.fleet import (
    ClusterSet,
    Contradiction,
    Data,
    Fleet,
    Link,
    SetBinding,
    Told,
)
from stellwerk.core.model.resources import Allocation, DeviceShare, NodeAllocation
from stellwerk.core.model.selectors import Selector

GIB = 1 << 30
Drawn = list[tuple[Trust, list[Cluster], bool]]


def source(
    trust: Trust, *clusters: Cluster, at_ms: int = 1, whole: bool = True, **more: Any
) -> Source:
    """A source named like its trust."""
    return Source(trust, trust, Fleet(clusters, **more), at_ms, whole)


def test_trust() -> None:
    """Declared before probed before told, key by key; what is not used is a contradiction."""
    fleet = merge(
        [
            source("told", Cluster("a", "ocm", (), claims={"os": "x", "gpu": "T4", "up": "1"})),
            source("probed", Cluster("a", "ssh", (), claims={"os": "linux", "arch": "x86_64"})),
            source("declared", Cluster("a", "", (), claims={"os": "Linux"}, owner="lab")),
        ]
    )
    (cluster,) = fleet.clusters
    assert cluster.driver == "ssh"
    assert cluster.owner == "lab"
    assert cluster.claims == {"os": "Linux", "arch": "x86_64", "gpu": "T4", "up": "1"}
    told = fleet.told["a"]
    assert told["claims"] == Told("declared", 1)
    assert told["claims.arch"] == Told("probed", 1)
    assert told["claims.gpu"] == Told("told", 1)
    assert told["driver"] == Told("probed", 1)
    assert fleet.contradictions == (
        Contradiction("a", "driver", (("probed", "ssh"), ("told", "ocm")), "probed"),
        Contradiction(
            "a",
            "claims.os",
            (("declared", "Linux"), ("probed", "linux"), ("told", "x")),
            "declared",
        ),
    )


def test_a_node_declared_and_found() -> None:
    """Its numbers are as declared, its identity and its cards' state as found."""
    declared = Node(
        "n", 8000, 64 * GIB, devices=(Device(0, "L4", 24 * GIB),), domains={"rack": "r"}
    )
    found = Node(
        "n",
        16_000,
        63 * GIB,
        100 * GIB,
        (Device(0, "L4", 22 * GIB, uuid="u", foreign_bytes=GIB), Device(1, "L4", 22 * GIB)),
        state="unreachable",
        boot_id="b",
        domains={"rack": "x", "host": "n"},
    )
    fleet = merge(
        [
            source("probed", Cluster("a", "ssh", (found, Node("m", 1000, GIB)))),
            source("declared", Cluster("a", "ssh", (declared,))),
        ]
    )
    assert fleet.clusters[0].nodes == (
        Node("m", 1000, GIB),
        Node(
            "n",
            8000,
            64 * GIB,
            100 * GIB,
            (Device(0, "L4", 24 * GIB, uuid="u", foreign_bytes=GIB),),
            state="unreachable",
            boot_id="b",
            domains={"rack": "r", "host": "n"},
        ),
    )
    assert [(each.fact, each.said) for each in fleet.contradictions] == [
        ("nodes.n.cpus_milli", (("declared", "8000"), ("probed", "16000"))),
        ("nodes.n.devices", (("declared", "L4:1"), ("probed", "L4:2"))),
    ]


def test_lists_by_key() -> None:
    """Taints by key and effect, data held by name and revision."""
    fleet = merge(
        [
            source(
                "told",
                Cluster(
                    "a",
                    "ocm",
                    (),
                    taints=(Taint("z", "NoSelect"), Taint("k", "NoSelect", "told")),
                    held=(Held("d", "1", 5), Held("e", "1", 7)),
                ),
            ),
            source(
                "declared",
                Cluster(
                    "a", "", (), taints=(Taint("k", "NoSelect", "mine"),), held=(Held("d", "1", 9),)
                ),
            ),
        ]
    )
    assert fleet.clusters[0].taints == (Taint("k", "NoSelect", "mine"), Taint("z", "NoSelect"))
    assert fleet.clusters[0].held == (Held("d", "1", 9), Held("e", "1", 7))


def test_what_only_adds() -> None:
    """A score for a cluster that nobody has makes no cluster."""
    scores = Cluster("a", "", (), scores={"gpu": ScoreObject({"free": 3})})
    fleet = merge(
        [
            source("told", scores, replace_name(scores, "ghost"), whole=False),
            source("probed", Cluster("a", "ssh", ())),
        ]
    )
    assert [each.name for each in fleet.clusters] == ["a"]
    assert fleet.clusters[0].scores == {"gpu": ScoreObject({"free": 3})}


def replace_name(cluster: Cluster, name: str) -> Cluster:
    """The same facts of another cluster."""
    return Cluster(name, cluster.driver, cluster.nodes, scores=cluster.scores)


def test_times() -> None:
    """A fact's own time holds before its block's, and that before its source's."""
    told = {
        "a": {"claims": Told("probe", 50), "claims.gpu": Told("nvml", 60), "lease": Told("h", 7)}
    }
    one = source("probed", Cluster("a", "ssh", (), claims={"gpu": "L4", "os": "x"}), told=told)
    other = source("told", Cluster("a", "", (), owner="lab"), told={"a": {"lease": Told("h", 9)}})
    assert merge([one, other]).told["a"] == {
        "driver": Told("probed", 1),
        "owner": Told("told", 1),
        "claims": Told("probe", 50),
        "claims.gpu": Told("nvml", 60),
        "lease": Told("h", 9),
    }


def test_beside_the_clusters() -> None:
    """Links, data and sets are the more trusted source's, each once; of use the larger counts."""
    held = Allocation("a", (NodeAllocation("n", 1000),))
    more = Allocation("a", (NodeAllocation("n", 3000),))
    fleet = merge(
        [
            source(
                "told",
                links=(Link("x", "a", 1e9), Link("y", "a", 1e9)),
                data=(Data("d", "1", 5),),
                taken=(more,),
            ),
            source(
                "declared", links=(Link("x", "a", 2e9),), data=(Data("d", "1", 6),), taken=(held,)
            ),
        ]
    )
    assert fleet.links == (Link("x", "a", 2e9), Link("y", "a", 1e9))
    assert fleet.data == (Data("d", "1", 6),)
    assert fleet.taken == (held, Allocation("a", (NodeAllocation("n", 2000),)))
    assert fleet.contradictions == (
        Contradiction(
            "a",
            "taken",
            (("declared", "n: 1 CPUs"), ("told", "n: 3 CPUs")),
            "the larger of declared and told, of each resource",
        ),
        Contradiction("", "data.d@1.bytes", (("declared", "6"), ("told", "5")), "declared"),
    )


def test_sets_that_nobody_bound() -> None:
    """All of them and one of everything are bound; a binding of one's own turns that off."""
    fleet = with_global_set(Fleet((), (ClusterSet("gpu"),)), ["b", "a", "a"])
    assert fleet.sets == (ClusterSet("global", False, Selector()), ClusterSet("gpu"))
    assert [(each.namespace, each.set) for each in fleet.bindings] == [
        ("a", "global"),
        ("a", "gpu"),
        ("b", "global"),
        ("b", "gpu"),
    ]
    bound = Fleet((), bindings=(SetBinding("a", "gpu"),))
    assert with_global_set(bound, ["a"]) is bound
    both = with_global_set(bound, ["b", "a"])
    assert [(each.namespace, each.set, each.implied) for each in both.bindings] == [
        ("a", "gpu", False),
        ("b", "global", True),
    ]


def test_a_namespace_of_everything() -> None:
    """Beside bindings that others made; asked for again it is the same."""
    bound = Fleet((), (ClusterSet("gpu"),), (SetBinding("a", "gpu"),))
    fleet = with_everything(bound, "task")
    assert fleet.sets == (ClusterSet("global", False, Selector()), ClusterSet("gpu"))
    assert fleet.bindings == (SetBinding("a", "gpu"), SetBinding("task", "global"))
    assert with_everything(fleet, "task") is fleet


WORDS = st.sampled_from(["a", "b", "c"])
CLUSTERS = st.builds(
    lambda name, labels, owner, speed, keys, costs: Cluster(
        name,
        "ssh",
        (),
        labels=labels,
        owner=owner,
        speed=speed,
        taints=tuple(Taint(key, "NoSelect") for key in keys),
        costs=costs,
    ),
    WORDS,
    st.dictionaries(WORDS, WORDS, max_size=2),
    st.sampled_from(["", "x", "y"]),
    st.sampled_from([1.0, 2.0]),
    st.lists(WORDS, unique=True, max_size=2),
    st.sampled_from([Costs(), Costs(1.0)]),
)
SOURCES = st.lists(
    st.tuples(
        st.sampled_from(["declared", "probed", "told"]),
        st.lists(CLUSTERS, max_size=3, unique_by=lambda each: each.name),
        st.booleans(),
    ),
    max_size=3,
    unique_by=lambda each: each[0],
)


@given(SOURCES, st.randoms(use_true_random=False))
def test_order_means_nothing(drawn: Drawn, dice: Random) -> None:
    """Sources of different trust, in whatever order, and clusters in whatever order."""
    sources = [source(trust, *clusters, whole=whole) for trust, clusters, whole in drawn]
    mixed = [source(trust, *dice.sample(clusters, len(clusters)), whole=whole)
             for trust, clusters, whole in drawn]  # fmt: skip
    dice.shuffle(mixed)
    assert merge(mixed) == merge(sources)


@given(SOURCES)
def test_every_fact_has_a_speaker(drawn: Drawn) -> None:
    """Whatever a merged cluster says, a source said, and the most trusted who says it is told."""
    sources = [source(trust, *clusters, whole=whole) for trust, clusters, whole in drawn]
    fleet = merge(sources)
    ranks = {"declared": 0, "probed": 1, "told": 2}
    for cluster in fleet.clusters:
        said = [
            (ranks[each.trust], each.name, one)
            for each in sources
            for one in each.fleet.clusters
            if one.name == cluster.name
        ]
        said.sort(key=lambda each: each[0])
        for key, value in cluster.labels.items():
            assert value == next(one.labels[key] for _, _, one in said if key in one.labels)
        owner = next(((name, one.owner) for _, name, one in said if one.owner), None)
        assert cluster.owner == (owner[1] if owner else "")
        if owner:
            assert fleet.told[cluster.name]["owner"].source == owner[0]


Use = dict[str, tuple[int, int, dict[int, int]]]
SIZES = st.integers(1, 4)
USES = st.dictionaries(
    st.sampled_from(["n", "m"]),
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.dictionaries(st.integers(0, 3), SIZES)),
    min_size=1,
)


@given(USES, USES)
def test_what_is_in_use_is_the_larger_of_each_resource(declared: Use, runs: Use) -> None:
    """What runs hold stays as it is; a file adds what it says beyond that, and nothing else."""

    def taken(use: Use) -> tuple[Allocation, ...]:
        return tuple(
            Allocation("a", (NodeAllocation(node, cpus, memory, 0, shares(devices)),))
            for node, (cpus, memory, devices) in use.items()
        )

    def shares(devices: dict[int, int]) -> tuple[DeviceShare, ...]:
        return tuple(DeviceShare(index, size) for index, size in devices.items())

    held, said = taken(runs), taken(declared)
    fleet = merge([source("probed", taken=held), source("declared", taken=said)])
    assert fleet.taken[: len(held)] == held
    found, mine, other = amounts_of(fleet.taken), amounts_of(held), amounts_of(said)
    for node in found:
        both = [use[node] for use in (mine, other) if node in use]
        assert found[node].cpus_milli == max(one.cpus_milli for one in both)
        assert found[node].memory_bytes == max(one.memory_bytes for one in both)
        assert len(found[node].devices) == max(len(one.devices) for one in both)
        for index, size in (mine[node].devices if node in mine else {}).items():
            theirs = other[node].devices.get(index, 0) if node in other else 0
            assert found[node].devices[index] == max(size, theirs)
    assert bool(fleet.contradictions) == (mine != other)
