"""The server as a process: lock, store, drivers, engine and sockets, from the start to the end.

A second server on the same state is refused. A server whose engine has died ends, with a sentence
in its log: one that still answered would only look alive. Ending it ends no job.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stellwerk import __version__
from stellwerk.config import Settings, clean_environment, group_file, load
from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.lock import HomeLock
from stellwerk.server.writing import write_private

if TYPE_CHECKING:
    from socket import socket

    from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
    from stellwerk.drivers.kubernetes.driver import KubernetesDriver
    from stellwerk.engine.loop import Engine
    from stellwerk.server.machines import Machines
    from stellwerk.server.services import Services
    from stellwerk.store import Store

log = logging.getLogger("stellwerk.server")

ENGINE_ENDS_S = 15.0
"""How long the engine may take to finish its cycle."""

FILES_OPEN = 65_536
"""Followers and connections are files; the usual soft limit is too small for many of them."""


class Options(msgspec.Struct, frozen=True):
    """What the command line of the server says."""

    listen: str = ""
    socket_group: str = ""
    to_terminal: bool = False


class Beacon(msgspec.Struct, frozen=True):
    """The content of `server.json`: where the server of this state is."""

    pid: int
    started_ms: int
    version: str
    socket: str
    listen: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the server until it is told to stop; gives the exit code."""
    options = _options(argv)
    first_stderr = os.dup(2)
    lock: HomeLock | None = None
    try:
        settings = load()
        _forget_terminal(settings)
        lock = _take_home(settings)
        options = msgspec.structs.replace(
            options, socket_group=options.socket_group or settings.text("socket_group")
        )
        _prepare_process(settings, options)
        return asyncio.run(_run(settings, options))
    except StellwerkError as error:
        return _refuse(error, first_stderr)
    finally:
        if lock is not None:
            lock.release()
        os.close(first_stderr)


def _options(argv: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m stellwerk.server", description="The server of Stellwerk, in the foreground."
    )
    parser.add_argument(
        "--listen",
        default="",
        metavar="HOST:PORT",
        help="answer over TCP too, to whoever sends the token in HOME/server.token",
    )
    parser.add_argument(
        "--socket-group", default="", metavar="GROUP", help="share it with the members of a group"
    )
    parser.add_argument(
        "--log-to-terminal", action="store_true", help="log to standard error, not to server.log"
    )
    given = parser.parse_args(argv)
    to_terminal = given.log_to_terminal or os.isatty(2)
    return Options(given.listen, given.socket_group, to_terminal)


def _forget_terminal(settings: Settings) -> None:
    """Leaves nothing to the agent, and so to jobs, of where this server happens to be started."""
    clean = clean_environment(settings, os.environ)
    os.environ.clear()
    os.environ.update(clean)


def _take_home(settings: Settings) -> HomeLock:
    """Makes the state's folder, on a disk that can be trusted, and takes its lock."""
    from stellwerk.store.places import check_place

    check_place(settings.home)
    try:
        os.makedirs(settings.home, mode=0o700, exist_ok=True)
        return HomeLock(settings.home)
    except OSError as error:
        raise StellwerkError.of(
            "server/home",
            f"{settings.home} can't be used for the server's state: {error.strerror}",
            "name another folder with STELLWERK_HOME",
        ) from error


def _prepare_process(settings: Settings, options: Options) -> None:
    import resource

    from stellwerk.server import logbook

    os.umask(0o077)
    logbook.begin(settings.server_log, to_terminal=options.to_terminal)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_OPEN if hard == resource.RLIM_INFINITY else min(hard, FILES_OPEN)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _refuse(error: StellwerkError, first_stderr: int) -> int:
    """Says why the server can't go on: in its log, and to whoever started it."""
    from stellwerk.server.rules import rule_of

    text = ("\n".join(str(problem) for problem in error.problems) + "\n").encode(errors="replace")
    sys.stderr.flush()
    os.write(2, text)
    if not os.path.sameopenfile(2, first_stderr):
        os.write(first_stderr, text)
    return rule_of(error.problems[0].code).exit


async def _run(settings: Settings, options: Options) -> int:
    """Opens everything from the outside in: what is refused is refused before the slow imports."""
    sockets, token = _bind(settings, options)
    try:
        from stellwerk.store import Store

        with Store.open(Path(settings.home)) as store:
            return await _serve(store, sockets, token, settings, options)
    finally:
        _take_down(settings, sockets)


def _bind(settings: Settings, options: Options) -> "tuple[list[socket], str]":
    """The sockets, and the token that opens the one over TCP."""
    from stellwerk.server.sockets import bind_tcp, bind_unix, read_or_make_token

    sockets, token = [], ""
    if options.listen:
        token = read_or_make_token(os.path.join(settings.home, "server.token"))
        sockets.append(bind_tcp(options.listen))
    try:
        return [bind_unix(settings.socket, options.socket_group), *sockets], token
    except StellwerkError:
        for bound in sockets:
            bound.close()
        raise


async def _serve(
    store: "Store", sockets: "list[socket]", token: str, settings: Settings, options: Options
) -> int:
    from stellwerk.server.app import Parts, make_app
    from stellwerk.server.calendars import keep_up
    from stellwerk.server.peer import Access, own_uid
    from stellwerk.server.reading import read_item
    from stellwerk.server.serving import HttpServer
    from stellwerk.server.submit import Submits
    from stellwerk.server.tidying.keeper import Keeper

    services, engine, over_ssh = await _begin(store, settings, options)
    await over_ssh.listen(settings)
    keeper = Keeper(services)
    works_on = Parts.of(services, Submits(services, read_item), keeper, over_ssh)
    app = make_app(works_on, Access(own_uid(), token, services.people))
    server = HttpServer(app, services.stopping)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, services.stop)
    parts = {
        asyncio.create_task(engine.run()): "engine",
        asyncio.create_task(services.feed.run()): "reader of the journal",
        asyncio.create_task(keeper.keep_house()): "keeper of what is stored",
        asyncio.create_task(keep_up(services)): "keeper of calendars",
        asyncio.create_task(server.serve_on(sockets)): "socket",
    }
    listening = asyncio.create_task(server.listening.wait())
    await asyncio.wait([*parts, listening], return_when=asyncio.FIRST_COMPLETED)
    if server.listening.is_set():
        _announce(services, settings, options)
    listening.cancel()
    return await _until_over(services, engine, parts)


async def _begin(
    store: "Store", settings: Settings, options: Options
) -> "tuple[Services, Engine, Machines]":
    """The engine on its state, with its drivers, and what handlers are given."""
    from stellwerk.drivers.local.shared import SharedDriver
    from stellwerk.drivers.registry import driver_factory
    from stellwerk.engine.clock import SystemClock
    from stellwerk.engine.loop import Engine
    from stellwerk.server.belongings import Belongings
    from stellwerk.server.gpu_sharing import GpuSharing
    from stellwerk.server.limiting import people_of
    from stellwerk.server.machines import Machines
    from stellwerk.server.peer import own_uid
    from stellwerk.server.services import Identity, Services
    from stellwerk.server.things import as_whom
    from stellwerk.telemetry.gpu_history import GpuHistory

    clock = SystemClock()
    started_ms = clock.now_ms()
    local = driver_factory("local")(
        home=Path(settings.home), socket_dir=Path(settings.socket).parent, blobs=store.blobs
    )
    over_ssh = Machines(Path(settings.home), store.blobs, clock.now_ms)
    over_ssh.checkpoint_home = local.checkpoint_home = _checkpoint_home(settings, clock.now_ms)
    people = people_of(settings, own_uid(), options.socket_group)
    sharing = GpuSharing.of(settings)
    several = people.shared or _was_shared(settings)
    shared = SharedDriver(local, store.blobs, as_whom(store)) if several else None
    belongings = Belongings(
        Path(settings.home) / "belongings.json", people.owner, shared=people.shared
    )
    engine = Engine(
        store,
        [shared or local, *over_ssh.load(), *_on_kubernetes(settings, store, clock.now_ms)],
        clock,
        limits=people.limits,
        marked=lambda cluster: sharing.marked(belongings.marked(cluster)),
    )
    engine.measures.gpu_history = GpuHistory(Path(settings.home) / "gpu-history.jsonl")
    await engine.load()
    identity = Identity(os.getpid(), __version__, started_ms, settings.home, settings.socket)
    services = Services(
        identity=identity,
        store=store,
        engine=engine,
        clock=clock,
        people=people,
        belongings=belongings,
    )
    services.hosts = shared
    services.checkpoint_home = over_ssh.checkpoint_home
    return services, engine, over_ssh


def _on_kubernetes(
    settings: Settings, store: "Store", now_ms: "Callable[[], int]"
) -> "list[KubernetesDriver]":
    """The drivers of the Kubernetes clusters that are written down."""
    from stellwerk.config import machine_id
    from stellwerk.drivers.kubernetes.settings import on_kubernetes, read_clusters

    home = Path(settings.home)
    return [
        on_kubernetes(one, home=home, machine=machine_id(), blobs=store.blobs, now_ms=now_ms)
        for one in read_clusters(home)
    ]


def _checkpoint_home(settings: Settings, now_ms: "Callable[[], int]") -> "CheckpointHome":
    """Where checkpoints are kept that follow their jobs."""
    from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
    from stellwerk.drivers.agents.checkpoint_store import CheckpointStore

    root = Path(settings.text("checkpoint_home"))
    store = CheckpointStore(root, settings.number("checkpoint_home_bytes"))
    return CheckpointHome(store, now_ms, settings.number("checkpoint_copy_bytes_s"))


def _was_shared(settings: Settings) -> bool:
    """Whether work that runs here may be other people's, though nobody shares it any more."""
    return os.path.exists(group_file(settings.home))


async def _until_over(
    services: "Services", engine: "Engine", parts: dict[asyncio.Task[None], str]
) -> int:
    """Waits for the end, wanted or not, and ends the rest: answers first, then the engine."""
    await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    status = 0 if services.stopping.is_set() else 1
    names = {name: task for task, name in parts.items()}
    for task, name in parts.items():
        if task.done() and not services.stopping.is_set():
            log.critical(
                "the %s has stopped working, so this server ends; jobs go on, and the next "
                "command starts a new server",
                name,
                exc_info=None if task.cancelled() else task.exception(),
            )
    services.stop()
    await asyncio.wait([names["socket"]])
    engine.stop()
    _, late = await asyncio.wait([names["engine"]], timeout=ENGINE_ENDS_S)
    if late:
        log.error("the engine did not finish its cycle within %g s", ENGINE_ENDS_S)
        status = 1
    for task in parts:
        task.cancel()
    ended = await asyncio.gather(*parts, return_exceptions=True)
    if status == 0 and isinstance(ended[0], Exception):
        log.error("the engine ended with an error", exc_info=ended[0])
        status = 1
    log.info("server (pid %d) has ended", services.identity.pid)
    return status


def _announce(services: "Services", settings: Settings, options: Options) -> None:
    """Says where the server is, all at once or not at all."""
    identity = services.identity
    beacon = Beacon(
        identity.pid, identity.started_ms, identity.version, identity.socket, options.listen
    )
    write_private(Path(_beacon_path(settings)), msgspec.json.encode(beacon))
    log.info("server %s (pid %d) answers at %s", identity.version, identity.pid, identity.socket)


def _take_down(settings: Settings, sockets: "list[socket]") -> None:
    """Leaves no socket and no word of a server that isn't there any more."""
    for bound in sockets:
        bound.close()
    for path in (settings.socket, _beacon_path(settings)):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # it never came to that


def _beacon_path(settings: Settings) -> str:
    return os.path.join(settings.home, "server.json")
