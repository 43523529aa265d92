"""Reads the limits that control groups put on this process, in version 1 and version 2.

A limit may stand at any level: the least one from the process's own group up to the root counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Optional

_NO_LIMIT = 1 << 60
BASE = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


def cpu_quota() -> Optional[float]:
    """Processors' worth of time this process may use, or None without a quota."""
    quotas = []
    for folder, version in _levels("cpu"):
        if version == 2:
            limit, _, period = _read(folder, "cpu.max").partition(" ")
        else:
            limit, period = _read(folder, "cpu.cfs_quota_us"), _read(folder, "cpu.cfs_period_us")
        if limit.isdigit() and period.isdigit() and int(period):
            quotas.append(int(limit) / int(period))
    return min(quotas) if quotas else None


def memory_limit_bytes() -> Optional[int]:
    """Bytes of memory this process and its group may use, or None without a limit."""
    limits = [limit for limit, _ in _memory_levels()]
    return min(limits) if limits else None


def memory_free_bytes() -> Optional[int]:
    """Bytes left below the tightest limit, or None without a limit."""
    rooms = [max(0, limit - used) for limit, used in _memory_levels()]
    return min(rooms) if rooms else None


def _memory_levels() -> Iterator[tuple[int, int]]:
    """(limit, use without what can be given back) of each level that has a limit."""
    for folder, version in _levels("memory"):
        limit = _read(folder, "memory.max" if version == 2 else "memory.limit_in_bytes")
        if limit.isdigit() and int(limit) < _NO_LIMIT:
            used = _read(folder, "memory.current" if version == 2 else "memory.usage_in_bytes")
            cache = "inactive_file" if version == 2 else "total_inactive_file"
            reclaimable = 0
            for line in _read(folder, "memory.stat").splitlines():
                if line.startswith(f"{cache} "):
                    reclaimable = int(line.split()[1])
            yield int(limit), max(0, int(used or 0) - reclaimable)


def _levels(controller: str) -> Iterator[tuple[str, int]]:
    """Folders from the process's own group up to the root, with the version of their hierarchy."""
    try:
        with open(OWN, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for _number, controllers, path in (row for row in rows if len(row) == 3):
        if not controllers:
            unified = os.path.join(BASE, "unified")
            base, version = (unified if os.path.isdir(unified) else BASE), 2
        elif controller in controllers.split(","):
            base = os.path.join(BASE, controller)
            version = 1
            if not os.path.isdir(base):
                base = os.path.join(BASE, controllers)
        else:
            continue
        inside = path if os.path.isdir(base + path) else "/"
        while True:
            yield base + inside.rstrip("/"), version
            if inside in {"/", ""}:
                break
            inside = os.path.dirname(inside)


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
