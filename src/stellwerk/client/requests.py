"""How the client asks: one server, which is started when it is first needed, and typed answers."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Self, TypeVar

import msgspec

from stellwerk.client.connection import Answer, Transport, UnreachableError
from stellwerk.client.launch import ensure_server
from stellwerk.client.parts import decode, new_key
from stellwerk.client.refusals import refusal
from stellwerk.config import Settings, load

T = TypeVar("T")


class Requests:
    """A connection to one server, which is started when it is first needed (`start=False`: not)."""

    def __init__(
        self,
        socket: str | None = None,
        *,
        start: bool = True,
        timeout_s: float = 60.0,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or load()
        self._start = start and socket is None
        self._ready = False
        self.tell: Callable[[str], None] | None = None
        """Is told what the caller should know beside the answer: that a server had failed."""
        self.transport = Transport(socket or self.settings.socket, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def twin(self) -> Self:
        """Another client of the same server with connections of its own, for another thread."""
        twin = copy(self)
        twin.transport = Transport(self.transport.path)
        return twin

    def close(self) -> None:
        """Lets go of the connection; the server and its jobs go on."""
        self.transport.close()

    @property
    def ready(self) -> bool:
        """Whether the server has been made sure of once."""
        return self._ready

    def ensure_server(self) -> bool:
        """Starts the server if it isn't running; says whether it had to."""
        self._ready = True
        return ensure_server(self.settings, self.tell) if self._start else False

    def _order(
        self,
        target: str,
        kind: type[T],
        body: object = None,
        *,
        key: str = "",
        timeout_s: float | None = None,
        again: bool = False,
    ) -> T:
        """Sends a command under a key of its own, so that a repeated request is the same.

        With `again` it is repeated once if the connection is cut, as by a server that dies; one is
        started then if need be.
        """
        data, headers = msgspec.json.encode(body or {}), {"Idempotency-Key": key or new_key()}
        try:
            answer = self._send("POST", target, data, timeout_s=timeout_s, headers=headers)
        except UnreachableError as error:
            if not again or isinstance(error.__cause__, TimeoutError):
                raise
            self.ensure_server()
            answer = self._send("POST", target, data, timeout_s=timeout_s, headers=headers)
        return decode(answer.body, kind)

    def _get(self, target: str, kind: type[T]) -> T:
        return decode(self._send("GET", target).body, kind)

    def _post(self, target: str, kind: type[T], body: object, timeout_s: float | None = None) -> T:
        data = msgspec.json.encode(body)
        return decode(self._send("POST", target, data, timeout_s=timeout_s).body, kind)

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        if not self._ready:
            self.ensure_server()
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = content_type
        answer = self.transport.request(method, target, body, sent, timeout_s=timeout_s)
        if answer.status >= 400:
            raise refusal(answer.status, answer.body)
        return answer
