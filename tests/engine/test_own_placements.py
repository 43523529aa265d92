"""Own placements in a running engine: decided, durable, told once, decided again, and gone."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from stellwerk.core.inventory.live import FleetFacts
from stellwerk.core.inventory.merge import Source
from stellwerk.core.lower import lower
from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster, Costs
from stellwerk.core.model.commands import ApplyFleet, Cancel, DeletePlacement, Submit
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.wishes import Limits
from tests.core.place.small_fleets import node, task
from tests.engine.test_placements import BOUND, Desk, play

TEXT = (
    "run: x\nresources: {labels: {stellwerk/objective: cost, stellwerk/expected-runtime: 1h%s}}\n"
)
WISHING = lower(task(TEXT % "")).shape
NAMING = lower(task(TEXT % ", stellwerk/placement: lab/p")).shape


def priced(**usd_per_hour: float) -> tuple[Cluster, ...]:
    """Clusters of one node at these prices."""
    return tuple(
        Cluster(name, "slurm", (node("n"),), costs=Costs(usd)) for name, usd in usd_per_hour.items()
    )


async def apply(desk: Desk, clusters: tuple[Cluster, ...], *policies: Placement) -> None:
    """Applies a file, with nodes and prices."""
    source = Source("lab.yaml", "declared", replace(BOUND, clusters=clusters), 5)
    facts = desk.store.blobs.put(msgspec.json.encode(FleetFacts((source,))))
    await desk.put(ApplyFleet("lab.yaml", BlobHash(facts), BlobHash(facts), 1, policies))


async def submit(desk: Desk, id: str, shape: Shape) -> None:
    """Submits a workload."""
    await desk.put(Submit(WorkloadId(id), id, "default", shape, BlobHash("0" * 64)))


def own(desk: Desk) -> OwnDecided:
    """The one own placement that is decided."""
    [decided] = desk.engine.state.standing.own.values()
    return decided


def ranked(desk: Desk) -> list[str]:
    """Where work with wishes may start."""
    return [one.cluster for one in own(desk).ranked]


def told(desk: Desk) -> int:
    """How many decisions about own placements are in the journal."""
    records = desk.store.records()
    return sum(isinstance(one.event, ev.OwnPlacementDecided) for one in records)


def test_it_lives_with_its_work(tmp_path: Path) -> None:
    """All work of a shape shares it; prices decide it again; it is kept over a kill, and goes."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        await submit(desk, "w-1", WISHING)
        assert ranked(desk) == []
        await apply(desk, priced(a=2, b=1))
        assert ranked(desk) == ["b", "a"]
        before = told(desk)
        await submit(desk, "w-2", WISHING)
        await apply(desk, priced(a=2, b=1.5))
        assert told(desk) == before
        await desk.kill()
        await desk.start()
        assert (ranked(desk), told(desk)) == (["b", "a"], before)
        await apply(desk, priced(a=1, b=3))
        assert ranked(desk) == ["a", "b"]
        await desk.put(Cancel(WorkloadId("w-1")))
        assert ranked(desk) == ["a", "b"]
        await desk.put(Cancel(WorkloadId("w-2")))
        assert desk.engine.state.standing.own == {}
        await submit(desk, "w-3", WISHING)
        assert ranked(desk) == ["a", "b"]
        await desk.kill()
        desk.store.close()

    play(story())


def test_a_placement_that_is_named_narrows_it(tmp_path: Path) -> None:
    """What depends on the job bounds here, though the standing decision leaves it to jobs."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        dear = Placement("lab", "p", limits=Limits(usd_max=1.5))
        await apply(desk, priced(a=2, b=1), dear)
        await submit(desk, "w-1", NAMING)
        assert sorted(desk.chosen()["lab/p"]) == ["a", "b"]
        assert ranked(desk) == ["b"]
        await apply(desk, priced(a=2, b=1), replace(dear, limits=Limits(usd_max=2)))
        assert ranked(desk) == ["b", "a"]
        made = desk.engine.placements.wishes_of(NAMING)
        assert made is not None
        assert made.matters == own(desk).matters
        await desk.put(DeletePlacement("lab/p"))
        assert desk.engine.placements.wishes_of(NAMING) is None
        await desk.kill()
        desk.store.close()

    play(story())


def test_a_fault_in_deciding_keeps_nothing_else_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placements are decided all the same, and with the next change the wishes are looked at."""

    async def story() -> None:
        from stellwerk.engine import own_placements

        desk = Desk(tmp_path)
        await desk.start()

        def broken(*_: object) -> None:
            raise RuntimeError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(own_placements, "decide_own", broken)
            await submit(desk, "w-1", WISHING)
            await apply(desk, priced(a=2, b=1), Placement("lab", "p"))
            assert sorted(desk.chosen()["lab/p"]) == ["a", "b"]
            assert desk.engine.state.standing.own == {}
        await apply(desk, priced(a=2, b=3))
        assert ranked(desk) == ["a", "b"]
        await desk.kill()
        desk.store.close()

    play(story())


def test_nothing_is_decided_where_nothing_is_wished(tmp_path: Path) -> None:
    """Work without wishes has no own placement, and nothing is loaded for it."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        await apply(desk, priced(a=2))
        await submit(desk, "w-1", replace(WISHING, wishes=None))
        assert desk.engine.state.standing.own == {}
        assert desk.engine.placements._own_decider is None
        await desk.kill()
        desk.store.close()

    play(story())
