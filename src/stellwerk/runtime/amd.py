"""Reads AMD GPUs from what their kernel driver shows in /sys: no library and no rights are needed.

Cards are numbered as ROCm numbers them, in the order of the compute driver's topology. Cards
without that (no compute driver is loaded) aren't told, since nothing could compute on them.
"""

from __future__ import annotations

import os
from typing import Optional

from .files import JSONObject
from .processes import run_of

SYS = "/sys"
_MOST_PROCESSES = 4096


def devices(sys: str = "") -> list[JSONObject]:
    """All AMD GPUs as they are now, as `nvml.devices` tells of NVIDIA's. Memory in bytes."""
    root = sys or os.environ.get("STELLWERK_SYS") or SYS
    topology = os.path.join(root, "class/kfd/kfd/topology/nodes")
    try:
        nodes = sorted(os.listdir(topology), key=int)
    except (OSError, ValueError):
        return []
    found: list[JSONObject] = []
    for node in nodes:
        gpu_id = _number(os.path.join(topology, node, "gpu_id"))
        told = _properties(os.path.join(topology, node, "properties"))
        if not gpu_id or "drm_render_minor" not in told:
            continue  # a processor
        place = os.path.join(root, f"class/drm/renderD{told['drm_render_minor']}/device")
        found.append(_device(len(found), place, gpu_id, told, root))
    return found


def _device(index: int, place: str, gpu_id: int, told: dict[str, int], root: str) -> JSONObject:
    total = _number(os.path.join(place, "mem_info_vram_total"))
    used = _number(os.path.join(place, "mem_info_vram_used"))
    unique = told.get("unique_id", 0)
    name = _text(os.path.join(place, "product_name"))
    return {
        "index": index,
        "vendor": "amd",
        "uuid": f"GPU-{unique:016x}" if unique else None,
        "name": name or "AMD GPU",
        "memory_bytes": total,
        "memory_used_bytes": used,
        "memory_free_bytes": total - used if total is not None and used is not None else None,
        "memory_reserved_bytes": None,
        "utilisation_percent": _number(os.path.join(place, "gpu_busy_percent")),
        "mig": False,
        "processes": _processes(gpu_id, root),
        "trouble": None,
    }


def _processes(gpu_id: int, root: str) -> list[JSONObject]:
    """Who computes on a card, with the memory that each holds of it."""
    place = os.path.join(root, "class/kfd/kfd/proc")
    try:
        pids = sorted(int(name) for name in os.listdir(place) if name.isdigit())
    except OSError:
        return []
    held = [
        (pid, _number(os.path.join(place, str(pid), f"vram_{gpu_id}")))
        for pid in pids[:_MOST_PROCESSES]
    ]
    return [
        {"pid": pid, "memory_bytes": used, "computes": used > 0, "run": run_of(pid)}
        for pid, used in held
        if used
    ]


def _properties(path: str) -> dict[str, int]:
    found = {}
    for line in _text(path).splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[name] = int(value)
    return found


def _number(path: str) -> Optional[int]:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return ""
