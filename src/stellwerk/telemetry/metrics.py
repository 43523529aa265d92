"""Sums up a file of metrics as it grows: JSON lines of step, name and value, read in any pieces.

A line that isn't one is counted and left out. NaN and infinity come as a helper writes them
(``"nan"``) or as Python's own json does (``NaN``).
"""

import json
import math
from typing import Any

import msgspec
from msgspec import Struct

from stellwerk.core.model.telemetry import Metric

NAMES_MOST = 256
NAME_LONGEST = 200
LINE_LONGEST = 64 * 1024
STEP_MOST = 2**53
NOT_FINITE = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}


class _Line(Struct):
    name: str
    value: float | str | None = None
    step: float | None = None
    at_ms: float = 0


_decode = msgspec.json.Decoder(_Line).decode


class MetricsLog:
    """The sum of a file of metrics.

    ``moves`` counts how often a metric came to a step that none had come to before; a line without
    a step counts as well. ``bad_lines`` are those that no metric could be read from.
    """

    def __init__(self) -> None:
        self.moves = 0
        self.bad_lines = 0
        self._metrics: dict[str, Metric] = {}
        self._highest: int | None = None
        self._rest = b""
        self._skipping = False

    @property
    def metrics(self) -> dict[str, Metric]:
        """What is known by name, in the order in which the names came."""
        return dict(self._metrics)

    def feed(self, data: bytes, now_ms: int) -> None:
        """Takes the next bytes of the file; what isn't a whole line yet waits for its end."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
            elif line.strip():
                self._take(line, now_ms)
        if len(rest) > LINE_LONGEST:
            self.bad_lines += 0 if self._skipping else 1
            self._skipping, rest = True, b""
        self._rest = rest

    def skip_line(self) -> None:
        """Says that the next bytes begin somewhere else, in the middle of a line."""
        self._skipping, self._rest = True, b""

    def _take(self, raw: bytes, now_ms: int) -> None:
        line = _read(raw)
        value = None if line is None else _number(line.value)
        if line is None or value is None or not 0 < len(line.name) <= NAME_LONGEST:
            self.bad_lines += 1
            return
        step = _whole(line.step)
        if step is None or self._highest is None or step > self._highest:
            self.moves += 1
            self._highest = self._highest if step is None else step
        before = self._metrics.get(line.name)
        if before is None and len(self._metrics) >= NAMES_MOST:
            return
        at_ms = int(line.at_ms) if 0 < line.at_ms <= now_ms else now_ms
        self._metrics[line.name] = _with(before, value, step, at_ms)


def _with(before: Metric | None, value: float, step: int | None, at_ms: int) -> Metric:
    finite = math.isfinite(value)
    if before is None:
        before = Metric(last=value, at_ms=at_ms, n=0)
    is_first_bad = not finite and not before.not_finite
    return Metric(
        last=value,
        at_ms=at_ms,
        n=before.n + 1,
        step=step,
        min=min(value, before.min if before.min is not None else value) if finite else before.min,
        max=max(value, before.max if before.max is not None else value) if finite else before.max,
        not_finite=before.not_finite + (0 if finite else 1),
        bad_step=step if is_first_bad else before.bad_step,
    )


def _read(raw: bytes) -> _Line | None:
    try:
        return _decode(raw)
    except msgspec.MsgspecError:
        return _read_leniently(raw)


def _read_leniently(raw: bytes) -> _Line | None:
    """Reads a line with the bare NaN and Infinity that Python's json writes and JSON hasn't."""
    try:
        found: Any = json.loads(raw)
        return msgspec.convert(found, _Line)
    except (ValueError, OverflowError, RecursionError):
        return None


def _whole(step: float | None) -> int | None:
    if step is None or not abs(step) < STEP_MOST:
        return None
    return int(step)


def _number(value: float | str | None) -> float | None:
    if isinstance(value, str):
        return NOT_FINITE.get(value.strip().lower())
    return None if value is None else float(value)
