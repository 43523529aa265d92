"""Decides what a machine can give, from the facts that its runtime found, and when that changed.

What isn't known is never guessed high: it counts as nothing, or as held by somebody else, and the
node's note says which fact is missing. Numbers that drift by themselves (free disk, memory held by
other people's processes) are part of the picture but don't make a new one until they matter.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stellwerk.core.inventory.caches import held_of
from stellwerk.core.inventory.gpu_faults import health_of
from stellwerk.core.model.cluster import Cluster, Device, Node, label_of
from stellwerk.core.model.devices import find_device, kind_of_device
from stellwerk.core.model.quantity import GIB, MIB, show_bytes
from stellwerk.core.model.resources import IMAGES, NAMESPACES

Facts = Mapping[str, Any]

UNNOTICED_BYTES = 512 * MIB
"""Device memory that a desktop or an idle driver may hold without the card counting as in use."""
DISK_DRIFT_BYTES = 256 * MIB
DISK_DRIFT_SHARE = 20
FOREIGN_DRIFT_BYTES = GIB
RESERVED_DRIFT_BYTES = 64 * MIB
_WHY_NOT = "namespaces_trouble"
CLAIMS = ("os", "kernel", "arch", "python", "user", "file_system", "gpu_driver")


def cluster_of(facts: Facts, *, name: str, driver: str, runs: Collection[str] = ()) -> Cluster:
    """The cluster that is one machine; ``runs`` are those whose processes aren't foreign."""
    node = node_of(facts, runs)
    claims = {claim.replace("_", "-"): str(facts[claim]) for claim in CLAIMS if facts.get(claim)}
    if isinstance(facts.get(NAMESPACES), bool):
        claims[NAMESPACES] = "yes" if facts[NAMESPACES] else f"no: {facts.get(_WHY_NOT) or '?'}"
    if "image_tool" in facts:
        tool = facts["image_tool"]
        none = "no: none of podman, docker and apptainer is there"
        claims[IMAGES] = f"yes: by {tool}" if tool else none
    tools = facts.get("tools") or ()
    if tools:
        claims["tools"] = " ".join(str(tool) for tool in tools)
    return Cluster(
        name=name, driver=driver, nodes=(node,), kind="machine", claims=claims, held=node.held
    )


def node_of(facts: Facts, runs: Collection[str] = ()) -> Node:
    """One machine; the disk it can give is what is free on it now."""
    notes: list[str] = []
    claims = _claims(facts.get("claims"), runs)
    devices = tuple(
        _with_claim(device, _of_gpu(claims, device.index))
        for device in _devices(facts.get("gpus") or (), runs, notes)
    )
    trouble = facts.get("gpu_trouble")
    is_expected = "nvidia-smi" in (facts.get("tools") or ()) or facts.get("gpu_driver_broken")
    if trouble and is_expected:
        notes.append(f"GPUs can't be seen: {trouble}")
    for field, what in (
        ("cpus", "the number of processors"),
        ("memory_bytes", "the size of the memory"),
        ("disk_free_bytes", "the free disk space"),
        ("boot_id", "the identity of this boot"),
    ):
        if not facts.get(field) and facts.get(field) != 0:
            notes.append(f"{what} could not be found out")
    cpus_milli = int((facts.get("cpus") or 0) * 1000)
    memory_bytes = _number(facts.get("memory_bytes"))
    if claims:
        notes.append(_claimed(claims))
    return Node(
        name=str(facts.get("hostname") or "localhost"),
        cpus_milli=cpus_milli,
        memory_bytes=memory_bytes,
        disk_bytes=_number(facts.get("disk_free_bytes")),
        devices=devices,
        boot_id=str(facts.get("boot_id") or ""),
        machine_id=str(facts.get("machine_id") or ""),
        note="; ".join(notes),
        foreign_cpus_milli=min(cpus_milli, _sum_of(claims, "cpus_milli")),
        foreign_memory_bytes=min(memory_bytes, _sum_of(claims, "memory_bytes")),
        held=held_of(facts),
    )


def _claims(said: object, runs: Collection[str]) -> list[Facts]:
    """What others say that they hold; a run of ours is no other's, whoever tells of it."""
    listed = said if isinstance(said, list | tuple) else ()
    return [one for one in listed if isinstance(one, Mapping) and one.get("run") not in runs]


def _gpus_of(claim: Facts) -> Mapping[str, Any]:
    gpus = claim.get("gpus")
    return gpus if isinstance(gpus, Mapping) else {}


def _sum_of(claims: Sequence[Facts], field: str) -> int:
    return sum(_number(one.get(field)) for one in claims)


def _of_gpu(claims: Sequence[Facts], index: int) -> int:
    return sum(_number(_gpus_of(one).get(str(index))) for one in claims)


def _claimed(claims: Sequence[Facts]) -> str:
    """Who holds how much of a machine besides us: other Stellwerks say so of their runs."""
    parts = []
    if cpus := _sum_of(claims, "cpus_milli"):
        parts.append(f"{cpus / 1000:g} CPU{'' if cpus == 1000 else 's'}")
    if memory := _sum_of(claims, "memory_bytes"):
        parts.append(show_bytes(memory))
    gpus = sorted({int(key) for one in claims for key in _gpus_of(one) if str(key).isdecimal()})
    parts += [f"{show_bytes(_of_gpu(claims, index))} of GPU {label_of(index)}" for index in gpus]
    whose = ", ".join(sorted({str(one.get("user") or "?") for one in claims}))
    return f"taken by another Stellwerk ({whose}): {', '.join(parts) or 'nothing that counts'}"


def material_change(old: Cluster | None, new: Cluster) -> bool:
    """Whether a new look at a cluster shows something that decisions may depend on."""
    if old is None or len(old.nodes) != len(new.nodes):
        return True
    nodes = tuple(map(_without_drift, old.nodes, new.nodes))
    return replace(old, nodes=nodes) != new


def _without_drift(old: Node, new: Node) -> Node:
    """The old node with those of the new one's numbers that have merely drifted."""
    if _little_disk(old.disk_bytes, new.disk_bytes):
        old = replace(old, disk_bytes=new.disk_bytes)
    if len(old.devices) == len(new.devices):
        old = replace(old, devices=tuple(map(_device_without_drift, old.devices, new.devices)))
    return old


def _device_without_drift(old: Device, new: Device) -> Device:
    if abs(old.reserved_bytes - new.reserved_bytes) <= RESERVED_DRIFT_BYTES:
        old = replace(old, reserved_bytes=new.reserved_bytes)
    little = abs(old.foreign_bytes - new.foreign_bytes) <= FOREIGN_DRIFT_BYTES
    if little and bool(old.foreign_bytes) == bool(new.foreign_bytes):
        return replace(old, foreign_bytes=new.foreign_bytes)
    return old


def _little_disk(old: int, new: int) -> bool:
    return abs(old - new) <= max(DISK_DRIFT_BYTES, max(old, new) // DISK_DRIFT_SHARE)


def _devices(gpus: Sequence[Facts], runs: Collection[str], notes: list[str]) -> tuple[Device, ...]:
    split = {gpu.get("part_of"): True for gpu in gpus if gpu.get("part_of") is not None}
    cards = {gpu.get("index"): gpu for gpu in gpus if gpu.get("part_of") is None}
    found = []
    for gpu in gpus:
        if gpu.get("mig") and gpu.get("index") in split:
            continue  # what it has is given out by its slices
        card = cards.get(gpu.get("part_of"))
        device = _device(gpu if card is None else _of_card(gpu, card), runs, notes)
        found += [] if device is None else [device]
    islands = islands_of(gpus)
    return tuple(
        replace(device, island=island) if (island := islands.get(device.index)) else device
        for device in found
    )


_OF_THE_CARD = ("lost", "gone", "rows_failed", "recovery_action", "ecc_uncorrected", "xids")


def _of_card(piece: Facts, card: Facts) -> Facts:
    """A slice is as sick as the card that it is cut from."""
    return {**piece, **{name: card[name] for name in _OF_THE_CARD if name in card}}


def islands_of(gpus: Sequence[Facts]) -> dict[int, str]:
    """Which GPUs are joined by NVLink, directly or by others, named after the first of them.

    Those that hang on a switch are all joined with each other.
    """
    linked = [gpu for gpu in gpus if isinstance(gpu.get("nvlink"), Mapping)]
    at = {str(gpu.get("pci")).lower(): number for number, gpu in enumerate(linked)}
    first = list(range(len(linked)))

    def root(number: int) -> int:
        while first[number] != number:
            number = first[number]
        return number

    on_switch = [number for number, gpu in enumerate(linked) if gpu["nvlink"].get("switch")]
    pairs = [(on_switch[0], other) for other in on_switch[1:]]
    for number, gpu in enumerate(linked):
        peers = gpu["nvlink"].get("peers") or ()
        pairs += [(number, at[str(p).lower()]) for p in peers if str(p).lower() in at]
    for one, other in pairs:
        low, high = sorted((root(one), root(other)))
        first[high] = low
    names = {number: root(number) for number in range(len(linked))}
    alone = [one for one in names.values() if list(names.values()).count(one) == 1]
    return {
        _number(linked[number].get("index")): f"nvlink-{_number(linked[one].get('index'))}"
        for number, one in names.items()
        if one not in alone
    }


def _device(gpu: Facts, runs: Collection[str], notes: list[str]) -> Device | None:
    index = _number(gpu.get("index"))
    card = gpu["part_of"] if type(gpu.get("part_of")) is int else -1
    health, fault = health_of(index if card < 0 else card, gpu)
    if fault:
        notes.append(f"GPU {label_of(index)} gets nothing new: {fault}")
    if gpu.get("trouble") and health != "gone":
        notes.append(f"GPU {label_of(index)} isn't given out: {gpu['trouble']}")
        return None
    if gpu.get("mig"):
        notes.append(f"GPU {label_of(index)} isn't given out: it is split into MIG slices")
        return None
    product = str(gpu.get("name") or "")
    total = _number(gpu.get("memory_bytes"))
    if not total and health == "gone":
        return None
    if not total:
        known = find_device(product)
        total = known.memory_gib * GIB if known is not None else 0
        notes.append(
            f"GPU {label_of(index)} doesn't tell the size of its memory; "
            + (f"{product} is sold with {total // GIB} GiB" if total else "it isn't given out")
        )
        if not total:
            return None
    return Device(
        index=index,
        kind=kind_of_device(product, total),
        memory_bytes=total,
        uuid=str(gpu.get("uuid") or ""),
        product=product,
        vendor=str(gpu.get("vendor") or "nvidia"),
        reserved_bytes=min(_number(gpu.get("memory_reserved_bytes")), total),
        unified=gpu.get("unified") is True,
        part_of=card,
        foreign_compute=any(
            each.get("computes") is True and each.get("run") not in runs
            for each in gpu.get("processes") or ()
        ),
        foreign_bytes=0 if health == "gone" else _foreign(index, gpu, total, runs, notes),
        health=health,
        fault=fault,
    )


def _foreign(index: int, gpu: Facts, total: int, runs: Collection[str], notes: list[str]) -> int:
    """Memory of a device that is in use and not by our runs."""
    used = gpu.get("memory_used_bytes")
    if used is None:
        notes.append(f"GPU {label_of(index)} doesn't tell how much of its memory is in use")
        return 0
    ours = [each for each in gpu.get("processes") or () if each.get("run") in runs]
    others = [each for each in gpu.get("processes") or () if each.get("run") not in runs]
    if any(each.get("memory_bytes") is None for each in ours):
        if not others:
            return 0
        notes.append(f"GPU {label_of(index)} doesn't tell how much of its memory is whose")
        ours = []
    foreign = _number(used) - sum(_number(each.get("memory_bytes")) for each in ours)
    return 0 if foreign < UNNOTICED_BYTES else min(foreign, total)


def _with_claim(device: Device, claimed: int) -> Device:
    """What others have claimed of a device counts before they use it; the greater of the two."""
    held = min(device.memory_bytes, max(device.foreign_bytes, claimed))
    return replace(device, foreign_bytes=held)


def _number(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
