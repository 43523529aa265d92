"""One thread that waits for descriptors, timers and signals: the loop of the agent and the wrapper.

Timers are named, so that setting one again replaces it. They follow the clock that counts
suspension, and are looked at again at least every minute.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable
from typing import Any, Optional

from .system import monotonic_ms

_LONGEST_WAIT_S = 60.0
Callback = Callable[[], None]


class Loop:
    """Callbacks by descriptor, by timer name and by signal; all run in the calling thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: dict[str, tuple[int, Callback]] = {}
        self._signals: dict[int, Callback] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self.on_readable(self._wake_read, self._take_signals)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def on_readable(self, descriptor: int, callback: Callback) -> None:
        """Call back whenever `descriptor` has something to read."""
        self._selector.register(descriptor, selectors.EVENT_READ, (callback, None))

    def on_writable(self, descriptor: int, callback: Optional[Callback]) -> None:
        """Also call back when a registered descriptor takes more bytes; None ends that."""
        key = self._selector.get_key(descriptor)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if callback else 0)
        self._selector.modify(descriptor, events, (key.data[0], callback))

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor (before it is closed)."""
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError):
            return

    def after(self, name: str, delay_ms: int, callback: Callback) -> None:
        """Call back once, `delay_ms` from now; replaces the timer of that name."""
        self._timers[name] = (monotonic_ms() + max(0, delay_ms), callback)

    def cancel(self, *names: str) -> None:
        """Drop timers, whether or not they are set."""
        for name in names:
            self._timers.pop(name, None)

    def is_set(self, name: str) -> bool:
        """Whether a timer of that name is waiting."""
        return name in self._timers

    def on_signal(self, number: int, callback: Callback) -> None:
        """Call back (outside the signal handler) after a signal came."""
        self._signals[number] = callback
        signal.signal(number, _note_nothing)

    def turn(self) -> None:
        """Wait for something to happen, then run what is due."""
        for key, events in self._selector.select(self._wait_s()):
            if key.fd not in self._selector.get_map():
                continue
            readable, writable = key.data
            if events & selectors.EVENT_READ and readable is not None:
                readable()
            if events & selectors.EVENT_WRITE and writable is not None:
                writable()
        self._run_timers()

    def _wait_s(self) -> float:
        if not self._timers:
            return _LONGEST_WAIT_S
        due_ms = min(due for due, _ in self._timers.values())
        return min(_LONGEST_WAIT_S, max(0.0, (due_ms - monotonic_ms()) / 1000.0))

    def _run_timers(self) -> None:
        now = monotonic_ms()
        due = sorted((at, name) for name, (at, _) in self._timers.items() if at <= now)
        for at, name in due:
            waiting = self._timers.get(name)
            if waiting is not None and waiting[0] == at:
                del self._timers[name]
                waiting[1]()

    def _take_signals(self) -> None:
        try:
            numbers = os.read(self._wake_read, 4096)
        except BlockingIOError:
            return
        for number in dict.fromkeys(numbers):
            callback = self._signals.get(number)
            if callback is not None:
                callback()


def _note_nothing(_number: int, _frame: Any) -> None:
    """The wake-up descriptor has carried the signal already."""
