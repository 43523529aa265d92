"""Watches the bounds of a run that need no control plane: its time, its window, its logs' size."""

from __future__ import annotations

import os
from collections.abc import Callable

from .files import RunFiles
from .loop import Loop
from .spec import Spec
from .stopping import TIME_LIMIT, WINDOW
from .system import monotonic_ms

_LOG_LOOK_MS = 2_000


class Limits:
    """`give_notice(why, grace_ms)` is called when it is time, `log_is(size)` every two seconds."""

    def __init__(
        self,
        spec: Spec,
        files: RunFiles,
        loop: Loop,
        give_notice: Callable[[str, int], None],
        log_is: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._give_notice = give_notice
        self._log_is = log_is
        self._logs = [files.setup_log, *(files.rank_log(rank.rank) for rank in spec.ranks)]
        self._grace_ms = spec.grace_ms
        self._began = monotonic_ms()
        if spec.time_limit_ms is not None:
            end_ms = spec.time_limit_ms + spec.grace_ms
            self._notice_in(spec.time_limit_ms, TIME_LIMIT, end_ms)
        if spec.window_end_in_ms is not None:
            self.window_ends_in(spec.window_end_in_ms)
        loop.after("logs", _LOG_LOOK_MS, self._look_at_logs)

    def window_ends_in(self, end_in_ms: int) -> None:
        """Have everything gone so long from now; takes the place of what was said before."""
        gone_ms = monotonic_ms() - self._began
        self._notice_in(end_in_ms - self._grace_ms, WINDOW, gone_ms + end_in_ms)

    def _notice_in(self, wait_ms: int, why: str, end_ms: int) -> None:
        """Give notice later, so that everything is gone `end_ms` after the start."""

        def give() -> None:
            self._give_notice(why, max(0, end_ms - (monotonic_ms() - self._began)))

        self._loop.after(why, wait_ms, give)

    def _look_at_logs(self) -> None:
        self._log_is(self.log_bytes())
        self._loop.after("logs", _LOG_LOOK_MS, self._look_at_logs)

    def log_bytes(self) -> int:
        """Size of all logs of the run."""
        total = 0
        for path in self._logs:
            try:
                total += os.stat(path).st_size
            except OSError:
                # Not there yet, or removed by the job.
                continue
        return total
