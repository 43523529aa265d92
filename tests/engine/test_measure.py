"""Live runs are followed: their metrics, their samples, and the rules that end them."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.commands import ResumeNode
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.task import AbortRule
from stellwerk.core.model.workload import Policies, Workload
from stellwerk.drivers.base import DriverError, LogChunk, StartOrder
from stellwerk.drivers.simulated.behaviour import Behaviour, always
from stellwerk.engine import measure
from stellwerk.engine.loop import Engine
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.engine.stage import Stage

NAN = Policies(abort_when=(AbortRule("not-finite"),), max_restarts_on_errors=3, grace_ms=1_000)
STUCK = Policies(abort_when=(AbortRule("no-progress", for_ms=60_000),), grace_ms=1_000)
LASTING = Behaviour(run_ms=3_600_000)
RUN = RunId("w-00001-1")


def line(step: int, value: object = 0.5) -> bytes:
    return b'{"step": %d, "name": "loss", "value": %s}\n' % (step, str(value).encode())


def steps(*at: tuple[int, object]) -> tuple[tuple[int, bytes], ...]:
    """A line for each (milliseconds after the start, value), with steps that count up."""
    return tuple((after, line(step, value)) for step, (after, value) in enumerate(at, 1))


def newest(stage: Stage) -> Workload:
    """The one workload, as the read models have it."""
    row = stage.store.workload("job", "default")
    assert row is not None
    return row.workload


async def metrics_come(stage: Stage, engine: Engine, count: int) -> None:
    """Lets some time pass until so many values are known."""
    for _ in range(60):
        told = await engine.telemetry(RUN, "lab")
        if told.metrics and told.metrics["loss"].n == count:
            return
        await stage.pass_ms(500)
    raise AssertionError(f"{told.metrics}")


async def reaches(stage: Stage, phase: str, runs: int = 1) -> None:
    """Lets some time pass until the workload has had so many runs and is in a phase."""
    for _ in range(60):
        row = stage.store.workload("job", "default")
        if row is not None and row.workload.phase == phase and len(row.workload.runs) == runs:
            return
        await stage.pass_ms(500)
    raise AssertionError(f"{newest(stage)}")


def test_metrics_are_followed_and_stay_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it runs, when it is over, and by a server that never saw it run."""
    metrics = steps((0, 3.0), (4_000, 1.0), (55_000, 2.0))
    stage = Stage(tmp_path, script=always(Behaviour(run_ms=60_000, metrics=metrics)))
    stage.quicken(monkeypatch)

    async def story() -> None:
        engine = await stage.revive()
        await stage.submit()
        await metrics_come(stage, engine, 2)
        assert (await engine.telemetry(RUN, "lab")).metrics["loss"].last == 1.0
        await stage.kill()
        engine = await stage.revive()
        await metrics_come(stage, engine, 2)
        await stage.until_empty()
        assert (await engine.telemetry(RUN, "lab")).metrics["loss"].n == 3
        await stage.kill()
        engine = await stage.revive()
        told = await engine.telemetry(RUN, "lab")
        assert (told.metrics["loss"].n, told.metrics["loss"].max) == (3, 3.0)
        assert engine.usage(RUN) is None
        assert (await engine.telemetry(RunId("w-9-1"), "elsewhere")).metrics == {}
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_a_run_that_is_over_at_once_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by one who asked before there was anything, and though it was never seen running."""
    done = Behaviour(run_ms=0, metrics=steps((0, 3.0), (0, 1.0)))
    stage = Stage(tmp_path, script=always(done))
    stage.quicken(monkeypatch)

    async def story() -> None:
        engine = await stage.revive()
        assert (await engine.telemetry(RUN, "lab")).metrics == {}
        monkeypatch.setattr(measure.Measures, "_notice", lambda *_: None)
        await stage.submit()
        await stage.until_empty()
        assert (await engine.telemetry(RUN, "lab")).metrics["loss"].n == 2
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_a_metric_that_is_no_number_ends_the_run_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By notice, with that reason, and although it has restarts left; others go on."""
    bad = replace(LASTING, metrics=steps((0, 3.0), (4_000, '"nan"')))
    stage = Stage(tmp_path, script=always(bad))
    stage.quicken(monkeypatch)

    async def story() -> None:
        engine = await stage.revive()
        await stage.submit(policies=NAN)
        await stage.submit(policies=Policies())
        await reaches(stage, "Running")
        await stage.pass_ms(20_000)
        ended = newest(stage)
        assert (ended.phase, len(ended.runs)) == ("Failed", 1)
        assert ended.runs[0].notice == "abort"
        assert render(ended.reasons[0]).sentence == (
            "an abort rule held: loss was no longer a number (nan) at step 2"
        )
        assert list(engine.state.workloads) == ["w-00002"]
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_a_run_that_gets_nowhere_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has been watched for so long without a new step, and not before."""
    stage = Stage(tmp_path, script=always(replace(LASTING, metrics=steps((0, 1), (50_000, 1)))))
    stage.quicken(monkeypatch)

    async def story() -> None:
        await stage.revive()
        await stage.submit(policies=STUCK)
        for _ in range(8):
            await stage.pass_ms(10_000)
        assert newest(stage).phase == "Running"
        for _ in range(6):
            await stage.pass_ms(10_000)
        ended = newest(stage)
        assert (ended.phase, ended.reasons[0].code) == ("Failed", "aborted_no_progress")
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_a_place_that_cannot_be_read_aborts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can look, nothing is known to be stuck; looking goes on."""
    stage = Stage(tmp_path, script=always(replace(LASTING, metrics=steps((0, 1)))))
    stage.quicken(monkeypatch)
    looks: list[int] = []

    def unreadable(*_: object) -> LogChunk:
        looks.append(1)
        raise DriverError("driver/unreachable", "no answer", final=False)

    async def story() -> None:
        await stage.revive()
        await stage.submit(policies=STUCK)
        await reaches(stage, "Running")
        monkeypatch.setattr(stage.place, "read_log", unreadable)
        for _ in range(30):
            await stage.pass_ms(10_000)
        assert newest(stage).phase == "Running"
        assert len(looks) > 5
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_samples_are_shown_and_their_peaks_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal gets the peaks with the end, and nothing of the samples before."""
    stage = Stage(tmp_path, script=always(Behaviour(run_ms=10_000)))
    stage.quicken(monkeypatch)

    async def story() -> None:
        engine = await stage.revive()
        await stage.submit()
        await reaches(stage, "Running")
        before = stage.store.seq()
        sample = RunSample("lab", RUN, stage.virtual.now_ms, 900, cpu_ms=70, processes=4)
        for number, memory in enumerate((900, 300)):
            later = sample.at_ms + 1_000 * number
            engine._report(replace(sample, memory_bytes=memory, at_ms=later))
        engine._report(replace(sample, run=RunId("w-9-1")))
        used = engine.usage(RUN)
        assert used is not None
        assert (used.memory_bytes, used.peak_memory_bytes, used.processes) == (300, 900, 4)
        await stage.pass_ms(1_000)
        assert stage.store.seq() == before
        await stage.until_empty()
        end = newest(stage).runs[0].end
        assert end is not None
        assert (end.peak_memory_bytes, end.peak_processes, end.cpu_ms) == (900, 4, 70)
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_of_ended_runs_only_some_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is let go is read again when somebody asks."""
    monkeypatch.setattr(measure, "PAST_KEPT", 1)
    stage = Stage(tmp_path, script=always(Behaviour(run_ms=3_000, metrics=steps((0, 1)))))
    stage.quicken(monkeypatch)

    async def story() -> None:
        engine = await stage.revive()
        for _ in range(3):
            await stage.submit()
        await stage.until_empty()
        await stage.pass_ms(1_000)
        assert len(engine._measures._past) == 1
        assert engine._measures._live == {}
        for number in (1, 2, 3):
            told = await engine.telemetry(RunId(f"w-0000{number}-1"), "lab")
            assert told.metrics["loss"].n == 1
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_of_a_file_that_is_too_large_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says last is true, whatever was left out in the middle."""
    monkeypatch.setattr(measure, "PAST_BYTES", 2_000)
    monkeypatch.setattr(measure, "LOOK_BYTES", 500)
    many = steps(*((0, 1.0) for _ in range(300)))
    stage = Stage(tmp_path, script=always(Behaviour(run_ms=1_000, metrics=many)))
    stage.quicken(monkeypatch)

    async def story() -> None:
        engine = await stage.revive()
        await stage.submit()
        await stage.until_empty()
        for _ in range(2):
            told = await engine.telemetry(RUN, "lab")
            assert told.metrics["loss"].step == 300
            assert 20 < told.metrics["loss"].n < 200
            await stage.kill()
            engine = await stage.revive()
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_out_of_memory_is_tried_again_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run holds more; its shape can be read, and all of it survives a restart."""

    def script(order: StartOrder) -> Behaviour:
        assert order.allocation is not None
        enough = order.allocation.nodes[0].memory_bytes > 8 << 30
        if enough:
            return Behaviour()
        return Behaviour(code=1, last_lines=("MemoryError",), peak_memory_bytes=8 << 30)

    stage = Stage(tmp_path, script=script)
    stage.quicken(monkeypatch)

    async def story() -> None:
        await stage.revive()
        shape = a_shape(a_request(memory_gib=8))
        await stage.submit(shape, Policies(max_restarts_on_errors=1))
        await reaches(stage, "Pending")
        await stage.kill()
        engine = await stage.revive()
        (grown,) = (queue.shape for queue in engine.state.shapes.values())
        assert grown.alternatives[0].request.memory_bytes == 12 << 30
        await stage.until_empty()
        ended = newest(stage)
        assert ended.phase == "Succeeded"
        held = [run.allocation.nodes[0].memory_bytes >> 30 for run in ended.runs]
        assert held == [8, 12]
        assert stage.store.shape(ended.shape) == grown
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))


def test_a_quarantined_node_is_told_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read model says so, a restart keeps it, and another look at the node changes nothing."""
    broken = [True]

    def script(order: StartOrder) -> Behaviour:
        return Behaviour(refused="snapshot/disk-full" if broken[0] else "")

    stage = Stage(tmp_path, script=script, cluster=a_cluster("lab", a_node("n1", cpus=8)))
    stage.quicken(monkeypatch)

    def state() -> str:
        known = stage.store.clusters()
        return known[0][0].nodes[0].state if known else "not seen yet"

    async def story() -> None:
        await stage.revive()
        for _ in range(3):
            await stage.submit()
        while state() != "quarantined":
            await stage.pass_ms(500)
        await stage.kill()
        engine = await stage.revive()
        await stage.pass_ms(30_000)
        assert state() == "quarantined"
        assert engine.state.running == {}
        seq = stage.store.seq()
        await stage.pass_ms(30_000)
        assert stage.store.seq() == seq
        broken[0] = False
        await stage.put(ResumeNode("lab", "n1"))
        await stage.until_empty()
        assert state() == "ready"
        assert newest(stage).phase == "Succeeded"
        await stage.kill()

    asyncio.run(asyncio.wait_for(story(), 50))
