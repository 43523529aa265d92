"""Keeps what a run uses: the last sample, the peaks, and for how long its GPUs and its output rest.

Time between two samples counts only as far as they are near each other: nobody knows what happened
while nobody looked.
"""

from collections.abc import Collection

from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.telemetry import GpuUse, Usage
from stellwerk.telemetry.idling import IDLE_PERCENT, NEAR_MS, Idling


class UsageLog:
    """What the samples of one run say; ``devices`` are the indices of those that it holds."""

    def __init__(self, devices: Collection[int]) -> None:
        self.usage: Usage | None = None
        self.gpu_idle_ms: int | None = None
        self.silent_ms: int | None = None
        self.idling = Idling(holds_devices=bool(devices))
        self.gpus: tuple[GpuUse, ...] = ()
        self._devices = devices
        self._log_bytes = -1

    def take(self, sample: RunSample, *, is_running: bool) -> None:
        """Takes a sample; an older one than the last is left out.

        Rest is counted only while ``is_running``: a setup prints little and uses no GPU.
        """
        before = self.usage
        if before is not None and sample.at_ms <= before.at_ms:
            return
        near_ms = 0 if before is None else min(sample.at_ms - before.at_ms, NEAR_MS)
        self.usage = _next(before, sample)
        self.gpus = sample.gpus
        busy = self._busy_percent(sample.gpus)
        self.idling.take(sample, busy, is_running=is_running)
        if is_running:
            self._count_rest(sample, busy, near_ms)
        else:
            self.gpu_idle_ms = self.silent_ms = None
        self._log_bytes = sample.log_bytes

    def _count_rest(self, sample: RunSample, busy: int | None, near_ms: int) -> None:
        printed = sample.log_bytes != self._log_bytes
        self.silent_ms = 0 if printed or self.silent_ms is None else self.silent_ms + near_ms
        if busy is None:
            self.gpu_idle_ms = None
        elif busy > IDLE_PERCENT or self.gpu_idle_ms is None:
            self.gpu_idle_ms = 0
        else:
            self.gpu_idle_ms += near_ms

    def _busy_percent(self, gpus: tuple[GpuUse, ...]) -> int | None:
        """How busy the busiest of the run's devices is; None if one of them doesn't tell."""
        told = {gpu.index: gpu.busy_percent for gpu in gpus}
        busy = [told.get(index) for index in self._devices]
        known = [percent for percent in busy if percent is not None]
        return max(known) if known and len(known) == len(busy) else None


def _next(before: Usage | None, sample: RunSample) -> Usage:
    held = [gpu.memory_bytes for gpu in sample.gpus if gpu.memory_bytes is not None]
    gpu_bytes = sum(held) if held else None
    used = [gpu for gpu in sample.gpus if gpu.memory_bytes]
    busy = [gpu.busy_percent for gpu in used if gpu.busy_percent is not None]
    peak_gpu = _larger(gpu_bytes, before.peak_gpu_memory_bytes if before else None)
    card = max(held, default=None)
    return Usage(
        at_ms=sample.at_ms,
        memory_bytes=sample.memory_bytes,
        cpu_ms=sample.cpu_ms,
        processes=sample.processes,
        cpus=_cpus(before, sample),
        gpu_memory_bytes=gpu_bytes,
        gpu_busy_percent=max(busy) if busy else None,
        peak_memory_bytes=max(
            sample.memory_bytes,
            sample.peak_memory_bytes,
            before.peak_memory_bytes if before else 0,
        ),
        peak_processes=max(sample.processes, before.peak_processes if before else 0),
        peak_gpu_memory_bytes=peak_gpu,
        peak_gpu_card_bytes=_larger(card, before.peak_gpu_card_bytes if before else None),
    )


def _cpus(before: Usage | None, sample: RunSample) -> float | None:
    """Processors kept busy since the last sample; what has ended in between may count less."""
    if before is None:
        return None
    used_ms = max(0, sample.cpu_ms - before.cpu_ms)
    return round(used_ms / (sample.at_ms - before.at_ms), 2)


def _larger(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return max(known) if known else None
