"""Keeps the clusters that are reached over SSH: which there are, adding, looking at, removing.

They are written to `clusters.json` beside the journal; what the machines have, probes tell. Nothing
of it is loaded, not even the library for SSH, until there is such a cluster.
"""

import asyncio
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from stellwerk.config import Settings, machine_id
from stellwerk.core.model.commands import RemoveCluster
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.drivers.base import Driver
from stellwerk.drivers.registry import driver_factory
from stellwerk.drivers.ssh.hosts import Host, name_nodes, read_host
from stellwerk.engine.watch import Watch
from stellwerk.server.join_tokens import JoinTokens, Token
from stellwerk.server.machine_looks import (
    Identity,
    identity,
    is_fit,
    look_at_all,
    without_twins,
)
from stellwerk.server.machine_models import AddCluster, HostLeft, Looked, SshCluster
from stellwerk.server.services import Services
from stellwerk.server.writing import write_private

if TYPE_CHECKING:
    from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
    from stellwerk.drivers.ssh.driver import SshDriver
    from stellwerk.drivers.ssh.joined import JoinedDriver
    from stellwerk.server.joining import Doorman

FILE = "clusters.json"
VERSION = 1
EFFECT_S = 5.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Kept(msgspec.Struct, frozen=True):
    """One cluster as it is written down; with ``joined`` its machines dial in by themselves."""

    name: str
    hosts: tuple[Host, ...]
    joined: bool = False


class _File(msgspec.Struct, frozen=True):
    v: int = VERSION
    clusters: tuple[Kept, ...] = ()


@runtime_checkable
class Watches(Protocol):
    """An engine whose drivers may come and go."""

    @property
    def watch(self) -> Watch:
        """What watches them."""
        ...


class Machines:
    """All clusters over SSH of this server."""

    def __init__(self, home: Path, blobs: Any, now_ms: Callable[[], int]) -> None:
        self._path = home / FILE
        self._home = home
        self._blobs = blobs
        self._now_ms = now_ms
        self._changing = asyncio.Lock()
        self._kept: dict[str, Kept] = {}
        self._drivers: dict[str, SshDriver] = {}
        self.checkpoint_home: CheckpointHome | None = None
        self.tokens = JoinTokens(home)
        self.join_url = ""
        self._doorman: Doorman | None = None

    def load(self) -> list[Driver]:
        """The drivers of what is written down. Raises StellwerkError `config/clusters`."""
        self.tokens.load()
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            message = f"{self._path} can't be read: {error}"
            remedy = "mend it, or move it away and add the clusters again"
            raise StellwerkError([Problem("config/clusters", message, remedy)]) from error
        self._kept = {one.name: one for one in file.clusters}
        self._drivers = {name: self._driver(one) for name, one in self._kept.items()}
        return list(self._drivers.values())

    def _driver(self, one: Kept) -> "SshDriver":
        factory = driver_factory("ssh")
        if one.joined:
            from stellwerk.drivers.ssh.joined import joined

            factory = joined
        driver: SshDriver = factory(
            cluster=one.name,
            hosts=one.hosts,
            home=self._home,
            machine=machine_id(),
            blobs=self._blobs,
            now_ms=self._now_ms,
        )
        driver.checkpoint_home = self.checkpoint_home
        return driver

    def all(self) -> list[SshCluster]:
        """Every cluster, as it was added."""
        return [_told(one) for one in self._kept.values()]

    async def listen(self, settings: Settings) -> None:
        """Lets machines dial in, where the settings say so. Raises StellwerkError."""
        if not settings.text("join_listen"):
            return
        from stellwerk.server.joining import Address, Doorman

        address = Address.of(settings)
        if address is None:
            return
        self._doorman = Doorman(self, self.tokens, self._now_ms)
        bound = await self._doorman.listen(address)
        scheme = "https" if address.cert else "http"
        self.join_url = settings.text("join_url").rstrip("/") or f"{scheme}://{bound}"

    def joined(self, cluster: str) -> "JoinedDriver | None":
        """The driver of a cluster whose machines dial in."""
        one = self._kept.get(cluster)
        driver: Any = self._drivers.get(cluster)
        return driver if one is not None and one.joined else None

    async def keep_member(self, cluster: str, node: str) -> None:
        """Notes that a cluster has a machine of this name."""
        async with self._changing:
            one = self._kept.get(cluster)
            if one is None or any(host.node == node for host in one.hosts):
                return
            grown = msgspec.structs.replace(one, hosts=(*one.hosts, Host(node, node=node)))
            await self._keep({**self._kept, cluster: grown})

    async def token(
        self, name: str, ttl_ms: int, services: Services, actor: str
    ) -> tuple[Token, str]:
        """A token with which machines join a cluster, which is made where there is none.

        Raises StellwerkError where the name belongs to something else.
        """
        async with self._changing:
            if self.joined(name) is None:
                one = self._read(AddCluster(name, []), services)
                one = msgspec.structs.replace(one, joined=True)
                await self._keep({**self._kept, name: one})
                self._drivers[name] = self._driver(one)
                _watch(services).add(self._drivers[name])
        return await self.tokens.make(name, ttl_ms, services.clock.now_ms(), actor)

    async def revoke(self, name: str, which: str, services: Services) -> list[str]:
        """Takes back a token or a machine's secret; machines that are connected are hung up on.

        One on which nothing runs is no node any more.
        """
        gone = await self.tokens.revoke(name, which)
        driver = self.joined(name)
        in_use = _nodes_in_use(services, name)
        if driver is not None:
            for node in gone:
                await (driver.drop(node) if node in in_use else driver.forget_machine(node))
        await self._keep_without(name, [node for node in gone if node not in in_use])
        if which and not gone:
            message = f"{name} has no token and no machine `{which[:80]}` that has joined"
            raise StellwerkError.of("find/token", message, f"`stw cluster token {name} --ls`")
        return gone

    async def _keep_without(self, name: str, nodes: Collection[str]) -> None:
        async with self._changing:
            one = self._kept.get(name)
            if one is not None and one.joined:
                hosts = tuple(host for host in one.hosts if host.node not in nodes)
                left = msgspec.structs.replace(one, hosts=hosts)
                await self._keep({**self._kept, name: left})

    async def add(self, wish: AddCluster, services: Services) -> Looked:
        """Looks at every machine and, if nothing speaks against it, keeps the cluster.

        Raises StellwerkError for what can't be a cluster.
        """
        async with self._changing:
            one = self._read(wish, services)
            driver = self._driver(one)
            looks = await look_at_all(driver, frozenset(wish.accept_host_keys))
            looks = without_twins(looks, driver.machines.values(), self._known_already())
            if not is_fit(looks):
                await driver.close()
                return Looked(one.name, looks)
            folders = {look.node: look.folder for look in looks}
            hosts = tuple(
                msgspec.structs.replace(host, folder=folders[host.node] or host.folder)
                for host in one.hosts
            )
            await self._keep({**self._kept, one.name: Kept(one.name, hosts)})
            self._drivers[one.name] = driver
            _watch(services).add(driver)
            return Looked(one.name, looks, added=True)

    def _read(self, wish: AddCluster, services: Services) -> Kept:
        problems: list[Problem] = []
        if _NAME.fullmatch(wish.name) is None:
            message = f"`{wish.name[:80]}` is no cluster's name"
            problems.append(Problem("ssh/host", message, "use a-z, 0-9 and - , at most 63 of them"))
        elif wish.name in self._kept or services.engine.driver(wish.name) is not None:
            message = f"there is a cluster `{wish.name}` already"
            remedy = f"`stw cluster rm {wish.name}` first, or take another name"
            problems.append(Problem("ssh/host", message, remedy))
        hosts: list[Host] = []
        for text in wish.hosts:
            try:
                key = os.path.expanduser(wish.identity_files.get(text, ""))
                host = read_host(text, python=wish.python, folder=wish.folder)
                hosts.append(msgspec.structs.replace(host, identity_file=key))
            except StellwerkError as error:
                problems += error.problems
        if problems:
            raise StellwerkError(problems)
        return Kept(wish.name, tuple(name_nodes(hosts)))

    def _known_already(self) -> dict[Identity, str]:
        return {
            identity(machine): f"{machine.host} of {name}"
            for name, driver in self._drivers.items()
            for machine in driver.machines.values()
            if machine.found.get("machine_id")
        }

    async def look(self, name: str) -> Looked:
        """Looks at every machine of a cluster now."""
        driver = self._found(name)
        looks = await look_at_all(driver, ())
        driver.tell_what_was_seen()
        return Looked(name, looks, added=True)

    async def remove(
        self, name: str, services: Services, actor: str, *, purge: bool = False
    ) -> list[HostLeft]:
        """Forgets a cluster, and says what became of its machines.

        Raises StellwerkError while runs go on there. One that nobody serves any more goes as well.
        """
        async with self._changing:
            if not self._is_orphan(name, services):
                self._found(name)
            _refuse_while_in_use(services, name)
            driver = await _watch(services).detach(name)
            await services.order(RemoveCluster(name), actor, "")
            await services.settled(EFFECT_S)
            if driver is None:
                return []
            try:
                _refuse_while_in_use(services, name)
            except StellwerkError:  # something was started there meanwhile
                _watch(services).add(driver)
                raise
            await self._keep({key: one for key, one in self._kept.items() if key != name})
            left = await leave(self._drivers.pop(name), purge=purge)
            await self.tokens.revoke(name)
            await driver.close()
            return left

    def _is_orphan(self, name: str, services: Services) -> bool:
        """Whether a cluster is known that nobody serves."""
        known = any(one.cluster.name == name for one in services.engine.view().clusters)
        return known and name not in self._drivers and services.engine.driver(name) is None

    def _found(self, name: str) -> "SshDriver":
        driver = self._drivers.get(name)
        if driver is None:
            known = ", ".join(self._kept) or "none yet; `stw cluster add` adds one"
            raise StellwerkError.of(
                "find/cluster", f"there is no cluster `{name[:80]}` over SSH", f"there is: {known}"
            )
        return driver

    async def _keep(self, kept: dict[str, Kept]) -> None:
        content = msgspec.json.encode(_File(clusters=tuple(kept.values())))
        try:
            await asyncio.to_thread(write_private, self._path, msgspec.json.format(content))
        except OSError as error:
            message = f"{self._path} can't be written: {error.strerror}"
            raise StellwerkError([Problem("store/clusters", message, "make room")]) from error
        self._kept = kept


def _told(one: Kept) -> SshCluster:
    return SshCluster(one.name, [str(host) for host in one.hosts], one.joined)


def _nodes_in_use(services: Services, name: str) -> set[str]:
    view = services.engine.view()
    held = [one for each in view.clusters if each.cluster.name == name for one in each.allocations]
    return {part.node for _, allocation in held for part in allocation.nodes}


def _refuse_while_in_use(services: Services, name: str) -> None:
    view = services.engine.view()
    live = [run for one in view.clusters if one.cluster.name == name for run, _ in one.allocations]
    if live:
        message = f"{name} has runs that go on: {', '.join(live[:5])}"
        remedy = (
            f"`stw cluster rm {name} --drain` waits for their end, with `--now` too they go "
            "elsewhere; `stw lost` says that what can't be reached is over"
        )
        raise StellwerkError([Problem("phase/has-runs", message, remedy)])


async def leave(driver: "SshDriver", *, purge: bool) -> list[HostLeft]:
    """Ends the agents on a cluster's machines, and with ``purge`` all that lies there."""
    from stellwerk.drivers.ssh.leaving import leave_all

    left = await leave_all(driver.machines.values(), purge=purge)
    return [HostLeft(one.host, one.agent, one.purged, one.message) for one in left]


def _watch(services: Services) -> Watch:
    engine: object = services.engine
    assert isinstance(engine, Watches), "the clusters of this engine are fixed"
    return engine.watch


GivenMachines = NamedDependency[SkipValidation[Machines]]
"""How handlers ask for it."""
