"""Looks after the guests of a run: commands that somebody runs inside of it, none of them its own.

Each has a keeper, a child of the wrapper that stays in the run's view and is the parent of all that
the command leaves behind. So a guest can be told from the job: it gets no notice, its use isn't the
job's, and once nothing of the job is left it ends as well.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

from . import processes
from .guest_session import GuestPlace, keep
from .loop import Loop
from .meter import Meter
from .system import close_descriptors, die_with_parent

_TOKEN = re.compile(r"[0-9a-f]{16}")
_LAST_WORDS_MS = 250


class Guests:
    """The guests of one run; `kill_everything` ends all that is left of it."""

    def __init__(self, loop: Loop, kill_everything: Callable[[], None]) -> None:
        self._loop = loop
        self._kill_everything = kill_everything
        self._is_closing = False
        self.keepers: dict[int, Meter] = {}
        self._typed_before = 0
        self._carried_before = 0

    def admit(self, token: str, place: GuestPlace) -> None:
        """Fork the keeper that the agent waits for under this token; it gives up after a while."""
        if self._is_closing or _TOKEN.fullmatch(token) is None:
            return
        parent, meter = os.getpid(), Meter()
        try:
            pid = os.fork()
        except OSError:
            meter.close()
            return  # no process is to be had; nothing of the run may suffer from that
        if pid:
            self.keepers[pid] = meter
            return
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            die_with_parent()
            if os.getppid() == parent:
                close_descriptors()
                keep(token, place, meter)
        finally:
            os._exit(0)

    def child_ended(self, pid: int) -> bool:
        """A child was reaped: was it a keeper?"""
        meter = self.keepers.pop(pid, None)
        if meter is None:
            return False
        self._typed_before += meter.typed_bytes
        self._carried_before += meter.carried_bytes
        meter.close()
        return True

    def carried(self) -> dict[str, int]:
        """How much all guests so far had typed and transferred, as a sample tells it."""
        meters = list(self.keepers.values())
        return {
            "guest_typed_bytes": self._typed_before + sum(m.typed_bytes for m in meters),
            "guest_carried_bytes": self._carried_before + sum(m.carried_bytes for m in meters),
        }

    def tell_notice(self, grace_ms: int) -> None:
        """Have whoever sits at a terminal inside of the run told that it has to end."""
        for pid, meter in self.keepers.items():
            meter.tell_notice(grace_ms)
            # A keeper listens to this one anyway; one that is only just starting ignores it.
            processes.send_to_pid(pid, signal.SIGCHLD)

    def end_if_alone(self) -> None:
        """Once nothing of the job is left: keepers tell their callers, and everything ends."""
        if self._is_closing or not self.keepers:
            return
        children = [p for p in processes.everything() if p.parent == os.getpid() and p.is_alive]
        if all(child.pid in self.keepers for child in children):
            self._is_closing = True
            for child in children:
                processes.send(child, signal.SIGTERM)
            self._loop.after("guests", _LAST_WORDS_MS, self._kill_everything)
