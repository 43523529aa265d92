"""Puts together what is known of one run: its metrics, its samples, and how long nothing moved."""

from collections.abc import Collection

from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.telemetry import GpusHeld, Telemetry, Usage
from stellwerk.telemetry.metrics import MetricsLog
from stellwerk.telemetry.usage import UsageLog

LOOKS_NEAR_MS = 30_000
"""Two looks that are further apart than this don't tell what happened in between."""


class RunRecord:
    """The telemetry of one run; ``offset`` is how far its file of metrics was read."""

    def __init__(self, devices: Collection[int] = ()) -> None:
        self.offset = 0
        self._log = MetricsLog()
        self._usage = UsageLog(devices)
        self._moves = 0
        self._quiet_ms = 0
        self._looked_ms = 0

    def read(self, data: bytes, size: int, now_ms: int, *, is_running: bool) -> int:
        """Takes what was read of the file from ``offset`` on, of ``size`` bytes in all.

        A file that got shorter was written anew. Gives how many bytes are left to read.
        """
        if size < self.offset:
            self.offset, self._moves, self._log = 0, 0, MetricsLog()
            return size
        self._log.feed(data, now_ms)
        self.offset += len(data)
        left = max(0, size - self.offset)
        self._count_quiet(now_ms, counts=is_running and not left)
        return left

    def skip(self, count: int) -> None:
        """Leaves out so many bytes, and the line that they end in."""
        self.offset += count
        self._log.skip_line()

    def look_failed(self) -> None:
        """Nobody could look: until the next look nothing is known."""
        self._looked_ms = 0

    def take(self, sample: RunSample, *, is_running: bool) -> None:
        """Takes a sample of what the run uses."""
        self._usage.take(sample, is_running=is_running)

    def _count_quiet(self, now_ms: int, *, counts: bool) -> None:
        if self._log.moves != self._moves or not counts:
            self._quiet_ms = 0
        elif self._looked_ms:
            self._quiet_ms += max(0, min(now_ms - self._looked_ms, LOOKS_NEAR_MS))
        self._moves = self._log.moves
        self._looked_ms = now_ms

    @property
    def usage(self) -> Usage | None:
        """What the last sample said, and the peaks."""
        return self._usage.usage

    @property
    def gpus(self) -> GpusHeld | None:
        """What the last sample said of the devices of its machine; None where it has none."""
        usage, gpus = self._usage.usage, self._usage.gpus
        return GpusHeld(usage.at_ms, gpus, self._usage.gpu_idle_ms) if usage and gpus else None

    def telemetry(self) -> Telemetry:
        """All of it as a value."""
        metrics = self._log.metrics
        return Telemetry(
            metrics=metrics,
            usage=self.usage,
            quiet_ms=self._quiet_ms if metrics else self._usage.silent_ms,
            gpu_idle_ms=self._usage.gpu_idle_ms,
            idle_ms=self._usage.idling.idle_ms,
        )
