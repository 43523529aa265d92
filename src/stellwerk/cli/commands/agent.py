"""`stw agent`: one's own runtime on the machine of a server that several people share."""

import os

import click

from stellwerk.cli.errors import CommandError
from stellwerk.cli.output import Output, narrate, one_options, write_data
from stellwerk.cli.session import connect
from stellwerk.client import guest
from stellwerk.client.api import Client
from stellwerk.client.launch import tail
from stellwerk.client.people import is_foreign
from stellwerk.client.server_wire import ServerStatus

TOLD_LINES = 3


@click.group("agent", epilog="Example: stw agent start")
def command() -> None:
    """Your own runtime for a shared server on this machine: what starts your work as you."""


@command.command("start")
def start() -> None:
    """Start it and keep it connected. `stw run` does this by itself."""
    client, status, folder = _here()
    if not guest.start(client.settings, status):
        narrate(f"already running, pid {guest.pid_of(folder)}")
        return
    narrate(f"started; your work on {status.owner}'s server runs as you")
    narrate("next: stw run task.yaml")


@command.command("stop")
def stop() -> None:
    """Let the server start nothing more as you. What runs goes on."""
    _, _, folder = _here()
    pid = guest.stop(folder)
    narrate(f"stopped (pid {pid}); what runs goes on" if pid else "it wasn't running")


@command.command("status")
@one_options
def status(output: Output) -> None:
    """Say whether it is there, and whether the server knows it."""
    _, found, folder = _here()
    pid = guest.pid_of(folder)
    known = found.you is not None and found.you.runtime
    if output.for_people:
        narrate(f"running, pid {pid}" if pid else "not running: stw agent start")
        narrate(f"the server {'can' if known else 'can not'} start work as you")
        for line in tail(os.path.join(folder, guest.LOG), TOLD_LINES) if not known else ():
            narrate(f"  | {line}")
        return
    write_data({"pid": pid or None, "connected": known, "folder": folder}, output.format)


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
