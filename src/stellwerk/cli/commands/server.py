"""`stw server`: starts, stops and looks at the server. Jobs outlive it."""

import contextlib
import os
import signal
import time

import click

from stellwerk.cli.errors import UNREACHABLE, CommandError, StopError
from stellwerk.cli.output import Output, narrate, one_options, write_data, write_one
from stellwerk.cli.render.units import duration, plural
from stellwerk.cli.session import connect
from stellwerk.client.connection import UnreachableError, answers
from stellwerk.client.launch import tail
from stellwerk.client.server_wire import ServerStatus
from stellwerk.config import group_file, load
from stellwerk.server.lock import holder_of

STOP_WITHIN_S = 15.0
POLL_S = 0.01


@click.group("server", epilog="Example: stw server status -o json")
def command() -> None:
    """Start, stop or look at the server. Other commands start it when they need it."""


@command.command("start")
@click.option(
    "--group",
    metavar="GROUP",
    help="Share it with the members of a group from now on, each as themselves; '' ends that.",
)
@one_options
def start(group: str | None, output: Output) -> None:
    """Start the server, if it isn't running."""
    if group is not None:
        _share_with(group)
    client = connect()
    started = client.ensure_server()
    status = client.server_status()
    if output.for_people:
        narrate(f"{'started' if started else 'already running'}, pid {status.pid}")
        narrate("next: stw run task.yaml")
    else:
        write_one(status, [], output, name=str(status.pid))


def _share_with(group: str) -> None:
    """Remembers the group in the server's state, so that whatever starts it later knows it too."""
    import grp

    client = connect(start=False)
    settings = client.settings
    if group:
        try:
            grp.getgrnam(group)
        except KeyError:
            message = f"this machine has no group `{group}`"
            raise CommandError("server/group", message, "`getent group` lists them") from None
    if group != settings.text("socket_group") and answers(settings.socket):
        raise CommandError(
            "server/running",
            "the server runs already, and not for that group",
            "stw server stop, then start it again; jobs go on",
        )
    os.makedirs(settings.home, mode=0o700, exist_ok=True)
    with open(group_file(settings.home), "w", encoding="utf-8") as file:
        file.write(group + "\n")


@command.command("stop")
def stop() -> None:
    """Stop the server. Jobs go on, and are found again by the next server."""
    client = connect(start=False)
    socket = client.transport.path
    if not answers(socket):
        _stop_unreachable(load().home)
        return
    status = client.server_status()
    with contextlib.suppress(UnreachableError):  # it may be gone before its answer has left it
        client.stop_server()
    client.close()
    deadline = time.monotonic() + STOP_WITHIN_S
    while answers(socket) or _lives(status.pid):
        if time.monotonic() > deadline:
            raise CommandError(
                "server/stop",
                f"the server (pid {status.pid}) still runs after {STOP_WITHIN_S:g} s",
                "see what it does: stw server logs",
            )
        time.sleep(POLL_S)
    running = plural(status.running, "job")
    go_on = "goes on" if status.running == 1 else "go on"
    narrate(f"stopped (pid {status.pid})" + (f"; {running} {go_on}" if status.running else ""))


def _stop_unreachable(home: str) -> None:
    """Ends a server whose socket somebody has removed, since it can't be asked any more."""
    pid = holder_of(home)
    if not pid:
        narrate("the server isn't running")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while holder_of(home) == pid and time.monotonic() < deadline:
        time.sleep(POLL_S)
    narrate(f"stopped (pid {pid}), which nobody could reach any more; jobs go on")


@command.command("status")
@one_options
def status(output: Output) -> None:
    """Say whether the server runs. Exit code 6 if it doesn't."""
    client = connect(start=False)
    try:
        found = client.server_status()
    except UnreachableError as error:
        if output.for_people:
            raise
        write_data({"running": False, "pid": None, "problem": str(error)}, output.format)
        raise StopError(UNREACHABLE) from error
    if output.for_people or output.format == "name":
        write_one(found, _lines(found), output, name=str(found.pid))
    else:
        import msgspec

        write_data({"running": True, **msgspec.to_builtins(found)}, output.format)


@command.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on as it grows.")
@click.option("-n", "--lines", default=50, help="How many of the last lines.")
def logs(follow: bool, lines: int) -> None:
    """Print what the server has to say."""
    client = connect(start=False)
    path = client.settings.server_log
    if not os.path.exists(path):
        raise CommandError("server/no-log", f"there is no {path}", "stw server start", exit_code=3)
    for line in tail(path, lines):
        click.echo(line)
    if follow:
        _follow(path)


def _follow(path: str) -> None:
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        while True:
            if data := file.read():
                click.echo(data, nl=False)
            elif os.stat(path).st_ino != os.fstat(file.fileno()).st_ino:
                return _follow(path)
            else:
                time.sleep(0.2)


def _lines(status: ServerStatus) -> list[str]:
    return [
        f"running, pid {status.pid}, version {status.version}",
        f"  since      {duration(status.uptime_ms)}",
        f"  workloads  {status.live} live: {status.running} running, {status.pending} waiting",
        f"  clusters   {', '.join(status.clusters) or 'none yet'}",
        f"  journal    {status.seq} records, epoch {status.epoch}",
        f"  state      {status.home}",
        f"  socket     {status.socket}",
        *_people(status),
    ]


def _people(status: ServerStatus) -> list[str]:
    """Whose server it is, and who asks."""
    you = status.you
    if you is None or not (status.shared or you.name != status.owner):
        return []
    shared = f"shared; of others' work people see: {status.visibility}"
    roles = ["an administrator"] if you.is_admin else []
    roles += [f"in project {you.project}"] if you.project else []
    roles += [] if you.runtime else ["without a runtime: stw agent start"]
    said = f" ({', '.join(roles)})" if roles else ""
    return [
        f"  owner      {status.owner}, {shared if status.shared else 'for nobody else'}",
        f"  you are    {you.name}{said}",
    ]


def _lives(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be collected doesn't."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (OSError, IndexError):
        return False
