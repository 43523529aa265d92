"""The loop from the inbox to the driver and back, with kills and faults in between."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path

import pytest

from stellwerk.core.model.workload import Policies
from stellwerk.drivers.simulated.behaviour import Behaviour, always
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.faults import Faults, faults_by_seed
from stellwerk.engine.taking_over import load_state
from stellwerk.store import Batch, WorkloadFilter
from stellwerk.testing.builders import a_request, a_shape
from tests.engine.stage import Stage


def play(story: Coroutine[object, object, None]) -> None:
    """Runs a story to its end, in bounded real time."""
    asyncio.run(asyncio.wait_for(story, 50))


def _faults(seed: int) -> Faults:
    return faults_by_seed(seed, ("n1",), VirtualClock().now_ms, 60_000)


def phases(stage: Stage) -> dict[str, str]:
    """The phase of every workload, as the read models have it."""
    rows = stage.store.workloads(WorkloadFilter(live=False))
    return {row.workload.id: row.workload.phase for row in rows}


def test_a_job_runs_and_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From submit to Succeeded, with its decision stored."""

    async def story() -> None:
        stage = Stage(tmp_path)
        stage.quicken(monkeypatch)
        await stage.revive()
        assert await stage.submit() == "job"
        assert await stage.submit() == "job-2"
        await stage.until_empty()
        assert phases(stage) == {"w-00001": "Succeeded", "w-00002": "Succeeded"}
        row = stage.store.workload("job", "default")
        assert row is not None
        found = stage.store.decision(row.workload.runs[0].decision)
        assert found is not None
        assert found[0].candidates[found[0].chosen].cluster == "lab"

    play(story())


def test_cancel_ends_a_waiting_and_a_running_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running one by notice, the waiting one at once; both are Cancelled."""

    async def story() -> None:
        stage = Stage(tmp_path, script=always(Behaviour(run_ms=10_000_000)))
        stage.quicken(monkeypatch)
        await stage.revive()
        big = a_shape(a_request(cpus=4))
        await stage.submit(big)
        await stage.submit(big)
        await stage.pass_ms(2_000)
        assert phases(stage) == {"w-00001": "Running", "w-00002": "Pending"}
        await stage.cancel("w-00002")
        await stage.cancel("w-00001")
        await stage.until_empty()
        assert phases(stage) == {"w-00001": "Cancelled", "w-00002": "Cancelled"}

    play(story())


def test_a_failing_job_is_tried_again_as_often_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two restarts on errors make three runs, then it has failed."""

    async def story() -> None:
        stage = Stage(tmp_path, script=always(Behaviour(code=7)))
        stage.quicken(monkeypatch)
        await stage.revive()
        await stage.submit(policies=Policies(max_restarts_on_errors=2))
        await stage.until_empty()
        row = stage.store.workload("job", "default")
        assert row is not None
        assert row.workload.phase == "Failed"
        assert [run.end.code for run in row.workload.runs if run.end] == [7, 7, 7]

    play(story())


def test_what_is_not_yet_durable_is_not_told(tmp_path: Path) -> None:
    """While a write waits for the disk, `seq`, `status` and `changed` say what is on it."""

    async def story() -> None:
        stage = Stage(tmp_path)
        engine = await stage.revive()
        await stage.pass_ms(2_000)
        before = engine.seq
        assert before == stage.store.seq() == engine.status().seq
        written, held = stage.store.append, asyncio.get_running_loop().create_future()

        def wait_for_disk(batch: Batch) -> Future[None]:
            late: Future[None] = Future()
            written(batch).add_done_callback(
                lambda _: held.add_done_callback(lambda _: late.set_result(None))
            )
            return late

        stage.store.append = wait_for_disk  # type: ignore[method-assign]
        await stage.submit()
        await stage.pass_ms(100)
        assert engine.state.seq > before
        assert engine.seq == engine.status().seq == before
        assert await engine.changed(before, 0.05) == before
        asyncio.get_running_loop().call_later(0.02, held.set_result, None)
        assert before < await engine.changed(before, 20) == engine.seq

    play(story())


@pytest.mark.parametrize("seed", range(8))
def test_kills_and_faults_lose_and_double_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is killed again and again on a place with faults; all work ends, once each."""

    async def story() -> None:
        stage = Stage(tmp_path, script=always(Behaviour(run_ms=7_000)), faults=_faults(seed))
        stage.quicken(monkeypatch)
        await stage.revive()
        for round_ in range(6):
            for _ in range(3):
                await stage.submit(policies=Policies(grace_ms=1_000))
            await stage.pass_ms(1_000 + 500 * (seed + round_))
            await stage.kill()
            await stage.revive()
        await stage.until_empty()
        assert set(phases(stage).values()) <= {"Succeeded", "Failed"}
        assert len(phases(stage)) == 18
        assert stage.place.truth.violations == []
        again, _ = load_state(stage.store)
        assert again.workloads == {}
        assert again.seq == stage.store.seq()

    play(story())
