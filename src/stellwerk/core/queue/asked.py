"""What a shape asks of quota, in the words of Kueue's objects."""

from __future__ import annotations

from stellwerk.core.model.resources import Request

COUNTED_WHERE_COVERED = ("cpu", "memory", "ephemeral-storage")
"""Every task asks for some of these without saying so: where a queue says nothing of one, it is
free."""

NVIDIA = "nvidia"
MILLI = 1000


def requests_of(request: Request) -> dict[str, int]:
    """What one replica asks for by resource, in thousandths of its unit.

    Part of a card's memory is that part of a card; where it is given in bytes, which part that is
    depends on the card, and a whole one is counted.
    """
    found = {"cpu": request.cpus_milli}
    if request.memory_bytes:
        found["memory"] = request.memory_bytes * MILLI
    if request.disk_bytes:
        found["ephemeral-storage"] = request.disk_bytes * MILLI
    gpu = request.gpu
    if gpu is not None:
        part = MILLI if gpu.share_bytes else gpu.fraction_milli
        found[f"{gpu.vendor or NVIDIA}.com/gpu"] = gpu.count * part
    return found
