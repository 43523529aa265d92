"""A fault of ours, in one order or one driver, ends neither the engine nor anybody else's work."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.workload import Run, Workload
from stellwerk.drivers.base import StartOrder, StopOrder
from stellwerk.drivers.simulated.behaviour import Behaviour, always
from stellwerk.drivers.simulated.driver import SimulatedDriver
from stellwerk.engine import apply
from stellwerk.engine.orders import start_order
from stellwerk.store import Store, WorkloadFilter
from stellwerk.store.errors import refusal
from tests.engine.stage import Stage


def play(story: Coroutine[object, object, None]) -> None:
    """Runs a story to its end, in bounded real time."""
    asyncio.run(asyncio.wait_for(story, 50))


def phases(stage: Stage) -> dict[str, str]:
    """The phase of every workload, as the read models have it."""
    rows = stage.store.workloads(WorkloadFilter(live=False))
    return {row.workload.id: row.workload.phase for row in rows}


def test_an_order_that_breaks_the_driver_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice each start and stop raises what no driver should; all is carried out in the end."""
    tries: list[str] = []

    async def story() -> None:
        stage = Stage(tmp_path, script=always(Behaviour(run_ms=10_000_000)))
        stage.quicken(monkeypatch)
        await stage.revive()
        await stage.submit()
        await stage.submit()
        for _ in range(100):
            await stage.pass_ms(2_000)
            if set(phases(stage).values()) == {"Running"}:
                break
        assert set(phases(stage).values()) == {"Running"}
        await stage.cancel("w-00001")
        await stage.cancel("w-00002")
        await stage.until_empty()
        assert set(phases(stage).values()) == {"Cancelled"}
        assert stage.place.truth.violations == []

    start, stop = SimulatedDriver.start, SimulatedDriver.stop

    async def fragile_start(self: SimulatedDriver, order: StartOrder) -> None:
        tries.append(f"start {order.run}")
        if tries.count(tries[-1]) <= 2:
            raise RecursionError("maximum recursion depth exceeded")
        await start(self, order)

    async def fragile_stop(self: SimulatedDriver, order: StopOrder) -> None:
        tries.append(f"stop {order.run}")
        if tries.count(tries[-1]) <= 2:
            raise KeyError("pid")
        await stop(self, order)

    monkeypatch.setattr(SimulatedDriver, "start", fragile_start)
    monkeypatch.setattr(SimulatedDriver, "stop", fragile_stop)
    play(story())
    assert len(tries) == 12


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ValueError("what is stored is odd"), "engine/fault: its order can't be put together: Val"),
        (refusal("store/no-blob", "there is no blob 12"), "store/no-blob: there is no blob 12"),
    ],
)
def test_an_order_that_can_not_be_made_is_refused_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, told: str
) -> None:
    """It was never started, so it fails in words; the workload beside it succeeds."""

    async def story() -> None:
        stage = Stage(tmp_path)
        stage.quicken(monkeypatch)
        await stage.revive()
        await stage.submit()
        await stage.submit()
        await stage.until_empty()
        assert phases(stage) == {"w-00001": "Failed", "w-00002": "Succeeded"}
        row = stage.store.workload("job", "default")
        assert row is not None
        ends = [run.end for run in row.workload.runs if run.end]
        assert [end.how for end in ends] == ["start_refused"] * 3
        assert all(end.message.startswith(told) for end in ends)

    def fragile(
        workload: Workload, run: Run, cluster: Cluster, epoch: int, store: Store
    ) -> StartOrder:
        if workload.id == "w-00001":
            raise fault
        return start_order(workload, run, cluster, epoch, store)

    monkeypatch.setattr(apply, "start_order", fragile)
    play(story())


def test_a_driver_that_breaks_makes_its_cluster_unreachable_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connecting raises what no driver should, three times; then the work is done as ever."""
    tries: list[int] = []
    look = SimulatedDriver.probe

    async def fragile(self: SimulatedDriver) -> Cluster:
        tries.append(1)
        if len(tries) <= 3:
            raise OSError(24, "Too many open files")
        return await look(self)

    async def story() -> None:
        stage = Stage(tmp_path)
        stage.quicken(monkeypatch)
        await stage.revive()
        await stage.submit()
        await stage.until_empty()
        assert phases(stage) == {"w-00001": "Succeeded"}

    monkeypatch.setattr(SimulatedDriver, "probe", fragile)
    play(story())
    assert len(tries) >= 4
