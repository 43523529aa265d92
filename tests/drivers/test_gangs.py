"""Runs over several hosts, whatever breaks: by seeds, against hosts that are values, and the rules
of what several parts mean together.
"""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report, RunReport, RunSample, StartRefused
from stellwerk.drivers.agents.gang import Part, next_steps, part_of, together, whole_end
from stellwerk.drivers.base import DriverError, RankOrder, StartOrder, StopOrder
from stellwerk.drivers.ssh.gangs import Gangs
from stellwerk.drivers.ssh.reading import ReadsMachines
from stellwerk.testing.builders import an_order

RUN = RunId("w-1-1")
NODES = ("pc1", "pc2", "pc3")
HOSTS = [{"node": node, "ranks": [number]} for number, node in enumerate(NODES)]
PATIENCE_S = 0.02


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stellwerk.drivers.ssh.gangs.AGAIN_S", 0.004)


def gang_order() -> StartOrder:
    """One rank on each host."""
    ranks = tuple(RankOrder(number, node, {}) for number, node in enumerate(NODES))
    return replace(an_order(RUN), ranks=ranks)


class Host:
    """A host with its agent, as a value; stands for a `Machine` and its conversation too."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.is_connected = True
        self.epoch = 1
        self.said: dict[str, Any] = {}
        self.begun = 0
        self.found = {"address": f"10.0.0.{number}"}
        self.was_prepared = False

    @property
    def talk(self) -> "Host":
        return self

    async def start(self, order: StartOrder, more: dict[str, Any]) -> None:
        """Claims the part once; an answer may be lost."""
        self._answer_or_break()
        assert [rank.rank for rank in order.ranks] == [self.number]
        assert order.setup_env["SKYPILOT_SETUP_NODE_RANK"] == str(self.number)
        if self.world.refuses == self.number:
            raise DriverError("snapshot/missing", "no such code", final=True)
        if not self.said:
            self.said = {
                "run": order.run,
                "generation": order.generation,
                "state": "setting_up",
                "gang": more["gang"],
                "status": {"gang": {"prepared": False, "released": False}},
                "ended": None,
            }
        self.push()
        self._answer_or_break()

    async def ask(self, op: str, **fields: Any) -> None:
        """Carries an order out, perhaps without an answer, perhaps twice."""
        self._answer_or_break()
        for _ in range(self.world.chance.choice((1, 1, 2))):
            if not self.said or self.said["ended"]:
                break
            far = self.said["status"]["gang"]
            if op == "go" and not far["released"]:
                assert all(host.was_prepared for host in self.world.hosts), "begun too early"
                self.begun += 1
                far.update(released=True, port="4711")
                self.said["state"] = "running"
                self.push()
            elif op in {"stop", "kill"}:
                self.end("peer" if fields.get("why") == "peer" else "killed", 137)
        self._answer_or_break()

    async def about(self, op: str, run: RunId) -> None:
        await self.ask(op, run=run)

    async def stop(self, order: StopOrder) -> None:
        await self.ask("stop", why=order.why)

    async def forget(self, run: RunId) -> None:
        self.said = {}

    def _answer_or_break(self) -> None:
        if not self.is_connected or self.world.chance.random() < self.world.losing:
            raise DriverError("ssh/connection-lost", "it broke", final=False)

    def push(self) -> None:
        """Tells the control plane, if it hears."""
        if self.is_connected and self.world.gangs is not None:
            part = part_of("room", self.said)
            assert part is not None
            self.world.gangs.heard(NODES[self.number], [part], everything=False)

    def prepared(self) -> None:
        """Its setup is over."""
        if self.said and not self.said["ended"]:
            self.was_prepared = True
            self.said["status"]["gang"]["prepared"] = True
            self.push()

    def end(self, how: str = "exited", code: int = 0) -> None:
        """Its part is over."""
        if self.said and not self.said["ended"]:
            self.said["ended"] = {"how": how, "code": code, "ended_at_ms": 9, "rank": self.number}
            self.push()


class World:
    """Hosts, a control plane that may be killed, and the state that it keeps of the one run."""

    def __init__(self, seed: int, losing: float = 0.0) -> None:
        self.chance = random.Random(seed)
        self.losing = losing
        self.refuses = -1
        self.hosts = [Host(self, number) for number in range(len(NODES))]
        self.gangs: Gangs | None = None
        self.is_live = True
        self.was_refused = False
        self.was_begun = False
        self.ends: list[RunReport] = []
        self.orders: list[asyncio.Task[None]] = []

    def serve(self) -> None:
        """Starts a control plane anew; the one before it is dead."""
        self.kill_server()
        machines = dict(zip(NODES, self.hosts, strict=True))
        self.gangs = Gangs("room", machines, self.hear, lambda: 5, PATIENCE_S)  # type: ignore[arg-type]
        for host in self.hosts:
            if host.is_connected:
                self.meet(host)

    def kill_server(self) -> None:
        for task in self.orders:
            task.cancel()
        self.orders = []
        if self.gangs is not None:
            self.gangs.close()
        self.gangs = None

    def hear(self, report: Report) -> None:
        """Does with a report what the engine would."""
        if isinstance(report, StartRefused) and self.is_live and not self.was_begun:
            assert not any(host.begun for host in self.hosts), "refused, but begun"
            self.is_live, self.was_refused = False, True
        if isinstance(report, RunReport) and self.is_live:
            self.was_begun = self.was_begun or report.phase in {"Running", "Stopping"}
            if report.end is not None:
                going_on = [host for host in self.hosts if host.begun and not host.said["ended"]]
                assert not going_on, "told as over, but it goes on"
                self.is_live = False
                self.ends.append(report)

    def meet(self, host: Host) -> None:
        """A connection begins with all that the host has; what is missing is ordered again."""
        assert self.gangs is not None
        found = part_of("room", host.said) if host.said else None
        self.gangs.heard(NODES[host.number], [found] if found else [], everything=True)
        for inventory in list(self.gangs.inventories()):
            listed = {run.run for run in inventory.runs}
            if set(inventory.nodes) == set(NODES) and self.is_live and RUN not in listed:
                assert not self.was_begun, "lost"
                self.order()
            if RUN in listed and not self.is_live:
                self.orders.append(asyncio.create_task(self._kill(self.gangs)))

    async def _kill(self, gangs: Gangs) -> None:
        for _ in range(40):
            try:
                await gangs.about("kill", RUN)
            except DriverError:
                await asyncio.sleep(0.002)
            else:
                break

    def order(self) -> None:
        """Orders the start until there is an answer, as the engine does."""
        assert self.gangs is not None
        self.orders.append(asyncio.create_task(self._start(self.gangs)))

    async def _start(self, gangs: Gangs) -> None:
        for _ in range(40):
            try:
                await gangs.start(gang_order())
            except DriverError as error:
                if error.final:
                    self.hear(StartRefused("room", RUN, 1, error.code, error.message))
                    break
                await asyncio.sleep(0.002)
            else:
                break

    def cut(self, host: Host) -> None:
        host.is_connected = False
        if self.gangs is not None:
            self.gangs.silent(NODES[host.number])

    def mend(self, host: Host) -> None:
        if not host.is_connected:
            host.is_connected = True
            if self.gangs is not None:
                self.meet(host)

    async def settle(self) -> None:
        """Everything works again, and time passes until nothing is left to do."""
        self.losing = 0.0
        for host in self.hosts:
            self.mend(host)
        for _ in range(5_000):
            await asyncio.sleep(0.002)
            for host in self.hosts:
                host.prepared()
            if self.goes_on_whole if self.is_live else self.all_over:
                break

    @property
    def goes_on_whole(self) -> bool:
        return all(host.begun and not host.said["ended"] for host in self.hosts)

    @property
    def all_over(self) -> bool:
        return all(not host.said or host.said["ended"] for host in self.hosts)


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
    machines = dict(zip(NODES, world.hosts, strict=True))
    gangs = Gangs("room", machines, world.hear, lambda: 5)  # type: ignore[arg-type]
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
        reads.machines = {each.node: each for each in keepers}  # type: ignore[misc]
        return asyncio.run(reads.left_behind(replace(gang_order(), generation=generation)))

    one, two, three = Keeper("pc1"), Keeper("pc2", 5, 9), Keeper("pc3", 7)
    said = told(one, two, three)
    assert said.startswith("this job's last checkpoint is on pc2, and it starts anew on pc1")
    assert told(one, two, three, generation=1) == ""
    assert told(Keeper("pc1", 1), two) == ""
    assert told(one, Keeper("pc2")) == ""


# what parts mean together


def a_part(host: int, state: str = "running", **ended: Any) -> Part:
    """A part whose ranks were let go; with an end if that is given."""
    said: dict[str, Any] = {
        "run": RUN,
        "generation": 1,
        "state": state,
        "gang": {"hosts": HOSTS, "host": host},
        "status": {"gang": {"prepared": True, "released": True, "port": "1"}},
        "ended": {"ended_at_ms": 5, "rank": host, **ended} if ended else None,
    }
    part = part_of("room", said)
    assert part is not None
    return part


@pytest.mark.parametrize(
    ("ends", "how", "code", "put_back", "rank"),
    [
        (({}, {}, {}), "exited", 0, False, 0),
        (({"how": "peer", "code": 143}, {"code": 7}, {}), "exited", 7, False, 1),
        (({"code": 1, "ended_at_ms": 4}, {"code": 7}, {}), "exited", 1, False, 0),
        (({"code": 1}, {"how": "reboot", "code": None}, {}), "reboot", None, False, 1),
        (({"how": "cancelled", "code": 143}, {"code": 7}, {}), "cancelled", 143, False, 0),
        (({"how": "notice", "code": 85, "put_back": True}, {}, {}), "notice", 85, True, 0),
        (({"how": "notice", "code": 9, "put_back": True}, {"code": 1}, {}), "notice", 9, True, 0),
        (
            ({"how": "notice", "put_back": True}, {"done_said": True}, {}),
            "exited",
            0,
            False,
            0,
        ),
        (({"how": "setup_failed", "code": 2}, {"how": "peer", "code": 143}, {}), "setup_failed", 2,
         False, 0),
    ],
)  # fmt: skip
def test_one_part_decides_how_the_run_ended(
    ends: tuple[dict[str, Any], ...], how: str, code: int | None, put_back: bool, rank: int
) -> None:
    """A cancellation, a lost host, a notice, the first that failed by itself, in that order."""
    parts = {
        host: a_part(host, **{"how": "exited", "code": 0, **end}) for host, end in enumerate(ends)
    }
    end = whole_end(parts)
    assert (end.how, end.code, end.put_back, end.rank) == (how, code, put_back, rank)


def test_the_failure_that_was_heard_first_decides_whatever_the_clocks_say() -> None:
    """And its message says what was done with the others."""
    parts = {
        0: a_part(0, how="exited", code=134, ended_at_ms=1),
        1: a_part(1, how="exited", code=7, ended_at_ms=9),
        2: a_part(2, how="peer", code=143),
    }
    end = whole_end(parts, [1, 0])
    assert (end.code, end.rank) == (7, 1)
    said = "rank 1 on pc2 ended with exit code 7; then its other machines were told to end"
    assert end.message == said


part_states = st.fixed_dictionaries(
    {
        "prepared": st.booleans(),
        "released": st.booleans(),
        "ended": st.sampled_from(
            [None, {"how": "exited", "code": 0}, {"how": "exited", "code": 3}]
        ),
        "state": st.sampled_from(["setting_up", "running"]),
    }
)


@given(st.dictionaries(st.integers(0, 2), part_states), st.sets(st.integers(0, 2)), st.booleans())
def test_nobody_is_let_go_before_all_are_prepared(
    states: dict[int, dict[str, Any]], connected: set[int], may_go: bool
) -> None:
    """The head first, and only if that is wanted; nobody is let go when one has failed."""
    parts: dict[int, Part] = {}
    for host, state in states.items():
        said = {
            "run": RUN,
            "generation": 1,
            "gang": {"hosts": HOSTS, "host": host},
            "status": {"gang": {"prepared": state["prepared"], "released": state["released"]}},
            **{name: state[name] for name in ("state", "ended")},
        }
        part = part_of("room", said)
        assert part is not None
        parts[host] = part
    for step in next_steps(parts, connected, "", may_go=may_go):
        assert step.host in connected
        if step.op == "go" and step.host == 0:
            assert may_go
            assert all(parts[host].prepared for host in range(3))
        elif step.op == "go":
            assert parts[0].released
        else:
            assert any(
                part.end is not None and (part.end.code == 3 or not part.released)
                for part in parts.values()
            )
    if parts:
        told = together(parts)
        assert (told.end is not None) == (
            len(parts) == 3 and all(part.end is not None for part in parts.values())
        )


ALL = {0, 1, 2}


def prepared(host: int, **far: Any) -> Part:
    """A part that waits for the word."""
    said = {
        "run": RUN,
        "generation": 1,
        "state": "setting_up",
        "gang": {"hosts": HOSTS, "host": host},
        "status": {"gang": {"prepared": True, "released": False, **far}},
    }
    part = part_of("room", said)
    assert part is not None
    return part


def test_the_others_look_for_the_head_before_they_begin() -> None:
    """It begins at the first address at which all have found it; the known one is the best."""
    door = {"port": 99, "addresses": ["10.1.0.1", "10.2.0.1"]}
    parts = {host: prepared(host, door=None if host else door) for host in range(3)}
    steps = next_steps(parts, ALL, "10.0.0.1", may_go=True)
    assert [(step.op, step.host) for step in steps] == [("find", 1), ("find", 2)]
    assert steps[0].fields == {"addresses": ["10.0.0.1", "10.1.0.1", "10.2.0.1"], "port": 99}
    no = "no answer"
    for way, env in (
        ({"10.0.0.1": "", "10.1.0.1": ""}, {}),
        ({"10.0.0.1": no, "10.2.0.1": ""}, {"MASTER_ADDR": "10.2.0.1"}),
        ({"10.0.0.1": no, "10.2.0.1": "", "10.1.0.1": ""}, {"MASTER_ADDR": "10.1.0.1"}),
        ({"10.0.0.1": no}, {}),
    ):
        parts[1], parts[2] = prepared(1, ways=way), prepared(2, ways={**way, "x": ""})
        (step,) = next_steps(parts, ALL, "10.0.0.1", may_go=True)
        assert (step.op, step.host, step.fields) == ("go", 0, {"env": env})


def test_a_host_that_has_found_no_way_is_named_when_the_run_fails() -> None:
    """With what was tried; a run that didn't need it isn't disturbed."""
    parts = {host: a_part(host, how="exited", code=1) for host in range(3)}
    parts[2] = parts[2]._replace(ways={"10.0.0.1": "no answer"})
    said = "pc3 can't reach pc1 (10.0.0.1: no answer); is a firewall between them?"
    assert whole_end(parts).message.endswith(said)
    parts = {host: a_part(host, how="exited", code=0) for host in range(3)}
    parts[2] = parts[2]._replace(ways={"10.0.0.1": "no answer"})
    assert whole_end(parts).message == ""
