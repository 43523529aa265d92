"""Reads the output of several ranks together: whole lines, each with the rank that it came from.

While a run goes on, each rank is read by a thread with a connection of its own, so a silent rank
holds up none of the others. The output of a run that is over comes one rank after the other.
"""

import contextlib
import queue
import re
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stellwerk.client.api import Client
    from stellwerk.client.streams import LogReader
    from stellwerk.client.wire import Show, Stream

LINES_WAITING = 1_000
LONGEST_LINE = 64 * 1024
ENDS_WITHIN_S = 1.0
LOOK_AGAIN_S = 0.02
_END_OF_LINE = re.compile(rb"\r\n|\n|\r")

Said = tuple[int, bytes] | BaseException | None
"""A line of a rank, why one can't be read any more, or the end of one."""


def ranks_of(show: "Show") -> int:
    """How many ranks a workload has."""
    ranks = int(show.policies.get("ranks") or (show.shape or {}).get("num_nodes", 1))
    full = int(show.policies.get("full_nodes", 0))
    nodes = len(show.runs[-1].nodes) if show.runs else 0
    return max(1, ranks * nodes // full) if full and nodes else ranks


class GangReader:
    """The output of so many ranks from a first one on; going through it again goes on where the
    last time stopped.
    """

    def __init__(
        self,
        client: "Client",
        name: str,
        ranks: int,
        *,
        first: int = 0,
        run: int | Literal["all"] | None = None,
        stream: "Stream" = "all",
        follow: bool = False,
    ) -> None:
        self._client = client
        self._name = name
        self._ranks = range(first, first + ranks)
        self._run = run
        self._stream: Stream = stream
        self._follow = follow
        self._said: queue.Queue[Said] = queue.Queue(LINES_WAITING)
        self._reading = 0
        self._readers: list[LogReader] = []
        self._threads: list[threading.Thread] = []

    def __iter__(self) -> Iterator[bytes]:
        if not self._follow:
            for rank in self._ranks:
                yield from (told(rank, line) for line in self._lines(self._client, rank))
            return
        self._begin()
        while self._reading:
            said = self._said.get()
            if said is None:
                self._reading -= 1
            elif isinstance(said, BaseException):
                self._stop()
                raise said
            else:
                yield told(*said)

    def _begin(self) -> None:
        if self._threads:
            return
        self._reading = len(self._ranks)
        self._threads = [
            threading.Thread(target=self._listen, args=(rank,), daemon=True) for rank in self._ranks
        ]
        for thread in self._threads:
            thread.start()

    def _stop(self) -> None:
        """Ends all threads; what they still have to say isn't waited for."""
        for reader in self._readers:
            reader.stop()
        deadline = time.monotonic() + ENDS_WITHIN_S
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):  # a thread may be waiting for room in the queue
                self._said.get(timeout=LOOK_AGAIN_S)

    def _listen(self, rank: int) -> None:
        client = self._client.twin()
        try:
            for line in self._lines(client, rank):
                self._said.put((rank, line))
        except Exception as error:  # noqa: BLE001 (told in the thread of whoever reads)
            self._said.put(error)
        finally:
            client.close()
        self._said.put(None)

    def _lines(self, client: "Client", rank: int) -> Iterator[bytes]:
        # What setup prints isn't any one rank's: it comes with the first.
        stream = self._stream if rank == 0 else "run"
        if stream == "run" and self._stream == "setup":
            return iter(())
        reader = client.log_reader(
            self._name, run=self._run, rank=rank, stream=stream, follow=self._follow
        )
        self._readers.append(reader)
        return lines_of(iter(reader))


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Cuts bytes into lines; a progress bar that draws over itself gives one for each drawing."""
    rest = b""
    for piece in pieces:
        *lines, rest = _END_OF_LINE.split(rest + piece)
        yield from lines
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def told(rank: int, line: bytes) -> bytes:
    """A line as it is printed."""
    return b"(rank %d) %s\n" % (rank, line)
