"""Knows who calls: the kernel's word on the Unix socket, a token everywhere else.

On the Unix socket `SO_PEERCRED` names the calling process and its user. What they may do is the
rule of each address (`permissions.py`, `policy.py`). Over TCP whoever holds the token is the
server's own user.
"""

import hmac
import os
import socket
import struct
from asyncio import BaseTransport, Transport
from collections.abc import Mapping
from typing import Any, cast

import h11
import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from uvicorn.protocols.http.h11_impl import H11Protocol

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.server.people import People, alone, refusal, user_name
from stellwerk.server.permissions import rule_of_address
from stellwerk.server.policy import Refused, Thing, may
from stellwerk.server.rules import MEDIA_TYPE
from stellwerk.server.rules import refusal as answer_of

Connection = ASGIConnection[Any, Any, Any, Any]

SILENT_S = 30.0
"""How long a new connection may take to send its first request."""

_UCRED = struct.Struct("3i")


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end of a Unix socket."""

    uid: int
    pid: int


class Access(msgspec.Struct, frozen=True):
    """Who may call; an empty token closes TCP altogether. Without ``people`` it is one's own."""

    uid: int
    token: str = ""
    people: People | None = None


class PeerProtocol(H11Protocol):
    """Puts the peer of a Unix socket into the state of every request of the connection."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Asks the kernel once per connection; one that stays silent is closed."""
        super().connection_made(cast(Transport, transport))
        self.app_state = {**self.app_state, "peer": peer_of(transport.get_extra_info("socket"))}
        self.loop.call_later(SILENT_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        never_spoke = cast("object | None", self.scope) is None
        if never_spoke and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no HTTP in the same form as everything else."""
        status, body = answer_of(Problem("request/http", msg, "speak HTTP/1.1"))
        head = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        response = h11.Response(status_code=status, headers=head, reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def peer_of(connection: socket.socket | None) -> Peer | None:
    """Who is at the other end; None if it isn't a Unix socket."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(packed)
    return Peer(uid=uid, pid=pid)


async def authorize(connection: Connection, _handler: BaseRouteHandler) -> None:
    """A guard for every address: raises, or leaves who calls in the request's state."""
    access: Access = connection.app.state.access
    people = access.people or alone(access.uid)
    peer: Peer | None = connection.scope["state"].get("peer")
    if peer is None:
        _check_token(connection, access)
    caller = people.caller(access.uid if peer is None else peer.uid)
    connection.scope["state"]["actor"] = caller.actor.name
    connection.scope["state"]["caller"] = caller
    connection.scope["state"]["people"] = people
    if not people.shared and peer is not None and peer.uid not in {access.uid, 0}:
        raise StellwerkError.of(
            "auth/not-yours",
            f"this server is {people.owner}'s alone, and runs everything as {people.owner}",
            "start a server of your own, or have this one shared: stw server start --group GROUP",
        )
    if caller.actor.is_root:
        return
    rule = rule_of_address(*address_of(connection))
    if rule is None:
        raise StellwerkError.of(
            "auth/no-rule", "this address isn't for everybody", "ask an administrator"
        )
    if rule.within:
        return
    try:
        thing = await connection.app.state.find_thing(rule, connection.path_params)
    except StellwerkError:
        if people.policy.visibility != "own" or rule.kind != "workload":
            raise
        thing = Thing("workload", str(connection.path_params.get("ref", ""))[:80])
    verdict = may(caller.actor, rule.verb, thing, people.policy)
    if isinstance(verdict, Refused):
        raise refusal(verdict)


def address_of(connection: Connection) -> tuple[str, str]:
    """The method and the template of an address: `GET`, `/v1/workloads/{ref}`."""
    scope: Mapping[str, Any] = cast("Mapping[str, Any]", connection.scope)
    return str(scope.get("method", "")), str(scope["path_template"])


def _check_token(connection: Connection, access: Access) -> None:
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    known = access.token.encode()
    right = hmac.compare_digest(given.strip().encode(), known)
    if not (known and right and scheme.lower() == "bearer"):
        raise StellwerkError.of(
            "auth/token",
            "this address needs the server's token",
            "send `Authorization: Bearer …` with the text of the server's token file",
        )


__all__ = ["Access", "Peer", "PeerProtocol", "authorize", "own_uid", "peer_of", "user_name"]


def own_uid() -> int:
    """The user this process works for."""
    return os.geteuid()
