"""Looks at the GPUs while runs are measured, and says what of them a run uses.

A look is one question to the process that probes, since a driver may hang. Machines without GPUs
are asked again only seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from .files import JSONObject
from .system import monotonic_ms

Answer = Callable[[JSONObject], None]
LOOK_EVERY_MS = 4_000
LOOK_AGAIN_MS = 600_000
"""Where there was no GPU: one may have been plugged in, or its driver loaded."""

LOOK_AT_BROKEN_MS = 60_000
"""Where the driver hung or crashed: runs that share its GPUs are still there."""


class Gpus:
    """What was last seen of all GPUs; `ask` probes the machine and calls back."""

    def __init__(self, ask: Callable[[Answer], None]) -> None:
        self._ask = ask
        self._seen: list[JSONObject] = []
        self._look_again_at = 0
        self._waiting: list[Callable[[], None]] = []

    def then(self, go_on: Callable[[], None]) -> None:
        """Go on as soon as the last look is a recent one."""
        if monotonic_ms() < self._look_again_at:
            go_on()
            return
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._ask(self._take)

    def _take(self, answer: JSONObject) -> None:
        facts = answer.get("facts") or {}
        self._seen = list(facts.get("gpus") or ())
        pause_ms = LOOK_EVERY_MS if self._seen or "error" in answer else LOOK_AGAIN_MS
        if facts.get("gpu_driver_broken"):
            pause_ms = LOOK_AT_BROKEN_MS
        self._look_again_at = monotonic_ms() + pause_ms
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def used_by(self, run: str) -> list[JSONObject]:
        """Each GPU of the machine: memory that the run holds on it, how busy all of it is, and what
        is free of it.
        """
        return [
            {
                "index": gpu["index"],
                "memory_bytes": _held(gpu.get("processes") or (), run),
                "busy_percent": gpu.get("utilisation_percent"),
                "free_bytes": gpu.get("memory_free_bytes"),
            }
            for gpu in self._seen
            if not gpu.get("trouble")
        ]


def _held(processes: Any, run: str) -> Optional[int]:
    """Memory of a run's processes on a device; None if the driver doesn't tell it of one."""
    held = [process.get("memory_bytes") for process in processes if process.get("run") == run]
    return None if None in held else sum(held)
