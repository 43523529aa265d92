"""Knows who calls: the kernel's word on the Unix socket, a token everywhere else.

On the Unix socket `SO_PEERCRED` names the calling process and its user; only the server's own user
or root may change anything, since all jobs run as that user. Where the socket is opened to a group,
its members may look. Over TCP whoever holds the token is the server's own user.
"""

import hmac
import os
import pwd
import socket
import struct
from asyncio import BaseTransport, Transport
from functools import lru_cache
from typing import Any, cast

import h11
import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from uvicorn.protocols.http.h11_impl import H11Protocol

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.server.rules import MEDIA_TYPE, refusal

Connection = ASGIConnection[Any, Any, Any, Any]

SILENT_S = 30.0
"""How long a new connection may take to send its first request."""

_UCRED = struct.Struct("3i")


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end of a Unix socket."""

    uid: int
    pid: int


class Access(msgspec.Struct, frozen=True):
    """Who may call; an empty token closes TCP altogether."""

    uid: int
    token: str = ""


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
        status, body = refusal(Problem("request/http", msg, "speak HTTP/1.1"))
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


@lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """A user's name, or `uid-1234` where the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def authorize(connection: Connection, handler: BaseRouteHandler) -> None:
    """A guard for every address: raises, or leaves the actor's name in the request's state."""
    access: Access = connection.app.state.access
    peer: Peer | None = connection.scope["state"].get("peer")
    if peer is None:
        _check_token(connection, access)
        connection.scope["state"]["actor"] = user_name(access.uid)
        return
    if peer.uid not in (access.uid, 0) and not handler.opt.get("open_to_group", False):
        raise StellwerkError.of(
            "auth/not-yours",
            f"{user_name(peer.uid)} may look at this server, no more",
            f"it runs everything as {user_name(access.uid)}; start a server of your own",
        )
    # A caller that is root by `sudo` or in a container acts on what belongs to the server's user.
    connection.scope["state"]["actor"] = user_name(peer.uid)


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


def own_uid() -> int:
    """The user this process works for."""
    return os.geteuid()
