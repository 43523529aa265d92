"""What travels about the fleet: clusters, nodes and devices, as structs of the JSON of API v1."""

from msgspec import Struct


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


class Resumed(Struct):
    """The answer to taking a node back into use."""

    cluster: str
    node: str
    state: str = ""


class Clusters(Struct):
    """All clusters."""

    items: list[ClusterView] = []
    seq: int = 0
