"""Work that waits for other work, and arrays with a limit, through kills of the engine."""

import asyncio
from pathlib import Path

import pytest

from stellwerk.core.model.gates import After, ArrayPart
from stellwerk.core.model.ids import WorkloadId
from stellwerk.drivers.simulated.behaviour import Behaviour, always
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.faults import faults_by_seed
from stellwerk.store import WorkloadFilter
from tests.engine.stage import Stage

ARRAY = WorkloadId("a-00001")


def after(when: str, id: str) -> After:
    return After(when, WorkloadId(id), id)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_order_holds_through_kills_and_faults(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is acknowledged ends as its conditions say, also after what was over before."""

    async def story() -> None:
        faults = faults_by_seed(seed, ("n1",), VirtualClock().now_ms, 60_000)
        stage = Stage(tmp_path, script=always(Behaviour(run_ms=3_000)), faults=faults)
        stage.quicken(monkeypatch)
        await stage.revive()
        for index in range(5):
            part = ArrayPart(ARRAY, "job", index, 5, highest=4, limit=2)
            await stage.submit(array=part)
        await stage.submit(after=(after("any", ARRAY),))
        await stage.submit(after=(after("any", "w-00006"), after("ok", "w-00006")))
        await stage.submit(after=(after("fail", "w-00007"), after("fail", "w-00008")))
        for round_ in range(3):
            await stage.pass_ms(500 + 400 * (seed + round_))
            await stage.kill()
            await stage.revive()
        await stage.until_empty()
        late = await stage.submit(after=(after("any", ARRAY), after("any", "w-00008")))
        await stage.until_empty()
        rows = stage.store.workloads(WorkloadFilter(live=False))
        found = {row.workload.id: row.workload for row in rows}
        assert len(found) == 9
        assert all(one.phase in {"Succeeded", "Failed", "Cancelled"} for one in found.values())
        ends = [found[WorkloadId(f"w-0000{n}")].ended_ms for n in range(1, 6)]
        first = found[WorkloadId("w-00006")]
        assert first.runs[0].planned_ms >= max(ends)
        assert any(row.workload.name == late for row in rows)
        assert stage.place.truth.violations == []

    asyncio.run(asyncio.wait_for(story(), 50))
