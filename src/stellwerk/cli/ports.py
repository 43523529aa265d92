"""Has ports of this machine lead to a job that is being followed, as soon as it listens there.

What the job prints is looked through for the address that a notebook server gives, with its token,
so that the whole of it can be told as it works here.
"""

import re
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

from stellwerk.cli.errors import CommandError
from stellwerk.cli.forwarding import HERE, answers, listen, serve
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.wire import Show, Submitted
from stellwerk.core.model.errors import Problem, StellwerkError

LOOK_AGAIN_S = 0.5
SELDOM_S = 5.0
OWN_MACHINE = "local"
_KEPT_BYTES = 4096
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_ADDRESS = re.compile(rb"https?://[^\s/:]+:(\d+)(/[^\s\"'<>]*)")


def taken_ports(pairs: Sequence[tuple[int, int]]) -> list[Problem]:
    """Ports of this machine that can't be listened at, or not twice."""
    problems: list[Problem] = []
    seen: set[int] = set()
    for here, there in pairs:
        if not here:
            continue
        if here in seen:
            remedy = f"give each a port of its own here, as in {here + 1}:{there}, or 0:{there}"
            problems.append(Problem("usage/port", f"port {here} here is given twice", remedy))
            continue
        seen.add(here)
        try:
            listen(here, there).close()
        except CommandError as error:
            problems += error.problems
    return problems


class Overheard:
    """The addresses that a job prints, by port: the newest that says more than the port."""

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}
        self._rest = b""

    def hear(self, chunk: bytes) -> None:
        """Takes the next bytes that the job printed."""
        text = _COLOUR.sub(b"", self._rest + chunk)
        lines, newline, rest = text.rpartition(b"\n")
        self._rest = rest[-_KEPT_BYTES:]
        for port, path in _ADDRESS.findall(lines if newline else b""):
            told = path.rstrip(b".,;)").decode(errors="replace")
            if told != "/" and len(port) <= 5:
                self.paths[int(port)] = told


class Ports:
    """The ways to one job's ports, until it has ended; says when one is open, and how to use it."""

    def __init__(
        self,
        client: Client,
        submitted: Submitted,
        pairs: Sequence[tuple[int, int]],
        narrator: Narrator,
    ) -> None:
        self._client = client
        self._id = submitted.id
        self._name = submitted.name
        self._narrator = narrator
        self._over = threading.Event()
        self._heard = Overheard()
        self._threads = [
            threading.Thread(target=self._bring, args=pair, daemon=True) for pair in pairs
        ]

    def start(self) -> None:
        """Begins to look whether the job listens yet."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Takes no more connections."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=1)

    def hear(self, chunk: bytes) -> None:
        """Takes what the job printed."""
        self._heard.hear(chunk)

    def _bring(self, here: int, there: int) -> None:
        with self._client.twin() as client:
            show = self._until_it_listens(client, there)
            if show is None:
                return
            door = self._open(client, show, here, there)
            port = door.getsockname()[1] if door else there
            teller = threading.Thread(target=self._tell, args=(port, there), daemon=True)
            teller.start()
            if door is None:
                return
            with door:
                serve([door], [there], self._id, over=self._over)

    def _until_it_listens(self, client: Client, there: int) -> Show | None:
        """The job as it is then; None if it ended before, or nobody waits any more."""
        wait_s = LOOK_AGAIN_S
        while not self._over.wait(wait_s):
            # Without a server, or between two runs, nothing listens; it is looked for again.
            with suppress(StellwerkError):
                show = client.get(self._id)
                if show.ended:
                    return None
                if show.phase == "Running" and answers(client, self._id, there):
                    return show
                wait_s = min(SELDOM_S, wait_s * 1.2) if show.phase == "Running" else LOOK_AGAIN_S
        return None

    def _open(self, client: Client, show: Show, here: int, there: int) -> socket.socket | None:
        """Where connections are taken; None where the job itself listens at that port here."""
        try:
            return listen(here, there)
        except CommandError:
            # It was free when the job was submitted: either the job has it, or somebody else.
            cluster = show.runs[-1].cluster if show.runs else ""
            known = {one.name: one.driver for one in client.clusters()}
            if here == there and known.get(cluster) == OWN_MACHINE:
                return None
            self._narrator.insist(f"port {here} was taken meanwhile; another one leads there")
            return listen(0, there)

    def _tell(self, port: int, there: int) -> None:
        """The address, with its path and token as soon as the job has printed them."""
        told = None
        for _ in range(20):
            path = self._heard.paths.get(there, "")
            if told is None or path != told:
                told = path
                self._narrator.insist(f"open http://{HERE}:{port}{path}  ({self._name}:{there})")
            if path or self._over.wait(LOOK_AGAIN_S):
                return


class ListeningNarrator(Narrator):
    """Passes on what a job prints, and has it looked through."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self.ports: Ports | None = None

    def data(self, chunk: bytes) -> None:
        """As ever."""
        super().data(chunk)
        if self.ports is not None:
            self.ports.hear(chunk)
