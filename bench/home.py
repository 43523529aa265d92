"""A home of its own for a measurement: what runs there ends with it, by its process numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from stellwerk import Client
from stellwerk.config import load

OWN = ("STELLWERK_", "STW_", "SKYPILOT_", "XDG_")


class Spent(NamedTuple):
    """What a command took."""

    wall_ms: float
    cpu_ms: float


class Home:
    """A user's home and state in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        for name in ("home", "run", "desk"):
            (folder / name).mkdir(mode=0o700)
        others = {key: value for key, value in os.environ.items() if not key.startswith(OWN)}
        self.env = others | {
            "HOME": str(folder / "home"),
            "STELLWERK_HOME": str(self.state),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def client(self) -> Client:
        """A client of this home's server, which must be running."""
        return Client(settings=load(self.env), start=False)

    def stw(self, *words: str) -> Spent:
        """Runs `stw words…` to its end; what it started and left running isn't counted."""
        return spent(
            [sys.executable, "-m", "stellwerk.cli", *words], self.env, self.folder / "desk"
        )

    def server_pid(self) -> int:
        """The pid of the server."""
        return int(json.loads((self.state / "server.json").read_text())["pid"])

    def leave(self) -> None:
        """Ends the server, the agent and what still runs in this home, and removes everything."""
        for card in (self.state / "server.json", self.state / "runtime" / "agent.json"):
            with suppress(OSError, ValueError, KeyError):
                end(int(json.loads(card.read_text())["pid"]))
        while found := self._processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _processes(self) -> list[int]:
        """Those with this folder on their command line or in their environment."""
        mark, found = str(self.folder).encode(), []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                parts = (Path(f"/proc/{name}/{part}") for part in ("cmdline", "environ"))
                if any(mark in part.read_bytes() for part in parts) and int(name) != os.getpid():
                    found.append(int(name))
        return found


@contextmanager
def a_home() -> Iterator[Home]:
    """A new home, gone at the end."""
    home = Home(Path(tempfile.mkdtemp(prefix="stw-bench-")))
    try:
        yield home
    finally:
        home.leave()


@contextmanager
def a_warm_home() -> Iterator[tuple[Home, Client]]:
    """A home whose server runs and has run a job already."""
    with a_home() as home:
        home.stw("server", "start")
        with home.client() as client:
            for _ in range(2):
                client.wait(client.submit(text="name: warm\nrun: /bin/true\n").id, timeout_s=60)
            yield home, client


def spent(argv: Sequence[str], env: dict[str, str], cwd: Path | None = None) -> Spent:
    """Runs a command and waits for it."""
    null = os.open(os.devnull, os.O_RDWR)
    began = time.perf_counter()
    child = subprocess.Popen(argv, env=env, cwd=cwd, stdin=null, stdout=null, stderr=null)
    _, status, usage = os.wait4(child.pid, 0)
    wall_ms = (time.perf_counter() - began) * 1000
    child.returncode = os.waitstatus_to_exitcode(status)
    os.close(null)
    if status:
        raise SystemExit(f"{' '.join(argv)} ended with {child.returncode}")
    return Spent(wall_ms, (usage.ru_utime + usage.ru_stime) * 1000)


def end(pid: int) -> None:
    """Ends a process that a measurement started, and waits until it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    for wait in range(1000):
        if wait == 900:
            os.kill(pid, signal.SIGKILL)
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)


def memory_mb(pid: int, field: str = "VmHWM") -> float:
    """Memory of a process from /proc, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def cpu_ms(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
