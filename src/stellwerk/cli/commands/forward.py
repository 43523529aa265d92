"""`stw forward`: ports of a job that runs, on this machine."""

import contextlib
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

import click

from stellwerk.cli.errors import CommandError, lines_of, usage
from stellwerk.cli.output import narrate
from stellwerk.cli.session import complete_live, connect
from stellwerk.client.api import Client
from stellwerk.client.execs import ExecSession
from stellwerk.core.model.errors import StellwerkError

HERE = "127.0.0.1"
READ_BYTES = 32 * 1024
MOST_PORTS = 0xFFFF


class _Pair(click.ParamType[tuple[int, int]]):
    """`PORT`, or `LOCAL:PORT`."""

    name = "port"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """The port here (0: any that is free) and the one there."""
        here, colon, there = str(value).partition(":")
        ports = [one for one in (here, there if colon else here) if one.isascii() and one.isdigit()]
        numbers = [int(one) for one in ports if int(one) <= MOST_PORTS]
        if len(numbers) < 2 or not numbers[1]:
            raise usage(
                "usage/port",
                f"`{value}` is no port",
                "write PORT, or LOCAL:PORT, as in 8888 or 9000:8888; LOCAL 0 is any that is free",
            )
        return numbers[0], numbers[1]


@click.command(
    "forward",
    epilog="""\b
    Example: stw forward notebook 8888
             stw forward train 6006:6006 9000:8265
    """,
)
@click.argument("name", shell_complete=complete_live)
@click.argument("ports", nargs=-1, required=True, type=_Pair(), metavar="[LOCAL:]PORT...")
@click.option("--run", type=click.IntRange(1), metavar="N", help="Of this run, not the newest.")
@click.option("--rank", type=click.IntRange(0), default=0, metavar="R", help="Where this rank is.")
def command(name: str, ports: Sequence[tuple[int, int]], run: int | None, rank: int) -> int:
    """Reach ports of a job that runs, as if it ran here.

    Connections to 127.0.0.1 on this machine go through the server to the machine of the job, to a
    port at which it listens there. They end with Ctrl-C, and with the job; a new run of the same
    job is reached as soon as it runs. Everybody on this machine can use them meanwhile.
    """
    client = connect()
    workload = client.get(name)
    try:
        # Says at once what is wrong with the name or the run; that nothing listens yet isn't.
        _probe(client, name, ports[0][1], run, rank)
    except StellwerkError as error:
        if error.problems[0].code != "exec/not-listening":
            raise
        narrate(f"nothing listens at port {ports[0][1]} yet; each connection tries again")
    listening = [_listen(here) for here, _ in ports]
    for door, (_, there) in zip(listening, ports, strict=True):
        narrate(f"http://{HERE}:{door.getsockname()[1]} -> {workload.name}:{there}")
    narrate("Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        _serve(listening, [there for _, there in ports], name, run, rank)
    for door in listening:
        door.close()
    return 0


def _probe(client: Client, name: str, port: int, run: int | None, rank: int) -> None:
    with client.connect_to(name, port, run=run, rank=rank) as session:
        session.close_input()
        for _ in session:
            return


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HERE, port), backlog=64)
    except OSError as error:
        raise CommandError(
            "forward/port",
            f"port {port} isn't to be had on this machine: {os.strerror(error.errno or 0)}",
            f"take another one, as in {port + 1}:{port}, or any that is free: 0:{port}",
        ) from error


def _serve(
    listening: Sequence[socket.socket], ports: Sequence[int], name: str, run: int | None, rank: int
) -> NoReturn:
    while True:
        ready, _, _ = select.select(listening, [], [])
        for door in ready:
            caller, _ = door.accept()
            port = ports[listening.index(door)]
            threading.Thread(
                target=_carry, args=(caller, name, port, run, rank), daemon=True
            ).start()


def _carry(caller: socket.socket, name: str, port: int, run: int | None, rank: int) -> None:
    """One connection, from its first byte to its last."""
    with caller:
        try:
            with connect() as client, client.connect_to(name, port, run=run, rank=rank) as session:
                threading.Thread(target=_give, args=(caller, session), daemon=True).start()
                for stream, data in session:
                    if stream == "stdout":
                        caller.sendall(data)
        except StellwerkError as error:
            for line in lines_of(error):
                print(line.replace("NAME", name), file=sys.stderr)
        except OSError:
            return  # the caller has gone
        finally:
            with contextlib.suppress(OSError):  # it is closed already
                caller.shutdown(socket.SHUT_RDWR)  # wakes the other thread, which holds it open


def _give(caller: socket.socket, session: ExecSession) -> None:
    """What the caller says; that it has said everything, or has gone, is passed on."""
    with contextlib.suppress(OSError):  # the session is over, and so is the connection
        try:
            while data := caller.recv(READ_BYTES):
                session.write(data)
        finally:
            session.close_input()
