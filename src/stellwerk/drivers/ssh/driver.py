"""A cluster of one or more machines over SSH, each with an agent of its own: a server, or a room.

Reports of all machines come together here. A machine that can't be reached is a node that can't be
reached, and tried again ever more seldom; the cluster can't be reached when no machine can.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from stellwerk.core.inventory.caches import held_by_all
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import (
    ClusterReport,
    Inventory,
    Reachability,
    Report,
    RunReport,
    RunSample,
)
from stellwerk.drivers.agents.gang import Part
from stellwerk.drivers.agents.refusing import refusal_told
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import (
    Capabilities,
    DriverError,
    ExecOrder,
    ExecSession,
    StartOrder,
    StopOrder,
)
from stellwerk.drivers.ssh.dial import Dialer, Dials
from stellwerk.drivers.ssh.following import FollowsJobs
from stellwerk.drivers.ssh.gang_state import hosts_of, is_gang
from stellwerk.drivers.ssh.gangs import Gangs
from stellwerk.drivers.ssh.hand import Build, own_build, own_key
from stellwerk.drivers.ssh.hosts import Host, name_nodes
from stellwerk.drivers.ssh.machine import Machine
from stellwerk.drivers.ssh.tidying import TidiesMachines

RETRY_FIRST_S = 0.5
RETRY_MOST_S = 30.0
OPEN_S = 45.0
SOON_S = 2.0
STEADY_S = 1.0
"""A connection that broke sooner isn't made anew at once."""
LISTENS_AGAIN_S = (0.03, 0.06, 0.12, 0.25, 0.0)
"""The pauses after which an sshd that refuses is asked again: it may be restarted just now."""


class SshDriver(FollowsJobs, TidiesMachines):
    """Machines over SSH as one cluster.

    ``key`` keeps what belongs to this Stellwerk apart from what belongs to others of the same user;
    ``build`` is the runtime's file, ``now_ms`` says what time it is.
    """

    capabilities = Capabilities(start_guarantee="claim file", exec=True)

    def __init__(
        self,
        *,
        cluster: str,
        hosts: Sequence[Host],
        dialer: Dials,
        build: Build,
        key: str,
        blobs: BlobReader,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__()
        self.cluster = cluster
        self._inbox: deque[Report] = deque()
        self._news = asyncio.Event()
        self._now_ms = now_ms
        self._place: dict[RunId, Machine] = {}
        self._retrying: dict[str, asyncio.Task[None]] = {}
        self._is_open = False
        self._opened_at_s = 0.0
        self.machines: dict[str, Machine] = {}
        self.gangs = Gangs(cluster, self.machines, self._tell, now_ms)
        for host in name_nodes(list(hosts)):
            name = host.node

            def tell(report: Report, name: str = name) -> None:
                self._heard(name, report)

            def broke(name: str = name) -> None:
                self._broke(name)

            def hear(parts: list[Part], everything: bool, name: str = name) -> None:
                self.gangs.heard(name, parts, everything=everything)

            machine = Machine(cluster, host, dialer, build, key, blobs, now_ms, tell, broke, hear)
            machine.mind(self.machines, self.tell_what_was_seen)
            self.machines[name] = machine

    # connecting

    async def open(self, accept: Collection[str] = (), *, patience_s: float = SOON_S) -> None:
        """Connects to every machine; raises DriverError if none can be reached.

        Once one can be, the others are waited for no longer than ``patience_s``.
        """
        self._is_open = True
        self.copy_checkpoints()
        opening = {
            asyncio.create_task(self._open(each, accept), name=f"open {each.host}"): each
            for each in self.machines.values()
            if not each.is_connected
        }
        try:
            left = await self._until_some(set(opening), patience_s)
        except BaseException:
            for task in opening:
                task.cancel()
            raise
        for task in left:
            self._retrying[opening[task].host.node] = task
            task.add_done_callback(lambda _: self._tell(ClusterReport(self._cluster())))
        for task in set(opening) - left:
            task.result()
        if not self._some_connected():
            self._stop_retrying()
            raise self._why_unreachable()
        self._opened_at_s = asyncio.get_running_loop().time()
        for machine in self.machines.values():
            if not machine.is_connected:
                self._tell_silent(machine)

    async def _until_some(
        self, opening: set[asyncio.Task[None]], patience_s: float
    ) -> set[asyncio.Task[None]]:
        """Waits until one machine is connected, and a moment for the others; gives what is left."""
        if not opening:
            return opening
        _, left = await asyncio.wait(opening, timeout=patience_s)
        while left and not self._some_connected():
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        return left

    def _some_connected(self) -> bool:
        return any(each.is_connected for each in self.machines.values())

    async def _open(self, machine: Machine, accept: Collection[str] = ()) -> None:
        """Connects to a machine and looks at it; if that can't be, it is tried again later."""
        try:
            async with asyncio.timeout(OPEN_S):
                await machine.open(accept)
                await machine.probe()
        except TimeoutError:
            machine.trouble = _no_answer(machine)
            await machine.close()
        except DriverError as error:
            machine.trouble = error
        if not machine.is_connected:
            self._retrying.pop(machine.host.node, None)
            self._try_again(machine)

    def _try_again(self, machine: Machine) -> None:
        name = machine.host.node
        task = self._retrying.get(name)
        if len(self.machines) == 1 or not self._is_open or (task is not None and not task.done()):
            return  # who watches the cluster opens it again
        self._retrying[name] = asyncio.create_task(self._retry(machine), name=f"retry {name}")

    async def _retry(self, machine: Machine) -> None:
        delay = RETRY_FIRST_S
        while self._is_open:
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_MOST_S)
            before = machine.trouble
            try:
                async with asyncio.timeout(OPEN_S):
                    if not machine.is_connected:
                        await machine.open()
                    await machine.probe()
            except (DriverError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    machine.trouble = _no_answer(machine)
                if str(machine.trouble) != str(before) and not machine.is_connected:
                    self._tell_silent(machine)
                continue
            self._tell(ClusterReport(self._cluster()))
            return

    def _stop_retrying(self) -> None:
        for task in self._retrying.values():
            task.cancel()
        self._retrying.clear()

    async def close(self) -> None:
        """Hangs up everywhere; agents and runs go on."""
        self._is_open = False
        self._stop_retrying()
        self.copy_no_more()
        self.gangs.close()
        for machine in self.machines.values():
            await machine.close()
        self._news.set()

    def _why_unreachable(self) -> DriverError:
        troubles = [each.trouble for each in self.machines.values() if each.trouble is not None]
        if not troubles:
            return DriverError("ssh/connection-lost", "the connection broke", final=False)
        if len(troubles) == 1:
            return troubles[0]
        message = f"none of its {len(self.machines)} machines can be reached: {troubles[0].message}"
        return DriverError(troubles[0].code, message, final=False)

    def _broke(self, name: str) -> None:
        machine = self.machines[name]
        self.gangs.silent(name)
        self._news.set()
        if not self._is_open:
            return
        if machine.trouble is None:
            message = f"the connection to {machine.host} broke"
            machine.trouble = DriverError("ssh/connection-lost", message, final=False)
        if self._some_connected():
            self._tell_silent(machine)
            self._try_again(machine)

    def _tell_silent(self, machine: Machine) -> None:
        node = machine.as_it_is()
        self._tell(Reachability(self.cluster, "unreachable", node.note, (node.name,)))

    # reports

    async def reports(self) -> AsyncIterator[Report]:
        """Yields what the agents say; raises DriverError when no machine can be reached."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            if not self._some_connected():
                await self._open_at_once()
                continue
            self._news.clear()
            if not self._inbox:
                await self._news.wait()

    async def _open_at_once(self) -> None:
        """Connects again after a connection that had lasted, or raises DriverError."""
        if asyncio.get_running_loop().time() - self._opened_at_s < STEADY_S:
            raise self._why_unreachable()
        for pause_s in LISTENS_AGAIN_S:
            try:
                await self.open()
                break
            except DriverError as error:
                if error.code != "ssh/refused" or not pause_s:
                    raise
            await asyncio.sleep(pause_s)

    def _heard(self, name: str, report: Report) -> None:
        """Takes what one machine says; its inventory speaks for that machine alone."""
        machine = self.machines[name]
        if isinstance(report, RunReport):
            self._place[report.run] = machine
        elif isinstance(report, Inventory):
            self._place |= {run.run: machine for run in report.runs}
            if len(self.machines) > 1:
                self._tell(replace(report, nodes=(name,)))
                for whole in self.gangs.inventories():
                    self._tell(whole)
                return
        elif isinstance(report, RunSample) and report.run in self.gangs:
            report = self.gangs.sampled(name, report)
        self._tell(report)

    def _tell(self, report: Report) -> None:
        if not self.tell_home(report):
            self.pass_on(report)

    def pass_on(self, report: Report) -> None:
        """Tells it whoever hears the reports."""
        self._inbox.append(report)
        self._news.set()

    async def probe(self) -> Cluster:
        """Looks at every machine that can be reached; the others are as last seen."""
        connected = [each for each in self.machines.values() if each.is_connected]
        outcomes = await asyncio.gather(
            *(each.probe() for each in connected), return_exceptions=True
        )
        troubles = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if not connected or len(troubles) == len(connected):
            raise troubles[0] if troubles else self._why_unreachable()
        return self._cluster()

    def tell_what_was_seen(self) -> None:
        """Passes on how the machines were at the last look, to whoever hears the reports."""
        self._tell(ClusterReport(self._cluster()))

    def _cluster(self) -> Cluster:
        machines = list(self.machines.values())
        seen = [each.cluster for each in machines if each.cluster is not None]
        shared = dict(seen[0].claims) if seen else {}
        for other in seen[1:]:
            shared = {name: said for name, said in shared.items() if other.claims.get(name) == said}
        return Cluster(
            name=self.cluster,
            driver="ssh",
            nodes=tuple(each.as_it_is() for each in machines),
            kind="machine" if len(machines) == 1 else "room",
            claims=shared,
            held=held_by_all([each.as_it_is() for each in machines]),
        )

    # orders

    async def start(self, order: StartOrder) -> None:
        """Starts a run on the machine that it was given."""
        with refusal_told(self._tell, self.cluster, order):
            await self._start(order)

    async def _start(self, order: StartOrder) -> None:
        names = sorted({rank.node for rank in order.ranks})
        if len(self.machines) == 1:
            names = list(self.machines)
        if order.inherit_env:
            message = "a command in place runs on the machine it was given on, not over SSH"
            raise DriverError("ssh/in-place", message, final=True)
        if len(self.machines) > 1 and is_gang(order):
            nodes = [host.node for host in hosts_of(order)]
            await self.gangs.start(order, await self.follow(order, nodes))
            return
        machine = self.machines.get(names[0])
        if machine is None:
            message = f"{self.cluster} has no machine `{names[0]}` any more"
            raise DriverError("ssh/no-machine", message, final=True)
        self._place[order.run] = machine
        await machine.start(order, await self.follow(order, [machine.host.node]))

    def machine_of(self, run: RunId, rank: int = 0) -> Machine:
        """Where a run, or a rank of it, is, as far as that was told."""
        found = self.gangs.machine_of(run, rank) or self._place.get(run)
        return found or super().machine_of(run, rank)

    async def stop(self, order: StopOrder) -> None:
        """Has the agent give notice to a run."""
        if order.run in self.gangs:
            await self.gangs.stop(order)
        else:
            await self.machine_of(order.run).talk.stop(order)

    async def withdraw(self, run: RunId) -> None:
        """Has the agent take a notice back."""
        await self._about("withdraw", run)

    async def kill(self, run: RunId) -> None:
        """Has the agent end everything of a run."""
        await self._about("kill", run)

    async def _about(self, op: str, run: RunId) -> None:
        if run in self.gangs:
            await self.gangs.about(op, run)
        else:
            await self.machine_of(run).talk.about(op, run)

    async def forget(self, run: RunId) -> None:
        """Removes what a finished run left on its machine."""
        if run in self.gangs:
            await self.gangs.forget(run)
            return
        await self.machine_of(run).forget(run)
        self._place.pop(run, None)

    async def exec(self, order: ExecOrder) -> ExecSession:
        """Has the agent hand a connection over to a keeper beside the run."""
        return await self.machine_of(order.run, order.rank).exec(order)


def _no_answer(machine: Machine) -> DriverError:
    return DriverError("ssh/timeout", f"{machine.host} doesn't answer in time", final=False)


def over_ssh(
    *,
    cluster: str,
    hosts: Sequence[Host],
    home: Path,
    machine: str,
    blobs: BlobReader,
    now_ms: Callable[[], int],
) -> SshDriver:
    """A driver for the Stellwerk whose state is in a folder of a machine."""
    return SshDriver(
        cluster=cluster,
        hosts=hosts,
        dialer=Dialer(home / "ssh" / "known_hosts"),
        build=own_build(),
        key=own_key(machine, home),
        blobs=blobs,
        now_ms=now_ms,
    )
