"""Decides whether a setup must run: once per key on a machine, and never twice at the same time."""

from __future__ import annotations

import fcntl
import os
from typing import Optional

from .files import read_json, write_json
from .system import now_ms

MINE, CACHED, BUSY = "mine", "cached", "busy"


class SetupGate:
    """The way to one setup; without a key every run has its own."""

    def __init__(self, directory: str, key: Optional[str]) -> None:
        self._directory = directory
        self._key = key
        self._lock: Optional[int] = None

    def enter(self) -> str:
        """`mine`: run it, then `succeeded` or `leave`; `cached`: skip it; `busy`: ask again."""
        if self._key is None:
            return MINE
        if self._lock is None:
            path = os.path.join(self._directory, f"{self._key}.lock")
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return BUSY
            self._lock = lock
        if read_json(self._mark()) is None:
            return MINE
        self.leave()
        return CACHED

    def succeeded(self, run: str) -> None:
        """Remember that the setup of this key is done on this machine."""
        if self._key is not None:
            write_json(self._mark(), {"v": 1, "run": run, "at_ms": now_ms()}, durable=True)
        self.leave()

    def leave(self) -> None:
        """Let others in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _mark(self) -> str:
        return os.path.join(self._directory, f"{self._key}.ok")
