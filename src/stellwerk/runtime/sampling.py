"""Measures what a job uses: memory, processor time, number of processes, size of its logs.

A measurement reads one small file per process of the machine. Its own cost decides when the next
one comes, so that watching never takes more than about a hundredth of a processor.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .processes import Process, descendants, everything, proportional_bytes

SHORTEST_INTERVAL_MS = 2_000
LONGEST_INTERVAL_MS = 60_000
_EARLY_MS = (150, 400, 1_000)
_SHARE_OF_A_PROCESSOR = 0.01
_MEASURED_EXACTLY = 32
_WORTH_MEASURING_BYTES = 64 * 1024 * 1024


class Sample(NamedTuple):
    """One measurement. Memory counts what processes share once where that could be measured."""

    memory_bytes: int
    cpu_ms: int
    processes: int
    peak_memory_bytes: int
    """The most since the first measurement."""
    guest_cpu_ms: int
    """Processor time of all guests so far, which isn't the job's."""


class Sampler:
    """Measures the descendants of this process and keeps the peak."""

    def __init__(self) -> None:
        self.peak_memory_bytes = 0
        self._taken = 0
        self._had_guests = False
        self._gone_guests_cpu_ms = 0
        self._cost_ms = 0.0
        self._cpu_before_ms = _reaped_cpu_ms()
        self._own_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def take(self, guests: Collection[int] = ()) -> Sample:
        """Measure now, guests and what is below them apart."""
        began = time.thread_time()
        table = everything()
        below = descendants(os.getpid(), table, guests)
        guest_cpu = self._gone_guests_cpu_ms + (_cpu_below(guests, table) if guests else 0)
        memory = sum(process.rss_bytes for process in below)
        if len(below) > 1 and memory > _WORTH_MEASURING_BYTES:
            memory = _without_doubles([(p.rss_bytes, p.pid) for p in below])
        cpu = sum(process.cpu_ms + process.reaped_cpu_ms for process in below)
        self._cost_ms = (time.thread_time() - began) * 1000.0
        self._taken += 1
        self.peak_memory_bytes = max(self.peak_memory_bytes, memory)
        cpu += self.cpu_ms()
        return Sample(memory, cpu, len(below), self.peak_memory_bytes, guest_cpu)

    def next_in_ms(self) -> int:
        """When the next measurement is due."""
        if self._taken < len(_EARLY_MS):
            return _EARLY_MS[self._taken]
        bearable = int(self._cost_ms / _SHARE_OF_A_PROCESSOR)
        return min(LONGEST_INTERVAL_MS, max(SHORTEST_INTERVAL_MS, bearable))

    def leave_out(self, usage: resource.struct_rusage) -> None:
        """Somebody was reaped who isn't of the job."""
        used_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
        self._cpu_before_ms += used_ms
        self._gone_guests_cpu_ms += used_ms
        self._had_guests = True

    def cpu_ms(self) -> int:
        """Processor time of everything of the job that has been reaped."""
        return max(0, _reaped_cpu_ms() - self._cpu_before_ms)

    def final_peak_bytes(self) -> int:
        """The peak, also of a job too short to be measured; 0 where nothing can be said of it.

        The kernel's figure for a reaped child starts at what this process had when it forked; only
        what is well above that says something about the job. It can't be told whose it is once a
        guest was reaped.
        """
        if self._had_guests and self.peak_memory_bytes:
            return self.peak_memory_bytes
        of_one_child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        if of_one_child > self._own_peak_bytes * 5 // 4:
            return max(self.peak_memory_bytes, of_one_child)
        return self.peak_memory_bytes


def _cpu_below(guests: Collection[int], table: Sequence[Process]) -> int:
    """Processor time of guests and of all that is below them, those that were reaped included."""
    found = [process for process in table if process.pid in guests]
    found += [below for guest in guests for below in descendants(guest, table)]
    return sum(process.cpu_ms + process.reaped_cpu_ms for process in found)


def _without_doubles(sizes: Sequence[tuple[int, int]]) -> int:
    """Sum of (resident bytes, pid), the largest ones with shared memory divided among sharers."""
    largest_first = sorted(sizes, reverse=True)
    total = sum(rss for rss, _ in largest_first[_MEASURED_EXACTLY:])
    for rss, pid in largest_first[:_MEASURED_EXACTLY]:
        exact = proportional_bytes(pid)
        total += rss if exact is None else exact
    return total


def _reaped_cpu_ms() -> int:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((usage.ru_utime + usage.ru_stime) * 1000)


def oom_kills() -> int:
    """How often the kernel has killed something on this machine for want of memory, so far."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        return 0
    return 0
