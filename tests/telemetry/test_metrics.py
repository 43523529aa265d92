"""The sum of a file of metrics: the same in whatever pieces it is read, and bounded."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.telemetry.metrics import LINE_LONGEST, NAMES_MOST, MetricsLog

NOW = 1_700_000_000_000


def line(name: str = "loss", value: object = 0.5, step: object = 1, **more: object) -> bytes:
    """A line as a job writes it."""
    return json.dumps({"step": step, "name": name, "value": value, **more}).encode() + b"\n"


def fed(*pieces: bytes) -> MetricsLog:
    """What is known after these bytes."""
    log = MetricsLog()
    for piece in pieces:
        log.feed(piece, NOW)
    return log


def test_last_extremes_and_count_by_name() -> None:
    """Each name has its own; integers are numbers too."""
    log = fed(line(value=2, step=1), line(value=0.5, step=2), line("acc", 0.9, 2), line(value=1))
    loss, acc = log.metrics["loss"], log.metrics["acc"]
    assert (loss.last, loss.step, loss.n, loss.min, loss.max) == (1.0, 1, 3, 0.5, 2.0)
    assert (acc.last, acc.step, acc.n, acc.at_ms) == (0.9, 2, 1, NOW)
    assert (log.moves, log.bad_lines) == (2, 0)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b'"nan"', "nan"),
        (b"NaN", "nan"),
        (b"Infinity", "inf"),
        (b'"-inf"', "-inf"),
        (b"-Infinity", "-inf"),
        (b"1e999", "inf"),
        (b'" Inf "', "inf"),
    ],
)
def test_what_is_not_finite_is_flagged(written: bytes, shown: str) -> None:
    """However it is written; the extremes stay those of the finite values."""
    bad = b'{"step": 7, "name": "loss", "value": ' + written + b"}\n"
    metric = fed(line(value=3.0), bad, line(value=2.0, step=8)).metrics["loss"]
    assert (metric.not_finite, metric.bad_step, metric.n) == (1, 7, 3)
    assert (metric.min, metric.max, metric.last) == (2.0, 3.0, 2.0)
    assert str(fed(bad).metrics["loss"].last) == shown


@pytest.mark.parametrize(
    "bad",
    [
        b"not json\n",
        b"[1, 2]\n",
        b"\xff\xfe\n",
        b'{"name": "loss"}\n',
        b'{"name": "loss", "value": null}\n',
        b'{"name": "loss", "value": true}\n',
        b'{"name": "loss", "value": "high"}\n',
        b'{"name": "", "value": 1}\n',
        b'{"name": "' + b"x" * 300 + b'", "value": 1}\n',
        b'{"value": 1}\n',
        b'{"name": "loss", "value": 1' + b"0" * 400 + b', "step": "one"}\n',
        b"[" * 5000 + b"\n",
    ],
)
def test_a_line_that_is_none_is_counted_and_left_out(bad: bytes) -> None:
    """What comes after it is read as if it weren't there."""
    log = fed(line(value=1.0), bad, line(value=2.0, step=2))
    assert log.bad_lines == 1
    assert (log.metrics["loss"].n, log.metrics["loss"].last) == (2, 2.0)


def test_times_are_those_of_the_job_if_they_can_be() -> None:
    """A time that hasn't come yet is now."""
    assert fed(line(at_ms=NOW - 5)).metrics["loss"].at_ms == NOW - 5
    assert fed(line(at_ms=NOW + 5)).metrics["loss"].at_ms == NOW
    assert fed(line(at_ms=-1)).metrics["loss"].at_ms == NOW


def test_only_a_new_step_is_a_move() -> None:
    """Any name may bring it; a line without a step always does."""
    log = fed(line(step=5))
    for data, moves in (
        (line(step=5), 1),
        (line("acc", 1, step=5), 1),
        (line("acc", 1, step=6), 2),
        (line(step=3), 2),
        (line(step=None), 3),
        (line(step=1e300), 4),
    ):
        log.feed(data, NOW)
        assert log.moves == moves, data
    assert log.metrics["loss"].step is None


def test_names_and_lines_are_bounded() -> None:
    """A job that writes a name for each step, or a line without an end, costs no more than this."""
    log = fed(*(line(f"n{i}") for i in range(2 * NAMES_MOST)))
    assert len(log.metrics) == NAMES_MOST
    log = fed(b"x" * (LINE_LONGEST + 1), b"x" * LINE_LONGEST * 3, b"\n", line())
    assert (log.bad_lines, log.metrics["loss"].n) == (1, 1)


VALUES = st.one_of(
    st.integers(-(10**6), 10**6), st.floats(allow_nan=False), st.just(math.nan), st.just("nan")
)
LINES = st.lists(
    st.builds(
        line,
        name=st.sampled_from(["loss", "acc", "größe"]),
        value=VALUES,
        step=st.one_of(st.none(), st.integers(0, 50)),
    ),
    max_size=20,
)


@given(lines=LINES, cuts=st.lists(st.integers(0, 3000), max_size=9), noise=st.booleans())
def test_pieces_make_no_difference(lines: list[bytes], cuts: list[int], noise: bool) -> None:
    """Read at once or cut anywhere, even inside a character: the same."""
    data = (b"\nnoise\n" if noise else b"").join(lines)
    places = sorted({min(cut, len(data)) for cut in (0, *cuts, len(data))})
    pieces = [data[a:b] for a, b in pairwise(places)]
    whole, cut = fed(data), fed(*pieces)
    assert repr(cut.metrics) == repr(whole.metrics)
    assert (cut.moves, cut.bad_lines) == (whole.moves, whole.bad_lines)
    assert sum(metric.n for metric in whole.metrics.values()) == len(lines)
