"""What travels about the fleet: clusters, nodes and devices, as structs of the JSON of API v1."""

from msgspec import Struct


class GpuUser(Struct):
    """A run on a device: what it was given of its memory, and what it holds."""

    run: str
    name: str = ""
    asked_bytes: int = 0
    used_bytes: int | None = None
    idle_ms: int | None = None


class GpuPoints(Struct):
    """How full and busy a device was: `[at_ms, used_bytes, busy_percent]`."""

    cluster: str
    node: str
    device: str
    points: list[tuple[int, int, int | None]] = []


class GpuHistory(Struct):
    """The history of GPUs; a point stands for ``every_ms`` from its time."""

    items: list[GpuPoints] = []
    every_ms: int = 300_000
    kept_ms: int = 0


class DeviceView(Struct):
    """One accelerator: what it has, what runs hold, what others hold."""

    index: int
    kind: str = ""
    product: str = ""
    uuid: str = ""
    memory_bytes: int = 0
    held_bytes: int = 0
    foreign_bytes: int = 0
    runs: list[str] = []
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
    users: list[GpuUser] = []


class NodeView(Struct):
    """One machine of a cluster."""

    name: str
    cpus: float = 0
    cpus_free: float = 0
    memory_bytes: int = 0
    memory_free_bytes: int = 0
    disk_bytes: int = 0
    disk_free_bytes: int = 0
    devices: list[DeviceView] = []
    state: str = "ready"
    note: str = ""
    windows: tuple[tuple[int, int], ...] = ()


class ClusterView(Struct):
    """One place that runs work."""

    name: str
    driver: str = ""
    kind: str = ""
    state: str = ""
    nodes: list[NodeView] = []
    runs: list[str] = []
    facts_age_ms: int | None = None
    labels: dict[str, str] = {}
    claims: dict[str, str] = {}
    windows: list[tuple[int, int]] = []


class FactView(Struct):
    """One fact of a cluster: who said it, and how old that is."""

    fact: str
    value: str = ""
    source: str = ""
    age_ms: int | None = None


class ContradictionView(Struct):
    """Sources that say different things, and the one that is believed."""

    fact: str
    said: list[list[str]] = []
    used: str = ""


class ScoreView(Struct):
    """A dynamic score with its validity."""

    name: str
    value: int = 0
    source: str = ""
    age_ms: int | None = None
    valid_until_ms: int = 0
    stale: bool = False


class HeldView(Struct):
    """Data that a cluster holds."""

    data: str
    bytes: int | None = None
    source: str = ""
    age_ms: int | None = None


class TaintView(Struct):
    """A taint, and since when."""

    key: str
    value: str = ""
    effect: str = ""
    since_ms: int = 0


class LinkView(Struct):
    """A way for data."""

    source: str
    target: str
    bits_per_s: float = 0.0
    usd_per_gb: float = 0.0


class ClusterFacts(Struct):
    """All that is known of a cluster beside its nodes."""

    sets: list[str] = []
    taints: list[TaintView] = []
    facts: list[FactView] = []
    scores: list[ScoreView] = []
    held: list[HeldView] = []
    links: list[LinkView] = []
    contradictions: list[ContradictionView] = []
    placements: list[str] = []


class ClusterPage(Struct):
    """One cluster with all that is known of it."""

    cluster: ClusterView
    facts: ClusterFacts
    seq: int = 0


class Resumed(Struct):
    """The answer to taking a node back into use."""

    cluster: str
    node: str
    state: str = ""


class Clusters(Struct):
    """All clusters."""

    items: list[ClusterView] = []
    seq: int = 0
