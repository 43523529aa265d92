"""Reads answers that come over time, and goes on where it was when the server is replaced.

A cut connection isn't an end: the server may have been restarted under a running job. It is asked
again from the byte or event that came last, and given up after a bounded time without progress.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import msgspec

from stellwerk.client.connection import CutOffError, Stream, UnreachableError, unreachable_because
from stellwerk.client.refusals import refusal
from stellwerk.client.wire import EventRecord

if TYPE_CHECKING:
    from stellwerk.client.api import Client

GIVE_UP_S = 30.0
AGAIN_S = 0.05
HELD_S = 5.0


class _Stoppable:
    """What reads a stream in one thread and may be stopped from another, even while it waits."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._stream: Stream | None = None
        self._stopped = False

    def stop(self) -> None:
        """Ends the iteration."""
        self._stopped = True
        if self._stream is not None:
            self._stream.interrupt()

    def _open(self, target: str, headers: dict[str, str] | None = None) -> Stream:
        self._stream = open_stream(self._client, target, headers)
        if self._stopped:
            self._stream.interrupt()
        return self._stream

    def _retry_after(self, error: Exception, retry: "Retry") -> None:
        if not self._stopped:
            retry.pause(error)
        if not self._stopped:
            retry.again()


class LogReader(_Stoppable):
    """The output of a run, of the newest one (None), or of all runs one after the other.

    Going through it again goes on where the last time stopped.
    """

    def __init__(
        self,
        client: "Client",
        name: str,
        run: int | str | None,
        rank: int,
        stream: str,
        *,
        follow: bool,
        offset: int = 0,
    ) -> None:
        super().__init__(client)
        self._name = name
        self._query = {"rank": str(rank), "stream": stream, "follow": "1" if follow else "0"}
        if run is not None:
            self._query["run"] = str(run)
        self._run = run
        self._follow = follow
        self.offset = offset

    def __iter__(self) -> Iterator[bytes]:
        retry = Retry(self._client)
        while not self._stopped:
            try:
                with self._open(self._target()) as stream:
                    for data in stream:
                        self.offset += len(data)
                        retry.progressed()
                        yield data
                if not self._follow or self._is_over():
                    return
                raise CutOffError("the server ended the stream before the run was over")
            except (CutOffError, UnreachableError) as error:
                self._retry_after(error, retry)

    def _is_over(self) -> bool:
        """Whether what is followed has ended: a stream also ends when the server is stopped."""
        show = self._client.get(self._name)
        if show.ended or self._run == "all":
            return show.ended
        runs = [run for run in show.runs if self._run in (None, run.number)]
        return bool(runs) and runs[-1].phase == "Ended"

    def _target(self) -> str:
        query = urlencode({**self._query, "offset": self.offset})
        return f"/v1/workloads/{quote(self._name, safe='')}/logs?{query}"


class EventReader(_Stoppable):
    """The journal as it grows, until it is stopped: no event comes twice, none is left out."""

    def __init__(self, client: "Client", after: int, workload: str | None) -> None:
        super().__init__(client)
        self._after = after
        self._query = {"follow": "1"} | ({"workload": workload} if workload else {})

    def __iter__(self) -> Iterator[EventRecord]:
        retry = Retry(self._client)
        while not self._stopped:
            try:
                with self._open(self._target(), self._headers()) as stream:
                    for record in read_events(stream):
                        if record.seq > self._after:
                            self._after = record.seq
                            retry.progressed()
                            yield record
                raise CutOffError("the server ended the stream")
            except (CutOffError, UnreachableError) as error:
                self._retry_after(error, retry)

    def _target(self) -> str:
        return f"/v1/events?{urlencode({**self._query, 'after': self._after})}"

    def _headers(self) -> dict[str, str]:
        return {"Last-Event-ID": str(self._after), "Accept": "text/event-stream"}


def read_events(chunks: Iterator[bytes] | Stream) -> Iterator[EventRecord]:
    """Cuts a server-sent event stream into records; comments and other fields are left out."""
    buffer = b""
    data: list[bytes] = []
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].lstrip(b" "))
            elif not line and data:
                yield msgspec.json.decode(b"\n".join(data), type=EventRecord)
                data.clear()


def open_stream(client: "Client", target: str, headers: dict[str, str] | None = None) -> Stream:
    """Opens a stream, or raises what the server refuses."""
    if not client.ready:
        client.ensure_server()
    stream = client.transport.stream(target, headers)
    if stream.status >= 400:
        with stream:
            raise refusal(stream.status, b"".join(stream))
    return stream


class Retry:
    """Waits between tries, and gives up when nothing has held for a while."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._failing_since: float | None = None
        self._tried_at = time.monotonic()

    def progressed(self) -> None:
        """Something came: the next failure is a first one."""
        self._failing_since = None

    def wait(self, error: Exception) -> None:
        """Waits a little and makes sure of the server; raises when that has gone on too long."""
        self.pause(error)
        self.again()

    def pause(self, error: Exception) -> None:
        """Waits a little; raises when tries have failed for too long.

        A connection that held for some seconds was a good one, even if nothing came over it.
        """
        now = time.monotonic()
        if self._failing_since is None or now - self._tried_at > HELD_S:
            self._failing_since = now
        elif now - self._failing_since > GIVE_UP_S:
            if isinstance(error, UnreachableError):
                raise error
            raise unreachable_because(
                "server/cut-off",
                f"the connection was cut again and again for {GIVE_UP_S:g} s",
                "see what the server does: stw server logs",
            ) from error
        time.sleep(AGAIN_S)

    def again(self) -> None:
        """Makes sure of the server for the next try."""
        self._client.ensure_server()
        self._tried_at = time.monotonic()
