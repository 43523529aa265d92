"""A fleet: clusters with their sets, links and data, and who said what about them, and when."""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.selectors import Selector

SET_LABEL = "cluster.open-cluster-management.io/clusterset"
"""The label by which a cluster is in an exclusive set."""


class ClusterSet(Struct, frozen=True, omit_defaults=True):
    """A named set of clusters: by the set label of each, or by a selector.

    ``exclusive`` False with no selector chooses nothing; with an empty one, everything.
    """

    name: str
    exclusive: bool = True
    selector: Selector | None = None


class SetBinding(Struct, frozen=True, omit_defaults=True):
    """Lets placements of a namespace choose from a set; `implied`: as nobody bound one to it."""

    namespace: str
    set: str
    implied: bool = False


class Link(Struct, frozen=True, omit_defaults=True):
    """A way for data from one place (a cluster, or a store outside) to another.

    ``shared`` = those who use it at the same time divide it. ``egress`` deny = nothing may leave.
    """

    source: str
    target: str
    bits_per_s: float
    usd_per_gb: float = 0.0
    shared: bool = False
    egress: Literal["allow", "deny"] = "allow"


class Latency(Struct, frozen=True, omit_defaults=True):
    """The time from clients of a region to a cluster and back."""

    client_region: str
    cluster: str
    ms: float
    observed_ms: int = 0
    source: str = ""


class Data(Struct, frozen=True, omit_defaults=True):
    """A data set or a model: one revision of named content.

    ``residency`` names the regions that it may lie in; none = any. ``content`` hashes it, where
    known: equal hashes are the same content whatever the names.
    """

    name: str
    revision: str
    bytes: int
    kind: Literal["dataset", "model"] = "dataset"
    residency: tuple[str, ...] = ()
    content: str = ""
    origin: str = ""
    movable: bool = True


class Told(Struct, frozen=True, omit_defaults=True):
    """Who told a block of facts, and when (0 = unknown)."""

    source: str
    at_ms: int = 0


class Contradiction(Struct, frozen=True):
    """Two sources that say different things; ``used`` is the source that was believed."""

    cluster: str
    fact: str
    said: tuple[tuple[str, str], ...]
    used: str


class Fleet(Struct, frozen=True, omit_defaults=True):
    """Everything placement knows about where work may run.

    ``taken`` is what is in use already. ``told`` gives the source and age of each block of a
    cluster's facts (labels, claims, nodes, taints, scores, costs, held, …) by cluster and block.
    """

    clusters: tuple[Cluster, ...]
    sets: tuple[ClusterSet, ...] = ()
    bindings: tuple[SetBinding, ...] = ()
    links: tuple[Link, ...] = ()
    latencies: tuple[Latency, ...] = ()
    data: tuple[Data, ...] = ()
    taken: tuple[Allocation, ...] = ()
    told: dict[str, dict[str, Told]] = {}
    contradictions: tuple[Contradiction, ...] = ()
