"""Decides which GPUs are sick, by what their driver tells, and keeps work away from them.

The driver's own advice (what recovery it asks for) decides where there is one; else its counter of
uncorrectable errors, and errors by number that no program causes. What it doesn't tell is unknown:
neither sick nor well. Sources: NVIDIA's catalogue of XID errors and its management library.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, DeviceHealth, Node
from stellwerk.core.model.resources import NodeAllocation

XIDS = {
    48: "an uncorrectable error of its memory",
    62: "its controller halted",
    64: "broken memory could not be replaced",
    74: "an error of NVLink",
    79: "it fell off the bus",
    95: "an uncontained error of its memory",
    119: "its system processor doesn't answer",
    120: "its system processor failed",
    140: "an uncorrectable error of its memory",
}
"""Numbers of errors after which a card must be reset, or its machine restarted."""

NOTHING, RESET, RESTART, DRAIN_PEERS, DRAIN_AND_RESET = range(5)
ADVICE = {
    RESET: "its driver asks for a reset",
    RESTART: "its driver asks for a restart of the machine",
    DRAIN_PEERS: "its driver asks to let work on it and its neighbours end",
    DRAIN_AND_RESET: "its driver asks to let its work end, then for a reset",
}
RESTART_IT = "restart the machine"


def health_of(index: int, gpu: Mapping[str, Any]) -> tuple[DeviceHealth, str]:
    """A card's health, and for one that is sick or gone why, with what helps."""
    if gpu.get("lost"):
        return "gone", f"it is lost from the bus (NVML error 15): {RESTART_IT}"
    if gpu.get("gone"):
        return "gone", f"it was there and its driver tells of it no more: {RESTART_IT}"
    if gpu.get("rows_failed"):
        return "sick", "a broken row of its memory could not be replaced: have the card replaced"
    reset = f"`nvidia-smi --gpu-reset -i {index}`, or {RESTART_IT}"
    advice = gpu.get("recovery_action")
    if isinstance(advice, int):
        if advice == NOTHING:
            return "ok", ""
        said = ADVICE.get(advice, f"its driver asks for recovery {advice}")
        return "sick", f"{said}: {RESTART_IT if advice == RESTART else reset}"
    errors = gpu.get("ecc_uncorrected")
    if errors:
        plural = "" if errors == 1 else "s"
        return "sick", f"{errors} uncorrectable memory error{plural} (ECC): {reset}"
    fatal = [number for number in gpu.get("xids") or () if number in XIDS]
    if fatal:
        said = ", ".join(f"XID {number}, {XIDS[number]}" for number in fatal)
        return "sick", f"{said}: {reset}, then `stw resume`"
    return ("ok" if errors == 0 else ""), ""


def sick_devices(node: Node) -> tuple[Device, ...]:
    """Those of a node that get nothing new."""
    return tuple(device for device in node.devices if device.fault)


def forgivable(cluster: Cluster | None, node: str) -> tuple[str, ...]:
    """What of a node's faults may be left out of account when a person says that it works."""
    return tuple(
        _key(one.name, device)
        for one in (cluster.nodes if cluster is not None else ())
        for device in one.devices
        if one.name == node and device.health == "sick"
    )


def still_told(cluster: Cluster, forgiven: Collection[str]) -> tuple[str, ...]:
    """Those forgiven faults that are there: one that went and comes again counts anew."""
    told = [key for node in cluster.nodes for key in forgivable(cluster, node.name)]
    return tuple(key for key in told if key in forgiven)


def withheld(cluster: Cluster, forgiven: Collection[str] = ()) -> Cluster:
    """The cluster with all memory of its sick cards out of use, but for what was forgiven."""
    if not any(device.fault for node in cluster.nodes for device in node.devices):
        return cluster
    nodes = tuple(
        replace(node, devices=tuple(_withheld(node.name, one, forgiven) for one in node.devices))
        if sick_devices(node)
        else node
        for node in cluster.nodes
    )
    return replace(cluster, nodes=nodes)


def _withheld(node: str, device: Device, forgiven: Collection[str]) -> Device:
    if not device.fault:
        return device
    if _key(node, device) in forgiven:
        return replace(device, fault="")
    return replace(device, foreign_bytes=device.memory_bytes)


def _key(node: str, device: Device) -> str:
    return f"{node} {device.uuid or device.index} {device.fault}"


def fault_under(cluster: Cluster | None, parts: Collection[NodeAllocation]) -> tuple[str, str]:
    """The node and the fault of a sick card that was given to a run; empty where none is."""
    for part in parts:
        for node in cluster.nodes if cluster is not None else ():
            given = [share.index for share in part.devices] if node.name == part.node else []
            for device in node.devices:
                if device.index in given and device.fault:
                    return node.name, f"GPU {device.index}: {device.fault}"
    return "", ""
