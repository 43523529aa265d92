"""Machines that dial in by themselves, as one cluster: the same hands, without SSH.

What has dialled in waits here until its machine is opened; a machine that hasn't is as one that is
switched off. Each stream carries one process there: the hand, or a command inside a run.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.reports import ClusterReport, Report
from stellwerk.drivers.agents.gang import Part
from stellwerk.drivers.agents.link import JSONObject
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.driver import SshDriver
from stellwerk.drivers.ssh.hand import Build, own_build, own_key
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.machine import Machine
from stellwerk.drivers.ssh.troubles import SshTrouble
from stellwerk.runtime import messages

CHANNEL_S = 30.0
REMEDY = "on that machine `stw join` must run: `stw cluster token` says how"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Ends:
    """A stream in the place of a process at the end of an SSH channel."""

    def __init__(self, streams: Streams) -> None:
        self.stdout, self.stdin = streams
        self.stderr = asyncio.StreamReader()
        self.stderr.feed_eof()
        self.exit_status: int | None = None

    @property
    def channel(self) -> "Ends":
        """What is hung up."""
        return self

    def abort(self) -> None:
        """Hangs up at once."""
        self.stdin.transport.abort()

    def close(self) -> None:
        """Hangs up when what was written is gone."""
        self.stdin.close()

    async def wait_closed(self) -> None:
        """Waits for the end."""
        with contextlib.suppress(OSError):
            await self.stdin.wait_closed()


class JoinedConnection:
    """A machine that has dialled in; further streams are asked for over the first."""

    def __init__(self, streams: Streams, found: JSONObject, waiting: "Waiting") -> None:
        self.first = Ends(streams)
        self.found = found
        self._waiting = waiting

    def get_extra_info(self, name: str) -> Any:
        """What the transport knows."""
        return self.first.stdin.get_extra_info(name)

    def abort(self) -> None:
        """Hangs up."""
        self.first.abort()

    async def opened(self, mode: str) -> tuple[Ends, JSONObject]:
        """The hand's stream, or another one. Raises SshTrouble."""
        if mode == "hand":
            return self.first, self.found
        number = secrets.token_hex(8)
        ask = {"id": 0, "op": "channel", "number": number}
        self.first.stdin.write(messages.message(messages.ASK, ask))
        return Ends(await self._waiting.channel(number)), self.found


class Waiting:
    """What has dialled in and wasn't taken yet: connections by node, further streams by number."""

    def __init__(self) -> None:
        self._connections: dict[str, JoinedConnection] = {}
        self._channels: dict[str, asyncio.Future[Streams]] = {}

    def arrived(self, node: str, connection: JoinedConnection) -> None:
        """Somebody dialled in; what waited before under that name is over."""
        before = self._connections.pop(node, None)
        if before is not None:
            before.abort()
        self._connections[node] = connection

    def __contains__(self, node: str) -> bool:
        return node in self._connections

    async def connect(self, host: Host, accept: Collection[str] = ()) -> JoinedConnection:
        """Takes what has dialled in for a machine; no key is asked for. Raises SshTrouble."""
        del accept
        found = self._connections.pop(host.node, None)
        if found is None or found.first.stdin.is_closing():
            message = f"{host.node} hasn't dialled in"
            raise SshTrouble("not-joined", message, REMEDY)
        return found

    async def channel(self, number: str) -> Streams:
        """Waits for a further stream. Raises SshTrouble."""
        coming: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
        self._channels[number] = coming
        try:
            async with asyncio.timeout(CHANNEL_S):
                return await coming
        except TimeoutError as error:
            raise SshTrouble("timeout", "it didn't dial in once more", "try again") from error
        finally:
            self._channels.pop(number, None)

    def brings(self, number: str, streams: Streams) -> bool:
        """Takes a further stream; False if nobody waits for it."""
        coming = self._channels.get(number)
        if coming is None or coming.done():
            return False
        coming.set_result(streams)
        return True


class JoinedDriver(SshDriver):
    """A cluster of machines that dial in."""

    def __init__(
        self,
        *,
        cluster: str,
        hosts: Sequence[Host],
        build: Build,
        key: str,
        blobs: BlobReader,
        now_ms: Callable[[], int],
    ) -> None:
        self.waiting = Waiting()
        self.build = build
        self.key = key
        self._arrival = asyncio.Event()
        self._has_told = False
        self._welcoming: set[asyncio.Task[None]] = set()
        self._blobs = blobs
        super().__init__(
            cluster=cluster,
            hosts=hosts,
            dialer=self.waiting,
            build=build,
            key=key,
            blobs=blobs,
            now_ms=now_ms,
        )

    async def open(self, accept: Collection[str] = (), *, patience_s: float = 2.0) -> None:
        """Opens what has dialled in. Raises DriverError once where nothing has, then waits."""
        self._is_open = True
        if not self._some_connected() and not self._is_awaited():
            if not self._has_told:
                self._has_told = True
                raise self._silent()
            self._arrival.clear()
            await self._arrival.wait()
        self._has_told = False
        await super().open(accept, patience_s=patience_s)

    def _is_awaited(self) -> bool:
        return any(name in self.waiting for name in self.machines)

    def _silent(self) -> DriverError:
        if self.machines:
            names = ", ".join(list(self.machines)[:5])
            return SshTrouble("not-joined", f"nothing has dialled in of {names}", REMEDY)
        return SshTrouble("not-joined", f"no machine has joined {self.cluster} yet", REMEDY)

    def arrived(self, node: str, connection: JoinedConnection) -> None:
        """A machine dialled in, for the first time or again."""
        machine = self.machines.get(node) or self._grow(node)
        self.waiting.arrived(node, connection)
        self._arrival.set()
        if self._is_open:
            task = asyncio.create_task(self._welcome(machine), name=f"welcome {node}")
            self._welcoming.add(task)
            task.add_done_callback(self._welcoming.discard)

    async def _welcome(self, machine: Machine) -> None:
        """Works with a machine over its newest connection."""
        if machine.hand is not None:
            await machine.hand.close()
        if self._some_connected():
            await self._open(machine)
            self._tell(ClusterReport(self._cluster()))

    def _grow(self, name: str) -> Machine:
        def tell(report: Report) -> None:
            self._heard(name, report)

        def broke() -> None:
            self._broke(name)

        def hear(parts: list[Part], everything: bool) -> None:
            self.gangs.heard(name, parts, everything=everything)

        host = Host(name, node=name)
        machine = self.machines[name] = Machine(
            self.cluster,
            host,
            self.waiting,
            self.build,
            self.key,
            self._blobs,
            self._now_ms,
            tell,
            broke,
            hear,
        )
        machine.mind(self.machines, self.tell_what_was_seen)
        self.settle(machine)
        return machine

    def _cluster(self) -> Cluster:
        found = super()._cluster()
        return replace(found, kind=f"joined {found.kind}")

    async def drop(self, node: str) -> None:
        """Hangs up on a machine that isn't wanted any more."""
        machine = self.machines.get(node)
        if machine is not None and machine.hand is not None:
            await machine.hand.close()

    async def forget_machine(self, node: str) -> None:
        """Hangs up on a machine on which nothing runs, and has it no more."""
        machine = self.machines.pop(node, None)
        retrying = self._retrying.pop(node, None)
        if retrying is not None:
            retrying.cancel()
        if machine is not None:
            await machine.close()
            self._tell(ClusterReport(self._cluster()))


def joined(
    *,
    cluster: str,
    hosts: Sequence[Host],
    home: Path,
    machine: str,
    blobs: BlobReader,
    now_ms: Callable[[], int],
) -> JoinedDriver:
    """A driver for the Stellwerk whose state is in a folder of a machine."""
    build, key = own_build(), own_key(machine, home)
    return JoinedDriver(
        cluster=cluster, hosts=hosts, build=build, key=key, blobs=blobs, now_ms=now_ms
    )
