"""Counts for how long nobody and nothing uses a run: the job, and those who are inside.

A little is always going on: an idle notebook server looks at its kernels, an open page asks whether
there is news. So processor time and transfers count as use once there is more of them than rest
explains, on average or in a burst. Whatever is typed is use.
"""

from stellwerk.core.model.reports import RunSample

NEAR_MS = 120_000
"""Between two samples that are further apart nobody knows what happened."""

IDLE_PERCENT = 1
"""A device that is busy for no more than this is idle."""

RESTING_SHARE = 0.02
"""Of one processor."""

RESTING_BYTES_PER_S = 4096
BURST_CPU_MS = 500
BURST_BYTES = 16 * 1024


class Idling:
    """For how long a run has been idle by its samples: ``idle_ms``, None while that can't be told.

    That is so until it runs, with a runtime that doesn't tell of guests, and with a device that
    doesn't tell how busy it is.
    """

    def __init__(self, *, holds_devices: bool) -> None:
        self.idle_ms: int | None = None
        self._holds_devices = holds_devices
        self._before: RunSample | None = None
        self._cpu_ms = 0.0
        self._bytes = 0.0

    def take(self, sample: RunSample, busy_percent: int | None, *, is_running: bool) -> None:
        """Takes a sample that is newer than the last, and how busy the busiest device is."""
        before, self._before = self._before, sample
        is_known = busy_percent is not None or not self._holds_devices
        if not is_running or not is_known or sample.guest_cpu_ms is None:
            self.idle_ms = None
        elif before is None or before.guest_cpu_ms is None or self.idle_ms is None:
            self._begin()
        else:
            self.idle_ms += min(sample.at_ms - before.at_ms, NEAR_MS)
            if (busy_percent or 0) > IDLE_PERCENT or self._was_used(before, sample):
                self._begin()

    def _begin(self) -> None:
        self.idle_ms, self._cpu_ms, self._bytes = 0, 0.0, 0.0

    def _was_used(self, before: RunSample, sample: RunSample) -> bool:
        """Adds what was used since, takes away what rest explains, and sees what is left."""
        passed_ms = sample.at_ms - before.at_ms
        used_ms = max(0, sample.cpu_ms - before.cpu_ms)
        used_ms += max(0, (sample.guest_cpu_ms or 0) - (before.guest_cpu_ms or 0))
        carried = max(0, sample.guest_carried_bytes - before.guest_carried_bytes)
        self._cpu_ms = max(0.0, self._cpu_ms + used_ms - passed_ms * RESTING_SHARE)
        self._bytes = max(0.0, self._bytes + carried - passed_ms * RESTING_BYTES_PER_S / 1000)
        typed = sample.guest_typed_bytes != before.guest_typed_bytes
        return typed or self._cpu_ms > BURST_CPU_MS or self._bytes > BURST_BYTES
