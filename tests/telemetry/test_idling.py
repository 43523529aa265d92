"""For how long a run is idle: what rest explains doesn't count, anything else does."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.telemetry.record import RunRecord

STEP_MS = 5_000
NOTHING: Mapping[str, int] = {}
FIRST = RunSample("lab", RunId("w-1-1"), 1_000, 100, 50, 2, guest_cpu_ms=9)


def idle_after(
    steps: int,
    each: Mapping[str, int] = NOTHING,
    *,
    devices: tuple[int, ...] = (),
    first: RunSample = FIRST,
) -> int | None:
    """What is known after so many steps, in each of which fields grew by so much."""
    record = RunRecord(devices)
    for step in range(steps + 1):
        grown = {name: getattr(first, name) + step * by for name, by in each.items()}
        at_ms = first.at_ms + step * STEP_MS
        record.take(replace(first, at_ms=at_ms, **grown), is_running=True)
    return record.telemetry().idle_ms


def test_nothing_at_all_is_idle() -> None:
    """From the first sample on."""
    assert idle_after(720) == 3_600_000


@pytest.mark.parametrize(
    "rest", [{"cpu_ms": 60}, {"guest_cpu_ms": 60}, {"guest_carried_bytes": 15_000}]
)
def test_a_server_at_rest_is_idle(rest: dict[str, int]) -> None:
    """About 1 % of a processor, and what an open page asks for now and then."""
    assert idle_after(720, rest) == 3_600_000


@pytest.mark.parametrize(
    "use",
    [
        {"cpu_ms": 150},
        {"guest_cpu_ms": 150},
        {"cpu_ms": 75, "guest_cpu_ms": 75},
        {"guest_carried_bytes": 30_000},
        {"guest_typed_bytes": 1},
    ],
)
def test_what_is_used_is_not_idle(use: dict[str, int]) -> None:
    """About 3 % of a processor in all, a download, a key."""
    idle_ms = idle_after(720, use)
    assert idle_ms is not None
    assert idle_ms <= 60_000


def test_a_device_counts_and_one_that_tells_nothing_keeps_it_alive() -> None:
    """Busy, idle, without a word."""
    for busy, known in ((50, 0), (0, 50_000), (None, None)):
        first = replace(FIRST, gpus=(GpuUse(0, 7, busy),))
        assert idle_after(10, devices=(0,), first=first) == known


def test_only_a_run_whose_guests_are_known_is_idle() -> None:
    """Not in its setup, and not under a runtime that is older."""
    record = RunRecord()
    for at_ms in (1_000, 6_000):
        record.take(replace(FIRST, at_ms=at_ms), is_running=False)
    assert record.telemetry().idle_ms is None
    assert idle_after(10, first=replace(FIRST, guest_cpu_ms=None)) is None


def test_a_burst_begins_the_count_anew() -> None:
    """And time in which nobody looked counts for little."""
    record = RunRecord()
    for at_ms, cpu_ms in ((1_000, 0), (6_000, 0), (11_000, 900), (16_000, 900), (9_016_000, 900)):
        record.take(replace(FIRST, at_ms=at_ms, cpu_ms=cpu_ms), is_running=True)
    assert record.telemetry().idle_ms == 5_000 + 120_000
