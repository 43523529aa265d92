"""What a shape asks of quota, in the words of Kueue's objects."""

from __future__ import annotations

from collections.abc import Collection

from stellwerk.core.model.devices import find_device
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import GpuRequest, Request

COUNTED_WHERE_COVERED = ("cpu", "memory", "ephemeral-storage")
"""Every task asks for some of these without saying so: where a queue says nothing of one, it is
free."""

GPU_MEMORY = "gpu-memory"
"""Memory of accelerators, in bytes: what is asked for, whichever cards it is on."""

NVIDIA = "nvidia"
MILLI = 1000


def requests_of(request: Request, covered: Collection[str] = ()) -> dict[str, int]:
    """What one replica asks for by resource, in thousandths of its unit.

    Part of a card's memory is that part of a card; where it is given in bytes, which part that is
    depends on the card, and a whole one is counted. A MIG slice is a resource of its own, named as
    Kubernetes does: `nvidia.com/mig-1g.10gb`.

    ``covered`` is what a queue has quota of. Where that is GPU memory, it is counted: for a share
    in bytes instead of a card, for whole cards beside them, or alone where no cards are covered.
    """
    found = {"cpu": request.cpus_milli}
    if request.memory_bytes:
        found["memory"] = request.memory_bytes * MILLI
    if request.disk_bytes:
        found["ephemeral-storage"] = request.disk_bytes * MILLI
    gpu = request.gpu
    if gpu is not None:
        found |= _of_gpus(gpu, covered)
    return found


def _of_gpus(gpu: GpuRequest, covered: Collection[str]) -> dict[str, int]:
    part = MILLI if gpu.share_bytes else gpu.fraction_milli
    name = _resource(gpu)
    memory = gpu.count * memory_of(gpu) if GPU_MEMORY in covered else 0
    if not memory:
        return {name: gpu.count * part}
    in_cards = {} if gpu.share_bytes or name not in covered else {name: gpu.count * part}
    return {**in_cards, GPU_MEMORY: memory * MILLI}


def _resource(gpu: GpuRequest) -> str:
    _, is_slice, profile = gpu.kind.rpartition("MIG-")
    if is_slice:
        return f"{NVIDIA}.com/mig-{profile.lower().replace('+', '.')}"
    return f"{gpu.vendor or NVIDIA}.com/gpu"


def memory_of(gpu: GpuRequest) -> int:
    """How much memory of each device is asked for; 0 where neither the amount nor the kind says."""
    if gpu.share_bytes:
        return gpu.share_bytes
    known = find_device(gpu.kind) if gpu.kind else None
    whole = known.memory_gib * GIB if known is not None else 0
    return max(whole, gpu.memory_min_bytes, gpu.memory_exact_bytes) * gpu.fraction_milli // MILLI
