"""A run over three hosts that are values, with a control plane that may be killed: for seeds."""

import asyncio
import random
from typing import Any

from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report, RunReport, StartRefused
from stellwerk.drivers.agents.gang import Part, part_of
from stellwerk.drivers.base import DriverError, RankOrder, StartOrder, StopOrder
from stellwerk.drivers.ssh.gangs import Gangs
from stellwerk.testing.builders import an_order

RUN = RunId("w-1-1")
NODES = ("pc1", "pc2", "pc3")
HOSTS = [{"node": node, "ranks": [number]} for number, node in enumerate(NODES)]
PATIENCE_S = 0.02


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
        self.hello: dict[str, Any] = {"can": ["exec", "gang"]}
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
        machines: Any = dict(zip(NODES, self.hosts, strict=True))
        self.gangs = Gangs("room", machines, self.hear, lambda: 5, PATIENCE_S)
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
