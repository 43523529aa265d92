"""Carries connections from ports of this machine to those that a job listens at."""

import contextlib
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence

import click

from stellwerk.cli.errors import CommandError, lines_of, usage
from stellwerk.cli.session import connect
from stellwerk.client.api import Client
from stellwerk.client.execs import ExecSession
from stellwerk.core.model.errors import StellwerkError

HERE = "127.0.0.1"
NOT_LISTENING = "exec/not-listening"
READ_BYTES = 32 * 1024
MOST_PORTS = 0xFFFF
LOOK_UP_S = 0.5


class PortPair(click.ParamType[tuple[int, int]]):
    """`PORT`, or `LOCAL:PORT`."""

    name = "port"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """The port here (0: any that is free) and the one there."""
        if isinstance(value, tuple):
            return value
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


def listen(here: int, there: int) -> socket.socket:
    """Listens at a port of this machine, that is to lead to one of a job."""
    try:
        return socket.create_server((HERE, here), backlog=64)
    except OSError as error:
        raise CommandError(
            "forward/port",
            f"port {here} isn't to be had on this machine: {os.strerror(error.errno or 0)}",
            f"take another one, as in {here + 1}:{there}, or any that is free: 0:{there}",
        ) from error


def answers(client: Client, name: str, port: int, run: int | None = None, rank: int = 0) -> bool:
    """Whether something of a job listens at a port; raises what else is in the way."""
    try:
        with client.connect_to(name, port, run=run, rank=rank) as session:
            session.close_input()
            for _ in session:
                break
    except StellwerkError as error:
        if error.problems[0].code == NOT_LISTENING:
            return False
        raise
    return True


def serve(
    listening: Sequence[socket.socket],
    ports: Sequence[int],
    name: str,
    run: int | None = None,
    rank: int = 0,
    over: threading.Event | None = None,
) -> None:
    """Carries every connection, each in a thread of its own; for ever, or until it is over."""
    while over is None or not over.is_set():
        ready, _, _ = select.select(listening, [], [], None if over is None else LOOK_UP_S)
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
