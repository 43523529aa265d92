"""Kills the server, and now and then the agent, at moments that nobody can foresee."""

import json
import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.flows.person import Person, pids
from tests.processes import wait_gone

SERVER = b"-m\0stellwerk.server"
AGENT_EVERY = 12


class Killer:
    """A thread that kills ``kills`` servers; every twelfth time an agent goes with it."""

    def __init__(self, person: Person, kills: int, seed: int) -> None:
        self.servers = 0
        self.while_starting = 0
        self.agents = 0
        self._person = person
        self._kills = kills
        self._dice = random.Random(seed)
        self._thread = threading.Thread(target=self._work, name="killer", daemon=True)

    def start(self) -> None:
        """Begins to kill."""
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the last one is dead."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        while self.servers < self._kills:
            pid = self._server()
            if pid is None:
                time.sleep(0.01)
                continue
            # Two of three live for a while; the third dies somewhere on its way up.
            longest = self._dice.choice((1.5, 4.0, 4.0))
            time.sleep(self._dice.uniform(0, longest))
            answers = self._answers(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.servers += 1
                self.while_starting += not answers
            if self.servers % AGENT_EVERY == 0:
                self._kill_agent()
            wait_gone(pid)

    def _server(self) -> int | None:
        """The server's pid, also while it still starts."""
        mark = f"STELLWERK_HOME={self._person.state}\0".encode()
        for pid in pids():
            with suppress(OSError):
                process = Path(f"/proc/{pid}")
                is_server = SERVER in (process / "cmdline").read_bytes()
                if is_server and mark in (process / "environ").read_bytes():
                    return pid
        return None

    def _answers(self, pid: int) -> bool:
        with suppress(OSError, ValueError):
            return bool(json.loads((self._person.state / "server.json").read_text())["pid"] == pid)
        return False

    def _kill_agent(self) -> None:
        with suppress(OSError, ValueError):
            card = json.loads((self._person.state / "runtime" / "agent.json").read_text())
            os.kill(int(card["pid"]), signal.SIGKILL)
            self.agents += 1
