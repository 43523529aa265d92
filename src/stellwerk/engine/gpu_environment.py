"""What a rank is told of the GPUs that it was given: which they are, and how much of them is its.

Frameworks that would take a whole card are told their part by the variables that they know. What a
task sets itself holds before all of that but which devices there are.
"""

from __future__ import annotations

from collections.abc import Collection

from stellwerk.core.model.cluster import Device, Node
from stellwerk.core.model.quantity import MIB
from stellwerk.core.model.resources import NodeAllocation

JAX_PART = 0.95
"""Of its share JAX takes this much at once; the rest is for the driver's context."""

NAMED = ("GPU-", "MIG-")


def gpu_environment(
    part: NodeAllocation, node: Node | None, own: Collection[str] = ()
) -> dict[str, str]:
    """Shows a job the devices that it was given; ``own`` are the variables that it sets itself."""
    if node is None or not node.devices:
        return {}
    by_index = {device.index: device for device in node.devices}
    given = [by_index[share.index] for share in part.devices if share.index in by_index]
    found: dict[str, str] = {}
    vendors = {device.vendor: True for device in node.devices}
    if "nvidia" in vendors:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(_cuda_names(_of(given, "nvidia")))
    if "amd" in vendors:
        cards = _of(given, "amd")
        numbers = [device.index for device in _of(node.devices, "amd")]
        found["ROCR_VISIBLE_DEVICES"] = ",".join(
            one.uuid or str(numbers.index(one.index)) for one in cards
        )
        # Of what the variable above leaves, counted from 0.
        found["HIP_VISIBLE_DEVICES"] = ",".join(str(at) for at in range(len(cards)))
    if not given:
        return found
    if "nvidia" in vendors:
        found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    indices = [device.part_of if device.part_of >= 0 else device.index for device in given]
    found["STELLWERK_GPU_INDICES"] = ",".join(map(str, indices))
    told = _shares(part, by_index)
    return {**found, **{name: value for name, value in told.items() if name not in own}}


def _of(devices: Collection[Device], vendor: str) -> list[Device]:
    return [device for device in devices if device.vendor == vendor]


def _cuda_names(devices: list[Device]) -> list[str]:
    """By the driver's own names, which stay where a card falls off the bus; else by number."""
    if all(device.uuid.startswith(NAMED) for device in devices):
        return [device.uuid for device in devices]
    return [str(device.index) for device in devices]


def _shares(part: NodeAllocation, by_index: dict[int, Device]) -> dict[str, str]:
    """How much of its devices is a job's, where it has less than all of one."""
    shares = [
        (share.memory_bytes, by_index[share.index])
        for share in part.devices
        if share.index in by_index and by_index[share.index].memory_bytes
    ]
    if not shares or all(held >= device.usable_bytes for held, device in shares):
        return {}
    fraction = min(held / device.memory_bytes for held, device in shares)
    limits = (f"{at}={max(held // MIB, 1)}M" for at, (held, _) in enumerate(shares))
    return {
        "STELLWERK_GPU_MEMORY_BYTES": str(min(held for held, _ in shares)),
        "STELLWERK_GPU_MEMORY_FRACTION": f"{fraction:.4f}",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{fraction * JAX_PART:.3f}",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits),
    }
