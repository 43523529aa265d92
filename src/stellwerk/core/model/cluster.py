"""Anything that can run work: one machine, a room of PCs, a Slurm partition, a Kubernetes fleet."""

from typing import Literal

from msgspec import Struct

NodeState = Literal["ready", "unreachable", "quarantined", "drained"]


class Device(Struct, frozen=True, omit_defaults=True):
    """One accelerator. ``foreign_bytes`` is memory that processes outside Stellwerk hold on it."""

    index: int
    kind: str
    memory_bytes: int
    uuid: str = ""
    product: str = ""
    vendor: str = "nvidia"
    foreign_bytes: int = 0


class Node(Struct, frozen=True, omit_defaults=True):
    """One machine of a cluster with what it can give (allocatable, not what is free now)."""

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


class Cluster(Struct, frozen=True, omit_defaults=True):
    """A cluster as last observed; how old that is travels beside it, not in it."""

    name: str
    driver: str
    nodes: tuple[Node, ...]
    kind: str = "machine"
    labels: dict[str, str] = {}
    claims: dict[str, str] = {}
