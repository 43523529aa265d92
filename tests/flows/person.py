"""A person at a terminal with a home of their own: runs `stw`, and cleans up by pid."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stellwerk.client.api import Client
from stellwerk.client.connection import UnreachableError, answers
from tests import terminal
from tests.processes import wait_gone

__all__ = ["Person", "Quick", "pids", "wait_gone"]


class Person:
    """Runs commands in a home under ``folder``; every process started there ends with ``leave``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.state = folder / "state"
        self.desk = folder / "desk"
        for one in (self.home, self.desk):
            one.mkdir(exist_ok=True)
        self.env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("STELLWERK_", "STW_", "SKYPILOT_", "XDG_"))
        }
        self.env |= {
            "HOME": str(self.home),
            "STELLWERK_HOME": str(self.state),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            # A machine of their own: what jobs of other tests hold would be told as taken.
            "STELLWERK_CLAIMS": str(folder / "claims"),
            "STELLWERK_MACHINE_CONFIG": str(folder / "machine.toml"),
            "NO_COLOR": "1",
        }
        (folder / "run").mkdir(mode=0o700, exist_ok=True)

    def stw(
        self, *words: str, code: int | None = 0, stdin: str = "", timeout_s: float = 50
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``stw words…`` on the desk and expects an exit code (None: any)."""
        done = self._run(words, stdin, timeout_s)
        assert code is None or done.returncode == code, (
            f"stw {' '.join(words)} gave {done.returncode}\n{done.stdout}\n{done.stderr}\n"
            f"{self.server_log()}"
        )
        return done

    def _run(
        self, words: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stellwerk.cli", *words],
            cwd=self.desk,
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def json(self, *words: str) -> Any:
        """Runs a command with ``-o json`` and reads what it says."""
        return json.loads(self.stw(*words, "-o", "json").stdout)

    def write(self, name: str, text: str) -> Path:
        """Puts a file on the desk."""
        path = self.desk / name
        path.write_text(text)
        return path

    def task(self, run: str, *, name: str = "job", more: str = "") -> str:
        """Writes a small task file; gives its name."""
        body = "".join(f"  {line}\n" for line in run.splitlines())
        return self.write(f"{name}.yaml", f"name: {name}\n{more}run: |\n{body}").name

    def server_log(self) -> str:
        """The end of the server's log."""
        with suppress(OSError):
            return (self.state / "server.log").read_text()[-3000:]
        return "(no server log)"

    def server_pid(self) -> int:
        """The pid of the server, from its status."""
        return int(self.json("server", "status")["pid"])

    def kill_server(self) -> None:
        """Kill -9 of the server that runs, and waits until it is gone."""
        pid = int(json.loads((self.state / "server.json").read_text())["pid"])
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)

    def client(self) -> Client:
        """A client of the server that runs; one is started where none does."""
        if (beacon := self._beacon()) is None or not answers(beacon):
            self.stw("server", "start")
            beacon = self._beacon()
        assert beacon is not None, self.server_log()
        return Client(beacon, start=False)

    def _beacon(self) -> str | None:
        with suppress(FileNotFoundError):
            return str(json.loads((self.state / "server.json").read_text())["socket"])
        return None

    def phases(self) -> dict[str, str]:
        """The phase of every workload by name."""
        return {row["name"]: row["phase"] for row in self.json("ps", "-A")}

    def until(self, phases: dict[str, str], timeout_s: float = 30) -> None:
        """Waits until these workloads have these phases, or one of those joined by "or"."""

        def have_them(client: Client) -> bool:
            seen.update((row.name, row.phase) for row in client.list(all=True))
            return all(seen.get(name) in phase.split(" or ") for name, phase in phases.items())

        seen: dict[str, str] = {}
        self.wait(have_them, lambda: f"{seen}, not {phases}", timeout_s)

    def wait(
        self, holds: Callable[[Client], object], seen: Callable[[], object], timeout_s: float = 30
    ) -> None:
        """Waits until something holds, asking over the socket: a new process for each look would
        take the machine from the jobs that are waited for.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # A server that was killed may take a connection and break it while it goes.
            with suppress(UnreachableError), self.client() as client:
                while not holds(client):
                    assert time.monotonic() < deadline, f"{seen()}\n{self.server_log()}"
                    time.sleep(0.02)
                return
            assert time.monotonic() < deadline, f"no server stays\n{self.server_log()}"
            time.sleep(0.02)

    def leave(self) -> None:
        """Ends every process that has this state folder in its environment or command line."""
        for _ in range(3):
            found = [pid for pid in pids() if self._is_ours(pid)]
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in found:
                wait_gone(pid)

    def _is_ours(self, pid: int) -> bool:
        mark = str(self.folder).encode()
        for name in ("environ", "cmdline"):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/{name}").read_bytes() and pid != os.getpid():
                    return True
        return False


class Quick(Person):
    """Whose commands and servers are forked from a process that has everything loaded."""

    def _run(
        self, words: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        return terminal.run(words, cwd=self.desk, env=self.env, stdin=stdin, timeout_s=timeout_s)


def pids() -> list[int]:
    """All processes of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
