"""Carries out a notice inside the wrapper: stop file, signals in their order, the end of the grace.

Who gets a signal is decided in `stopping`; here it is done, by the processes there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Optional

from . import processes
from .files import JSONObject, RunFiles, write_atomically, write_json
from .loop import Loop
from .processes import Process
from .spec import MOST_SIGNALS
from .stopping import CANCEL, CONSOLE, PEER, PREEMPT, TIME_LIMIT, WINDOW, Seen, recipients
from .system import monotonic_ms, now_ms

_LOOK_AGAIN_MS = 100
_STRAGGLERS_MS = 1_000
_GRAVITY = (PEER, PREEMPT, CONSOLE, WINDOW, TIME_LIMIT, CANCEL)
Signals = list[tuple[int, Optional[int]]]


class Hands(NamedTuple):
    """What a notice needs of the wrapper."""

    loop: Loop
    files: RunFiles
    rank_shells: Callable[[], set[int]]
    of_the_job: Callable[[], list[Process]]
    changed: Callable[[], None]
    kill_everything: Callable[[], None]


class Notice:
    """The notices of one run: at most one is in force, the gravest reason stands."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self.why: Optional[str] = None
        self.withdrawn = False
        self._at_ms = 0
        self._grace_ms = 0
        self._deadline = 0
        self._withdrawn_at_ms: Optional[int] = None
        self._last_signal_at: Optional[int] = None
        self._sent: list[JSONObject] = []
        self._told: set[tuple[int, int]] = set()
        self._awaited: list[Process] = []

    @property
    def in_force(self) -> bool:
        """Whether the job is to stop."""
        return self.why is not None and not self.withdrawn

    @property
    def may_still_bite(self) -> bool:
        """Whether signals went out less than a grace ago, so that an end may be due to them."""
        sent = self._last_signal_at
        return sent is not None and monotonic_ms() - sent <= self._grace_ms

    def give(self, why: str, grace_ms: int, signals: Signals) -> None:
        """Give notice. One more while one is in force can only shorten the grace."""
        deadline = monotonic_ms() + grace_ms
        if self.in_force:
            self.why = max(self.why or why, why, key=_GRAVITY.index)
            self._deadline = min(self._deadline, deadline)
        else:
            self.why, self.withdrawn, self._withdrawn_at_ms = why, False, None
            self._at_ms, self._grace_ms, self._deadline = now_ms(), grace_ms, deadline
            self._sent, self._told, self._awaited = [], set(), []
            if grace_ms > 0:
                self._schedule(signals)
        self._write_stop_file()
        self._hands.loop.after("grace", self._left_ms(), self._hands.kill_everything)
        self._hands.changed()

    def withdraw(self) -> None:
        """Take the notice back: nothing more is sent, and the job may start new commands again."""
        if not self.in_force:
            return
        self.withdrawn, self._withdrawn_at_ms = True, now_ms()
        self.stop_acting()
        try:
            write_atomically(self._hands.files.withdrawn, b"")
            self._remove(self._hands.files.stop)
        except OSError as error:
            self._sent.append({"withdrawn_file": os.strerror(error.errno or 0)})
        self._hands.changed()

    def stop_acting(self) -> None:
        """Send nothing more."""
        self._hands.loop.cancel("grace", "awaited", "shells", "stragglers")
        self._hands.loop.cancel(*(f"signal {index:02}" for index in range(MOST_SIGNALS)))

    def as_json(self) -> Optional[JSONObject]:
        """For status.json and ended.json."""
        if self.why is None:
            return None
        return {
            "why": self.why,
            "at_ms": self._at_ms,
            "grace_ms": self._grace_ms,
            "withdrawn_at_ms": self._withdrawn_at_ms,
            "signals": self._sent,
        }

    def _left_ms(self) -> int:
        return max(0, self._deadline - monotonic_ms())

    def _schedule(self, signals: Signals) -> None:
        """At once, or the lead time before the end; the last signal of all is the one that counts.

        `signals` come with the longest lead first.
        """
        last = len(signals) - 1
        for index, (number, lead_ms) in enumerate(signals):
            wait_ms = 0 if lead_ms is None else self._left_ms() - lead_ms
            send = partial(self._send, number, is_last=index == last)
            self._hands.loop.after(f"signal {index:02}", wait_ms, send)

    def _write_stop_file(self) -> None:
        self._remove(self._hands.files.withdrawn)
        content: dict[str, Any] = {
            "why": self.why,
            "at_ms": self._at_ms,
            "ends_at_ms": now_ms() + self._left_ms(),
        }
        try:
            write_json(self._hands.files.stop, content)
        except OSError as error:
            # A full disk takes the file away, not the signal.
            self._sent.append({"stop_file": os.strerror(error.errno or 0)})

    @staticmethod
    def _remove(path: str) -> None:
        if os.path.lexists(path):
            os.unlink(path)

    def _send(self, number: int, *, is_last: bool) -> None:
        below = {process.pid: process for process in self._hands.of_the_job()}
        seen = self._look_at(below, number)
        chosen = recipients(seen, is_last_signal=is_last)
        self._tell([below[pid] for pid in chosen.now], number, to_all=not chosen.awaited)
        if is_last:
            self._awaited = [below[pid] for pid in chosen.awaited]
            self._await(number)
            if chosen.only_shells_awaited:
                # A shell looks at its trap only when its command has ended: the command gets the
                # signal while half of the grace is left for the trap.
                self._hands.loop.after(
                    "shells", self._left_ms() // 2, lambda: self._tell_the_rest(number)
                )
        self._hands.changed()

    def _look_at(self, below: dict[int, Process], number: int) -> list[Seen]:
        shells = self._hands.rank_shells()
        seen = []
        for pid, process in below.items():
            masks = processes.signal_masks(pid)
            if masks is not None:
                seen.append(
                    Seen(
                        pid=pid,
                        parent=process.parent,
                        argv=processes.arguments(pid),
                        reacts=masks.reacts_to(number),
                        reads_pipe=processes.reads_pipe(pid),
                        is_rank_shell=pid in shells,
                    )
                )
        return seen

    def _tell(self, them: list[Process], number: int, *, to_all: bool) -> None:
        told = [process for process in them if processes.send(process, number)]
        self._told.update((process.pid, process.started) for process in told)
        self._last_signal_at = monotonic_ms()
        if told:
            entry = {"signal": number, "at_ms": now_ms(), "processes": len(told), "all": to_all}
            self._sent.append(entry)

    def _await(self, number: int) -> None:
        """Tell the rest as soon as nothing that reacts is left."""
        there_were_some = bool(self._awaited)
        self._awaited = [p for p in self._awaited if processes.is_running(p.pid, p.started)]
        if self._awaited:
            self._hands.loop.after("awaited", _LOOK_AGAIN_MS, lambda: self._await(number))
        else:
            self._tell_the_rest(number, spare_readers=there_were_some)

    def _tell_the_rest(self, number: int, *, spare_readers: bool = False) -> None:
        """Tell all that weren't told; what reads a pipe may first read to its end.

        Whoever wrote into it has ended just now: what it said last may still be in there.
        """
        self._hands.loop.cancel("awaited", "shells")
        rest = [p for p in self._hands.of_the_job() if (p.pid, p.started) not in self._told]
        if spare_readers:
            rest = [p for p in rest if not processes.reads_pipe(p.pid)]
        if rest:
            self._tell(rest, number, to_all=True)
            self._hands.changed()
        self._hands.loop.after("stragglers", _STRAGGLERS_MS, lambda: self._tell_the_rest(number))
