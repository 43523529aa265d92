"""Anything that can run work: one machine, a room of PCs, a Slurm partition, a Kubernetes fleet.

What a cluster is and what is known of it. How old each fact is and who told it travels beside it
(`core.model.fleet`), so that a heartbeat changes no cluster.
"""

from typing import Literal

from msgspec import Struct

NodeState = Literal["ready", "unreachable", "quarantined", "drained", "in_use"]

TaintEffect = Literal["NoSelect", "PreferNoSelect", "NoSelectIfNew"]

DeviceHealth = Literal["", "ok", "sick", "gone"]
"""What a driver says of an accelerator; "" = it doesn't say, so nobody knows."""

Available = Literal["True", "False", "Unknown", ""]
"""A cluster's own word on whether it can be worked with; "" = nobody has said anything."""


SLICES_FROM = 100
"""The numbers of MIG slices: slice 2 of GPU 1 is 202."""


def label_of(index: int) -> str:
    """How people know a device by its number: ``1``, or ``1:2`` for slice 2 of GPU 1."""
    if index < SLICES_FROM:
        return str(index)
    return f"{index // SLICES_FROM - 1}:{index % SLICES_FROM}"


class Device(Struct, frozen=True, omit_defaults=True):
    """One accelerator. ``foreign_bytes`` is memory that processes outside Stellwerk hold on it.

    ``foreign_compute``: a process outside Stellwerk computes on it, so it is no whole card, however
    little memory that holds.

    One with a ``fault`` (why it is sick or gone, and what helps) gets nothing new: where work is
    placed, all of its memory counts as held.

    ``reserved_bytes`` is what its driver keeps for itself and nobody can have. ``unified``: it has
    no memory of its own but that of its node. ``part_of`` is the index of the card that a MIG slice
    belongs to (-1: it is a card). Devices of one ``island`` are joined by fast links
    ("" = of none).
    """

    index: int
    kind: str
    memory_bytes: int
    uuid: str = ""
    product: str = ""
    vendor: str = "nvidia"
    foreign_bytes: int = 0
    foreign_compute: bool = False
    health: DeviceHealth = ""
    fault: str = ""
    reserved_bytes: int = 0
    unified: bool = False
    part_of: int = -1
    island: str = ""

    @property
    def usable_bytes(self) -> int:
        """What work can have of its memory, if it has all of it."""
        return max(self.memory_bytes - self.reserved_bytes, 0)

    @property
    def label(self) -> str:
        """How people know it."""
        return label_of(self.index)


class Held(Struct, frozen=True, omit_defaults=True):
    """What a cluster has of a data set or model at a revision.

    ``bytes`` None = it has something and nobody knows how much. ``shared_bytes`` counts content
    that another revision (the one asked for) has in common with this one. ``pinned`` data can't be
    evicted. ``content`` is the hash of what is really there, where somebody looked.
    ``lost_probability`` (0..1) is how likely it is gone before work can use it. ``partial_bytes``
    lie in files that aren't whole and never count. ``missing_bytes`` is what the revision has and
    isn't there (None = nobody can tell). ``whole`` says how certain that is: by the list of its
    files, or only because every link leads to a file; "half" where something lacks, of which
    ``lacks`` names the first. ``place`` is the folder that it lies in.
    """

    data: str
    revision: str
    bytes: int | None = None
    shared_bytes: int = 0
    observed_ms: int = 0
    source: str = ""
    pinned: bool = False
    content: str = ""
    lost_probability: float = 0.0
    partial_bytes: int = 0
    missing_bytes: int | None = None
    whole: Literal["", "proved", "links", "half"] = ""
    lacks: str = ""
    place: str = ""
    refs: tuple[str, ...] = ()


class Node(Struct, frozen=True, omit_defaults=True):
    """One machine of a cluster with what it can give (allocatable, not what is free now).

    ``foreign_cpus_milli`` and ``foreign_memory_bytes`` are what others hold of it, who say so.

    ``domains`` says where it stands inside the cluster, by level: rack, switch, host. ``held`` is
    what lies in the caches of this machine. ``windows`` are the intervals (UTC ms) in which it may
    be used where a calendar speaks of it alone; none = those of its cluster.
    """

    name: str
    cpus_milli: int
    memory_bytes: int
    disk_bytes: int = 0
    devices: tuple[Device, ...] = ()
    state: NodeState = "ready"
    boot_id: str = ""
    machine_id: str = ""
    address: str = ""
    note: str = ""
    domains: dict[str, str] = {}
    foreign_cpus_milli: int = 0
    foreign_memory_bytes: int = 0
    held: tuple[Held, ...] = ()
    windows: tuple[tuple[int, int], ...] = ()


class Taint(Struct, frozen=True, omit_defaults=True):
    """Keeps work away that doesn't tolerate it. ``added_ms`` 0 = nobody said when."""

    key: str
    effect: TaintEffect
    value: str = ""
    added_ms: int = 0


class ScoreObject(Struct, frozen=True, omit_defaults=True):
    """Scores that somebody computed for a cluster (-100..100), by name.

    ``valid_until_ms`` 0 = for ever; ``observed_ms`` 0 = unknown when.
    """

    values: dict[str, int]
    valid_until_ms: int = 0
    observed_ms: int = 0
    source: str = ""


class Costs(Struct, frozen=True, omit_defaults=True):
    """What it costs to use a cluster.

    ``usd_per_hour`` for one node while it is used; by accelerator kind in ``usd_per_device_hour``
    where a price is told for those. ``watts`` is what a node draws under load.
    """

    usd_per_hour: float = 0.0
    usd_per_device_hour: dict[str, float] = {}
    watts: float = 0.0


class Cluster(Struct, frozen=True, omit_defaults=True):
    """A cluster as last observed or declared.

    ``capacity`` and ``allocatable`` are totals by resource as an engine tells them, in thousandths
    (cores, bytes, devices); where nodes are known, those are what work is put on. ``windows`` are
    the intervals (UTC ms) in which it may be used; none = always. ``speed`` is relative to the
    machine that estimates were made for. ``wait_s`` is how long its own queue is expected to keep
    work waiting. ``reliability`` is the part of runs (0..1) that no failure of the cluster ended.
    ``room_bytes`` is where data can be put, ``evictable_bytes`` what could be thrown away for it.
    ``lease_s`` is how often it renews its lease (0 = it has none). ``kubernetes`` is the version of
    its API server, ``annotations`` are those of its object. ``serves`` are the users as whom it can
    start something now ("" = the server's own; none named = whoever asks): on a machine of several
    people those whose runtime is there, elsewhere its ``owner`` and whom they share it with.
    """

    name: str
    driver: str
    nodes: tuple[Node, ...]
    kind: str = "machine"
    labels: dict[str, str] = {}
    claims: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    scores: dict[str, ScoreObject] = {}
    available: Available = ""
    deleting: bool = False
    owner: str = ""
    costs: Costs = Costs()
    held: tuple[Held, ...] = ()
    room_bytes: int | None = None
    evictable_bytes: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    speed: float = 1.0
    wait_s: float = 0.0
    reliability: float | None = None
    lease_s: int = 0
    kubernetes: str = ""
    annotations: dict[str, str] = {}
    serves: tuple[str, ...] = ()
