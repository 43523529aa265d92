"""How long it takes to look at a large room, and what a job costs the machine that it runs on."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import asyncssh

from bench.home import a_warm_home, cpu_ms
from bench.peers.cache import Peers
from bench.table import Line, median
from stellwerk.drivers.ssh.dial import Dialer
from stellwerk.drivers.ssh.driver import SshDriver
from stellwerk.drivers.ssh.hand import own_build
from stellwerk.drivers.ssh.hosts import Host

HOSTS = 200
WATCHED_S = 20.0


class NoBlobs:
    """Nothing is brought to machines that are only looked at."""

    def get_blob(self, digest: str) -> bytes:
        raise KeyError(digest)


def looks(quick: bool, _peers: Peers) -> list[Line]:
    """A room of simulated machines: the first look with connecting, and one over what stands."""
    with a_simulated_room() as (port, folder):
        opened, again = zip(*(asyncio.run(_look(port, folder)) for _ in range(1 if quick else 3)),
                            strict=True)  # fmt: skip
        plain = [asyncio.run(_plain(port, folder)) for _ in range(1 if quick else 3)]
    return [
        Line(f"connecting to {HOSTS} simulated hosts, and looking", median(opened), "s", 5,
             min(opened), "connecting to each, one command", median(plain), min(plain)),
        Line("… looking at them again", median(again), "s", 5, min(again)),
    ]  # fmt: skip


@contextmanager
def a_simulated_room() -> Iterator[tuple[int, Path]]:
    """A port at which every user is a machine, and the folder of the keys for it."""
    with tempfile.TemporaryDirectory(prefix="stw-room-") as name:
        folder = Path(name)
        (folder / ".ssh").mkdir(mode=0o700)
        for key in ("host", ".ssh/id_ed25519"):
            made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(made, check=True)
        program = ["-m", "bench.simulated_room", folder / "host", folder / ".ssh/id_ed25519.pub"]
        server = subprocess.Popen([sys.executable, *program], stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            words = (folder / "host.pub").read_text().split()
            known = f"[127.0.0.1]:{port} {words[0]} {words[1]}\n"
            (folder / ".ssh" / "known_hosts").write_text(known)
            with mock.patch.dict(os.environ, {"HOME": name}):
                os.environ.pop("SSH_AUTH_SOCK", None)
                yield port, folder
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


async def _look(port: int, folder: Path) -> tuple[float, float]:
    hosts = [Host(host="127.0.0.1", user=f"pc{at:03}", port=port) for at in range(HOSTS)]
    driver = SshDriver(
        cluster="room",
        hosts=hosts,
        dialer=Dialer(folder / "known_hosts"),
        build=own_build(),
        key="bench",
        blobs=NoBlobs(),
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    began = time.perf_counter()
    await driver.open(patience_s=60)
    seen = await driver.probe()
    opened = time.perf_counter() - began
    if [node.state for node in seen.nodes] != ["ready"] * HOSTS:
        raise SystemExit("not all simulated hosts were reached")
    began = time.perf_counter()
    await driver.probe()
    again = time.perf_counter() - began
    await driver.close()
    return opened, again


async def _plain(port: int, folder: Path) -> float:
    """The same library, without anything of Stellwerk: a connection and a command each."""

    async def one(user: str) -> None:
        known, key = str(folder / ".ssh/known_hosts"), str(folder / ".ssh/id_ed25519")
        async with asyncssh.connect(
            "127.0.0.1", port, username=user, known_hosts=known, client_keys=[key], config=None
        ) as connection:
            await connection.run("true")

    began = time.perf_counter()
    await asyncio.gather(*(one(f"pc{at:03}") for at in range(HOSTS)))
    return time.perf_counter() - began


def beside_a_job(quick: bool, _peers: Peers) -> list[Line]:
    """Memory and processor time of agent and wrapper while a job sleeps and is measured."""
    watched_s = WATCHED_S / (2 if quick else 1)
    with a_warm_home() as (home, client):
        id = client.submit(text="name: idle\nrun: sleep 600\n").id
        client.wait(id, "running", timeout_s=60)
        time.sleep(2)
        agent = int((home.state / "runtime" / "agent.json").read_text().split('"pid":')[1]
                    .split(",")[0])  # fmt: skip
        family = [agent, *_children(agent)]
        before = sum(map(cpu_ms, family))
        memory = sum(_own_mb(pid) for pid in family)
        time.sleep(watched_s)
        share = (sum(map(cpu_ms, family)) - before) / (watched_s * 10)
        bare = subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"],
                                stdin=subprocess.PIPE)  # fmt: skip
        time.sleep(0.5)
        beside = _own_mb(bare.pid)
        bare.kill()
        bare.wait()
    return [
        Line("agent and wrapper of a job, memory", memory, "MB", 30, None,
             "a bare Python", beside),
        Line("… processor time, of a core", share, "%", 0.5),
    ]  # fmt: skip


def _own_mb(pid: int) -> float:
    """Memory of a process, what it shares with others by parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _children(pid: int) -> list[int]:
    """The agent's processes in its own program: wrapper and prober, not the job."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == pid and b".pyz" in line:
            found.append(int(name))
    return found
