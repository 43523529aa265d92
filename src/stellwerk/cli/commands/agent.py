"""`stw agent`: one's own runtime on the machine of a server that several people share."""

import os
import sys

import click

from stellwerk.cli.errors import CommandError
from stellwerk.cli.output import Output, narrate, one_options, write_data
from stellwerk.cli.session import connect
from stellwerk.client import asking, guest
from stellwerk.client.allowed import FIRST_PERSON, Rule, read_people
from stellwerk.client.api import Client
from stellwerk.client.everyone import Service, serve
from stellwerk.client.everyone_unit import FOLDER, unit
from stellwerk.client.few_rights import keep_few_rights
from stellwerk.client.launch import tail
from stellwerk.client.people import is_foreign
from stellwerk.client.server_wire import ServerStatus
from stellwerk.config import load

TOLD_LINES = 3


@click.group("agent", epilog="Example: stw agent start")
def command() -> None:
    """Your own runtime for a shared server on this machine: what starts your work as you."""


@command.command("start")
def start() -> None:
    """Start it and keep it connected. `stw run` does this by itself."""
    client, status, folder = _here()
    said = asking.ask("start", client.transport.path)
    if said is not None and said.kept and not said.failed:
        narrate(f"the machine keeps it for you, also after a restart, for {status.owner}'s server")
        narrate("next: stw run task.yaml")
        return
    if said is not None:
        narrate(f"the machine doesn't keep it for you: {said.refused or said.failed}")
    if not guest.start(client.settings, status):
        narrate(f"already running, pid {guest.pid_of(folder)}")
        return
    narrate(f"started; your work on {status.owner}'s server runs as you")
    narrate("next: stw run task.yaml")


@command.command("stop")
def stop() -> None:
    """Let the server start nothing more as you. What runs goes on."""
    client, _, folder = _here()
    kept = asking.ask("status", client.transport.path)
    if kept is not None and kept.kept:
        asking.ask("stop", client.transport.path)
        narrate("the machine keeps it for you no longer")
    pid = guest.stop(folder)
    narrate(f"stopped (pid {pid}); what runs goes on" if pid else "it wasn't running")


@command.command("status")
@one_options
def status(output: Output) -> None:
    """Say whether it is there, and whether the server knows it."""
    client, found, folder = _here()
    pid = guest.pid_of(folder)
    said = asking.ask("status", client.transport.path)
    kept = said is not None and said.kept
    known = found.you is not None and found.you.runtime
    if output.for_people:
        narrate(f"running, pid {pid}" if pid else "not running: stw agent start")
        narrate(f"the server {'can' if known else 'can not'} start work as you")
        if kept:
            narrate("the machine keeps it for you, also after a restart")
        if said is not None and (said.failed or said.refused):
            narrate(f"  | the machine can't start it: {said.failed or said.refused}")
        for line in tail(os.path.join(folder, guest.LOG), TOLD_LINES) if not known else ():
            narrate(f"  | {line}")
        return
    told = {"pid": pid or None, "connected": known, "folder": folder, "kept": kept}
    write_data(told, output.format)


@command.command("everyone")
@click.option(
    "--people", multiple=True, required=True, metavar="NAMES", help="users, and groups as @lab"
)
@click.option("--server", "socket", metavar="SOCKET", help="of the server that they use")
@click.option(
    "--first-uid", default=FIRST_PERSON, show_default=True, help="users below are never started"
)
@click.option("--folder", default=FOLDER, show_default=True, help="where it is kept who has asked")
@click.option("--unit", "only_unit", is_flag=True, help="print the unit for systemd, and end")
def everyone(
    people: tuple[str, ...], socket: str | None, first_uid: int, folder: str, only_unit: bool
) -> None:
    """As root: keep the runtimes of all who have asked for theirs, each as that person."""
    server = _named_socket(socket)
    named = read_people(people)
    if not named or first_uid < 1:
        raise CommandError(
            "people/nobody",
            "nobody is named" if not named else "root's number isn't a person's",
            "name users, or groups as @lab: --people @lab",
        )
    if only_unit:
        argv = [sys.executable, "-P", "-m", "stellwerk.cli", "agent", "everyone"]
        argv += ["--server", server]
        argv += ["--first-uid", str(first_uid)] if first_uid != FIRST_PERSON else []
        argv += ["--folder", folder] if folder != FOLDER else []
        click.echo(unit([*argv, *(f"--people={name}" for name in named)]), nl=False)
        return
    _as_root(Service(asking.ask_at(os.environ), folder, server, Rule(named, first_uid)))


def _named_socket(given: str | None) -> str:
    settings = load()
    if given is None and settings.socket_is_default:
        raise CommandError(
            "people/server",
            "it isn't said whose server people use",
            "name its socket for all, `socket = …` in /etc/stellwerk/config.toml, or --server",
        )
    return os.path.abspath(given or settings.socket)


def _as_root(service: Service) -> None:
    if os.geteuid() != 0:
        raise CommandError(
            "people/root",
            "only root can start something as several people",
            "have an administrator run it, or start your own runtime alone: stw agent start",
        )
    try:
        os.makedirs(os.path.dirname(service.socket), mode=0o755, exist_ok=True)
        os.makedirs(service.folder, mode=0o700, exist_ok=True)
        os.chmod(service.folder, 0o700)
        if why := keep_few_rights():
            narrate(f"all of root's rights are kept: {why}")
        serve(service, narrate)
    except OSError as error:
        place = error.filename or service.socket
        raise CommandError("people/place", f"{place}: {error.strerror}", "see to it") from error


def _here() -> tuple[Client, ServerStatus, str]:
    """The server, if it is one that wants runtimes of others."""
    client = connect()
    found = client.server_status()
    if not found.shared or not is_foreign(client.transport.path):
        raise CommandError(
            "guest/not-shared",
            "this server starts your work by itself"
            if not is_foreign(client.transport.path)
            else f"the server of {found.owner} isn't shared",
            "an agent is for a server that somebody else shares on this machine",
        )
    return client, found, guest.folder_of(client.settings, found.home)
