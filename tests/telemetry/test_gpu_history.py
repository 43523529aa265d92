"""How full and busy GPUs were is kept in steps, outlives the server, and doesn't grow."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.telemetry import gpu_history
from stellwerk.telemetry.gpu_history import EVERY_MS, KEPT_MS, GpuHistory, Point
from stellwerk.testing.builders import a_cluster, a_node, a_run, an_allocation

RUN = a_run(allocation=an_allocation("lab", "n1", devices={0: 10}))
CLUSTER = a_cluster("lab", a_node("n1", gpus=2))
ZERO = ("lab", "n1", "0")


def sample(at_ms: int, free_gib: float, busy: int | None = 50, index: int = 0) -> RunSample:
    use = GpuUse(index, GIB, busy, round(free_gib * GIB))
    return RunSample("lab", RUN.id, at_ms, 1, 1, 1, gpus=(use,))


def history(path: Path | None = None) -> GpuHistory:
    found = GpuHistory(path)
    found.begin(RUN, CLUSTER)
    return found


def test_a_point_has_the_most_of_memory_and_the_mean_of_load() -> None:
    """Of five minutes; the newest is told before it is over, and a late sample changes nothing."""
    kept = history()
    for at_ms, free, busy in ((1_000, 30, 20), (9_000, 25, 40), (EVERY_MS, 10, None), (5, 0, 99)):
        kept.take(sample(at_ms, free, busy))
    assert dict(kept.points()) == {ZERO: [Point(0, 15 * GIB, 30), Point(EVERY_MS, 30 * GIB, None)]}
    assert dict(kept.points(EVERY_MS)) == {ZERO: [Point(EVERY_MS, 30 * GIB, None)]}


def test_runs_that_are_unknown_or_on_several_machines_tell_nothing() -> None:
    """Nor does a device that nobody knows, nor one of which nothing is known."""
    kept = history()
    kept.take(sample(0, 3, index=7))
    kept.end(RUN.id)
    kept.take(sample(0, 3))
    (part,) = RUN.allocation.nodes
    both = replace(RUN.allocation, nodes=(part, replace(part, node="n2")))
    kept.begin(replace(RUN, id=RunId("w-2-1"), allocation=both), CLUSTER)
    kept.take(replace(sample(0, 3), run=RunId("w-2-1")))
    assert dict(kept.points()) == {}


def test_it_outlives_the_server_and_is_written_anew_when_it_is_old(
    tmp_path: Path,
) -> None:
    """Half a last line is left out; what is older than three days is gone after a restart."""
    path = tmp_path / "gpus.jsonl"
    kept = history(path)
    for step in (0, 1, 2):
        kept.take(sample(step * EVERY_MS, 30))
    with path.open("ab") as file:
        file.write(b'["lab","n1","0",[9000')
    again = history(path)
    assert [one.at_ms for one in dict(again.points())[ZERO]] == [0, EVERY_MS]
    again.take(sample(KEPT_MS + EVERY_MS, 1))
    again.take(sample(KEPT_MS + 2 * EVERY_MS, 1))
    old = GpuHistory(path)
    assert dict(old.points())[ZERO][0].at_ms == EVERY_MS


def test_the_file_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long time in small steps leaves no more than about twice what is kept."""
    monkeypatch.setattr(gpu_history, "MOST_POINTS", 8)
    kept = history(tmp_path / "gpus.jsonl")
    for step in range(100):
        kept.take(sample(step * EVERY_MS, 30))
    lines = (tmp_path / "gpus.jsonl").read_bytes().count(b"\n")
    assert lines <= 3 * 8 + 1
    assert len(dict(kept.points())[ZERO]) == 9


def test_a_disk_that_is_full_costs_nothing_but_the_file(tmp_path: Path) -> None:
    """What is in memory goes on."""
    kept = history(tmp_path / "missing" / "gpus.jsonl")
    for step in range(3):
        kept.take(sample(step * EVERY_MS, 30))
    assert len(dict(kept.points())[ZERO]) == 3
