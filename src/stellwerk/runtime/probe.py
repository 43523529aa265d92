"""Finds out what a machine has, for a program that decides what may run there.

Nothing here needs rights or a tool; what can't be found out is null and never a guess.
"""

from __future__ import annotations

import os
import platform
import shutil
from typing import Optional

from . import amd, cgroups, claims, images, namespaces, nvml, system
from .files import JSONObject
from .hub_cache import HubCache, cache_folder, environment_of
from .xids import Xids

_TOOLS = (
    "apptainer",
    "conda",
    "docker",
    "git",
    "nvidia-smi",
    "podman",
    "rclone",
    "rsync",
    "singularity",
    "srun",
    "uv",
)


def probe(
    root: str, xids: Optional[Xids] = None, no_gpus: str = "", hub: Optional[HubCache] = None
) -> JSONObject:
    """All facts of this machine, as they are now. Sizes in bytes.

    ``xids`` remembers what was seen of GPUs; ``no_gpus`` says why they aren't looked at. ``hub``
    remembers what was seen of the user's cache of models and data sets.
    """
    seen = nvml.unseen(no_gpus) if no_gpus else nvml.devices(xids)
    if xids is not None:
        seen = xids.told(seen)
    seen = _with_amd(seen)
    disk = shutil.disk_usage(root)
    memory = system.memory_sizes()
    no_namespaces = namespaces.trouble()
    return {
        "v": 1,
        "at_ms": system.now_ms(),
        "boot_id": system.boot_id(),
        "machine_id": system.machine_id(),
        "hostname": platform.node(),
        "os": _os_name(),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "cpus": _cpus(),
        "cpus_online": os.cpu_count(),
        "memory_bytes": _least(memory.get("MemTotal"), cgroups.memory_limit_bytes()),
        "memory_available_bytes": _least(memory.get("MemAvailable"), cgroups.memory_free_bytes()),
        "disk_bytes": disk.total,
        "disk_free_bytes": disk.free,
        "file_system": system.file_system_type(root),
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "user": system.user_name(os.getuid()),
        "tools": [name for name in _TOOLS if shutil.which(name) is not None],
        "image_tool": images.find_tool(),
        "namespaces": no_namespaces is None,
        "namespaces_trouble": no_namespaces,
        "claims": claims.of_others(root),
        "hub": None if hub is None else hub.look(cache_folder(environment_of(root))),
        **seen,
    }


def _with_amd(seen: JSONObject) -> JSONObject:
    """AMD's cards, after NVIDIA's where a machine has both."""
    others = amd.devices()
    if not others:
        return seen
    after = 1 + max((gpu["index"] for gpu in seen["gpus"] if "part_of" not in gpu), default=-1)
    for gpu in others:
        gpu["index"] += after
    return {**seen, "gpus": [*seen["gpus"], *others]}


def _cpus() -> float:
    """Processors this user may use: the affinity mask and the quota of its cgroups."""
    mask = float(len(os.sched_getaffinity(0)))
    quota = cgroups.cpu_quota()
    return mask if quota is None else min(mask, round(quota, 2))


def _least(*values: Optional[int]) -> Optional[int]:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _os_name() -> str:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.startswith("PRETTY_NAME="):
                        return line.partition("=")[2].strip().strip('"')
        except OSError:
            continue
    return platform.system()
