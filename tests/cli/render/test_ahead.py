"""How a forecast reads: what is known, how sure it is, and what isn't."""

import pytest

from stellwerk.cli.render.ahead import start_cell, start_line
from stellwerk.client.ahead import Forecast

NOW = 1_700_000_040_000
MINUTE = 60_000


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()


def told(earliest: int | None, likely: int | None, latest: int | None, **more: object) -> Forecast:
    """A forecast in minutes from now (22:14)."""

    def at(minutes: int | None) -> int | None:
        return None if minutes is None else NOW + minutes * MINUTE

    return Forecast(NOW, 1, at(earliest), at(likely), at(latest), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("forecast", "cell", "line"),
    [
        (None, "-", ""),
        (
            told(30, 40, 75, confidence="fair"),
            "~22:54",
            (
                "starts in ~40 min (22:54), not before 22:44, by 23:29 at the latest, "
                "confidence fair"
            ),
        ),
        (
            told(40, 40, 40, confidence="high", assumes=["a", "b"]),
            "~22:54",
            "starts in ~40 min (22:54), confidence high; if a, and b",
        ),
        (told(0, 0, 0, confidence="high"), "now", "starts now, confidence high"),
        (
            told(0, None, None, unknown=1),
            "not known",
            "its start isn't known: nobody knows how long the work before it will take",
        ),
        (
            told(0, None, 75, unknown=2),
            "by 23:29",
            (
                "its start isn't known: nobody knows how long 2 pieces of work before it will "
                "take, by 23:29 at the latest"
            ),
        ),
        (told(30, None, None), "after 22:44", "its start isn't known, not before 22:44"),
        (
            told(60 * 30, 60 * 30, None, confidence="low"),
            "~2023-11-16 04:14",
            "starts in ~1 d 6 h (2023-11-16 04:14), confidence low",
        ),
    ],
)
def test_each_kind_of_answer(forecast: Forecast | None, cell: str, line: str) -> None:
    """In a column and as a sentence."""
    assert start_cell(forecast, NOW) == cell
    if forecast is not None:
        assert start_line(forecast, NOW) == line
