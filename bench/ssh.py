"""How long one job takes over SSH, warm and with a connection to be made, beside plain `ssh`.

The machine is a network namespace with a real sshd, so nothing of the network is in the numbers but
its protocols. Needs root and openssh-server; without them it says so and measures nothing.
"""

import os
import subprocess
import time
from unittest import mock

from bench.home import a_home
from bench.peers.cache import Peers
from bench.table import Line, median
from stellwerk import Client
from tests.lab.room import Computer, Room, a_room, missing

STEADY_S = 1.5
"""A connection that broke right after it was made is made again with more patience."""
SAY = 'echo "$EPOCHREALTIME"'


def one_job(quick: bool, peers: Peers) -> list[Line]:
    """Small jobs one after the other, over a connection that stands and over new ones."""
    if lacks := missing():
        peers.left_out.append(f"SSH: {lacks}")
        return []
    repeat = 5 if quick else 20
    with a_room() as room, a_home() as home, mock.patch.dict(os.environ, {}):
        computer = room.add()
        room.trust(computer)
        home.env["HOME"] = os.environ["HOME"] = str(room.person)
        home.stw("cluster", "add", "far", "--host", str(computer))
        with home.client() as client:
            _submit(client)
            warm = [_submit(client) for _ in range(repeat)]
            cold = [_after_a_cut(client, computer) for _ in range(repeat)]
        plain = [_plain(room, computer) for _ in range(repeat)]
    return [
        Line("submit → the job's bash runs, over SSH", median(warm), "ms", 100, min(warm),
             "ssh host cmd", median(plain), min(plain)),
        Line("… with a connection to be made", median(cold), "ms", 500, min(cold),
             "ssh host cmd", median(plain), min(plain)),
    ]  # fmt: skip


def _submit(client: Client) -> float:
    """Milliseconds from the call until the job's first line ran, by the one clock of both."""
    began = time.time()
    text = f"name: job\nresources:\n  infra: ssh/far\nrun: |\n  {SAY}\n"
    given = client.submit(text=text)
    client.wait(given.id, timeout_s=60)
    said = b"".join(client.logs(given.id, stream="run")).decode().strip()
    return (float(said) - began) * 1000


def _after_a_cut(client: Client, computer: Computer) -> float:
    """The same when the connection was just ended from the other side: dialling is a part of it."""
    time.sleep(STEADY_S)
    computer.restart_sshd()
    return _submit(client)


def _plain(room: Room, computer: Computer) -> float:
    began = time.time()
    argv = ["ssh", "-F", f"{room.person}/.ssh/config", "-o"]
    argv += [f"UserKnownHostsFile={room.person}/.ssh/known_hosts", str(computer)]
    done = subprocess.run([*argv, f"bash -c '{SAY}'"], check=True, capture_output=True)
    return (float(done.stdout) - began) * 1000
