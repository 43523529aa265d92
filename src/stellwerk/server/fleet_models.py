"""The bodies of answers about the fleet; like all models of the API they only ever gain fields."""

import msgspec

from stellwerk.server.standing_models import ClusterFacts


class GpuUserView(msgspec.Struct, frozen=True):
    """A run on a device: what it was given of its memory, and what it was last seen to hold.

    ``used_bytes`` is null where nobody could tell, ``idle_ms`` for how long no device of the run
    was busy. ``name`` is empty where one doesn't see whose it is.
    """

    run: str
    name: str
    asked_bytes: int
    used_bytes: int | None = None
    idle_ms: int | None = None


class DeviceView(msgspec.Struct, frozen=True):
    """An accelerator: what runs of ours hold of its memory, and what others hold.

    ``health`` is `ok`, `sick`, `gone`, or empty where nobody knows; one with a ``fault`` gets
    nothing new.
    """

    index: int
    kind: str
    product: str
    uuid: str
    memory_bytes: int
    held_bytes: int
    foreign_bytes: int
    runs: list[str]
    foreign_compute: bool = False
    health: str = ""
    fault: str = ""
    label: str = ""
    reserved_bytes: int = 0
    unified: bool = False
    part_of: int = -1
    island: str = ""
    free_bytes: int | None = None
    busy_percent: int | None = None
    users: list[GpuUserView] = []


class NodeView(msgspec.Struct, frozen=True):
    """A machine: what it can give, and what is left of it."""

    name: str
    state: str
    note: str
    cpus: float
    cpus_free: float
    memory_bytes: int
    memory_free_bytes: int
    disk_bytes: int
    disk_free_bytes: int
    devices: list[DeviceView]
    windows: tuple[tuple[int, int], ...] = ()


class ClusterView(msgspec.Struct, frozen=True):
    """A cluster as last observed, with what our runs hold there."""

    name: str
    driver: str
    kind: str
    state: str
    nodes: list[NodeView]
    runs: list[str]
    facts_age_ms: int | None
    labels: dict[str, str]
    claims: dict[str, str]
    windows: tuple[tuple[int, int], ...] = ()


class Clusters(msgspec.Struct, frozen=True):
    """All clusters."""

    items: list[ClusterView]
    seq: int


class ClusterPage(msgspec.Struct, frozen=True):
    """One cluster with all that is known of it, beside what its own driver sees."""

    cluster: ClusterView
    facts: ClusterFacts
    seq: int


class Resumed(msgspec.Struct, frozen=True):
    """A node that was quarantined, and the state that it is in now."""

    cluster: str
    node: str
    state: str
