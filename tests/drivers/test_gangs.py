"""Runs over several hosts, whatever breaks: by seeds, against hosts that are values."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.drivers.base import DriverError, StopOrder
from stellwerk.drivers.ssh.gangs import Gangs
from stellwerk.drivers.ssh.reading import ReadsMachines
from tests.drivers.gang_world import NODES, PATIENCE_S, RUN, Host, World, a_part, gang_order


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stellwerk.drivers.ssh.gangs.AGAIN_S", 0.004)


def anything(world: World) -> None:
    """One thing that may happen."""
    host = world.chance.choice(world.hosts)
    match world.chance.randrange(9):
        case 0:
            world.serve()
        case 1:
            world.cut(host)
        case 2 | 3:
            world.mend(host)
        case 4 | 5 | 6:
            host.prepared()
        case 7:
            host.push() if host.said else None
        case _:
            host.end("reboot", 0) if world.chance.random() < 0.3 else None


@pytest.mark.parametrize("seed", range(12))
def test_no_half_of_a_run_ever_goes_on(seed: int) -> None:
    """Cables, killed servers, lost answers, doubled orders: all hosts begin, after all are
    prepared and each once, or none; an end is told when nothing goes on.
    """

    async def story() -> None:
        world = World(seed, losing=0.15)
        world.serve()
        world.order()
        for _ in range(25):
            anything(world)
            await asyncio.sleep(0.001)
        if world.gangs is None:
            world.serve()
        await world.settle()
        if world.is_live:
            assert world.goes_on_whole
            for host in world.hosts:
                host.end()
            await world.settle()
            assert world.ends[-1].end is not None
            assert world.ends[-1].end.code == 0
        assert not world.is_live
        assert world.all_over
        assert max(host.begun for host in world.hosts) <= 1
        world.kill_server()

    asyncio.run(story())


def test_a_host_that_refuses_is_the_reason_and_the_others_are_taken_back() -> None:
    """None has begun."""

    async def story() -> None:
        world = World(1)
        world.refuses = 2
        world.serve()
        assert world.gangs is not None
        with pytest.raises(DriverError) as refused:
            await world.gangs.start(gang_order())
        assert (refused.value.code, refused.value.final) == ("snapshot/missing", True)
        assert refused.value.message == "pc3: no such code"
        assert [bool(host.said and host.said["ended"]) for host in world.hosts] == [1, 1, 0]
        world.kill_server()

    asyncio.run(story())


def test_an_older_runtime_is_named() -> None:
    """It would take its part for a whole run, or refuse a field that nobody knows."""

    async def story() -> None:
        world = World(1)
        world.hosts[1].hello = {"can": ["exec"]}
        world.serve()
        assert world.gangs is not None
        with pytest.raises(DriverError) as refused:
            await world.gangs.start(gang_order())
        assert (refused.value.code, refused.value.final) == ("gang/old-runtime", True)
        assert not any(host.begun for host in world.hosts)
        world.kill_server()

    asyncio.run(story())


def test_a_host_that_is_silent_while_others_prepare_is_the_reason() -> None:
    """After a while; when it is heard of again its part is ended."""

    async def story() -> None:
        world = World(1)
        world.serve()
        world.order()
        await asyncio.sleep(0.005)
        world.cut(world.hosts[0])
        for host in world.hosts:
            host.prepared()
        for _ in range(500):
            await asyncio.sleep(PATIENCE_S)
            if world.was_refused:
                break
        await world.settle()
        assert world.all_over
        assert not any(host.begun for host in world.hosts)
        world.kill_server()

    asyncio.run(story())


def test_a_notice_is_given_to_all_hosts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for the answer of another."""

    async def story() -> None:
        world = World(1)
        world.serve()
        assert world.gangs is not None
        await world.gangs.start(gang_order())
        asked = asyncio.Barrier(len(NODES))

        async def stop(host: Host, order: StopOrder) -> None:
            assert order.run == RUN
            assert host in world.hosts
            await asked.wait()

        monkeypatch.setattr(Host, "stop", stop)
        async with asyncio.timeout(10):
            await world.gangs.stop(StopOrder(RUN, 1, 1, "preempt", 1000))
        world.kill_server()

    asyncio.run(story())


def test_what_all_parts_use_is_told_together() -> None:
    """As far as it was told."""
    world = World(1)
    machines: Any = dict(zip(NODES, world.hosts, strict=True))
    gangs = Gangs("room", machines, world.hear, lambda: 5)
    gangs.heard("pc1", [a_part(0)], everything=False)
    sample = RunSample("room", RUN, 1, memory_bytes=5, cpu_ms=10, processes=2)
    assert gangs.sampled("pc1", sample).cpu_ms == 10
    both = gangs.sampled("pc3", replace(sample, cpu_ms=7))
    assert (both.cpu_ms, both.memory_bytes, both.processes) == (17, 10, 4)


class Keeper:
    """A machine that keeps checkpoints."""

    is_connected = True

    def __init__(self, node: str, *modified_ms: int) -> None:
        self.host = self
        self.node = node
        self.found = [["step-1", 5, at_ms, 1] for at_ms in modified_ms]

    async def ask(self, op: str, run: RunId) -> tuple[dict[str, Any], bytes]:
        assert (op, run) == ("checkpoints", "w-1-1")
        return {"found": self.found}, b""


def test_checkpoints_that_are_left_behind_are_told() -> None:
    """Not where rank 0 has some, nor in a first run."""

    def told(*keepers: Keeper, generation: int = 2) -> str:
        reads = ReadsMachines()
        machines: Any = {each.node: each for each in keepers}
        reads.machines = machines
        return asyncio.run(reads.left_behind(replace(gang_order(), generation=generation)))

    one, two, three = Keeper("pc1"), Keeper("pc2", 5, 9), Keeper("pc3", 7)
    said = told(one, two, three)
    assert said.startswith("this job's last checkpoint is on pc2, and it starts anew on pc1")
    assert told(one, two, three, generation=1) == ""
    assert told(Keeper("pc1", 1), two, three) == ""
    some = told(Keeper("pc1", 1), Keeper("pc2"), three)
    assert some.startswith("checkpoints of this job are on pc1, pc3, and none on pc2: ranks there")
    assert told(one, Keeper("pc2")) == ""
