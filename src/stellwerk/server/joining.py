"""Listens for machines that dial in, and lets those in who have a token or a secret of their own.

A small HTTP of its own: `GET /runtime.pyz` gives the runtime, `GET /join` becomes a stream. Without
a certificate only this machine is listened to, so that no token ever travels in clear.
"""

import asyncio
import ipaddress
import json
import logging
import re
import socket
import ssl
from typing import Any, NamedTuple, Protocol

import msgspec

from stellwerk.config import Settings
from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.ssh.joined import JoinedConnection, JoinedDriver, Streams
from stellwerk.server.join_tokens import JoinTokens, Member
from stellwerk.server.sockets import bind_tcp

log = logging.getLogger("stellwerk.server")

PROTOCOL = "stellwerk-join/1"
HEAD_BYTES = 32 * 1024
HEAD_S = 10.0
FOUND_S = 120.0
"""So long a machine may take to fetch the runtime."""
STREAM_BYTES = 1 << 20
MOST_STRANGERS = 200
"""So many connections at once may be of somebody who hasn't shown a token or a secret yet."""
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Wish(msgspec.Struct, frozen=True):
    """What a machine says when it dials in."""

    v: int = 1
    name: str = ""
    machine_id: str = ""
    channel: str = ""


class No(Exception):
    """Somebody isn't let in."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Clusters(Protocol):
    """Where machines that dial in belong."""

    def joined(self, cluster: str) -> JoinedDriver | None:
        """The driver of a cluster whose machines dial in."""
        ...

    async def keep_member(self, cluster: str, node: str) -> None:
        """Notes that a cluster has a machine of this name."""
        ...


class Address(NamedTuple):
    """Where it is listened, and with which certificate."""

    listen: str
    cert: str = ""
    key: str = ""

    @classmethod
    def of(cls, settings: Settings) -> "Address | None":
        """As the settings say; None where nobody may dial in. Raises StellwerkError."""
        listen, cert, key = (settings.text(f"join_{name}") for name in ("listen", "cert", "key"))
        if not listen:
            return None
        if bool(cert) != bool(key):
            message = "`join_cert` and `join_key` belong together, and one is missing"
            raise StellwerkError.of("config/join", message, "give both, or none")
        if not cert and not is_loopback(listen):
            message = f"`join_listen` is {listen}, and tokens would travel there in clear"
            remedy = "give `join_cert` and `join_key`, or listen on 127.0.0.1:PORT"
            raise StellwerkError.of("config/join", message, remedy)
        return cls(listen, cert, key)


def is_loopback(listen: str) -> bool:
    """Whether an address is one of this machine alone."""
    host = listen.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Doorman:
    """Lets machines in."""

    def __init__(self, clusters: Clusters, tokens: JoinTokens, now_ms: Any) -> None:
        self._clusters = clusters
        self._tokens = tokens
        self._now_ms = now_ms
        self._runtime = b""
        self._bound: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None
        self._strangers: set[asyncio.Task[None]] = set()
        self._visits: set[asyncio.Task[None]] = set()

    async def listen(self, address: Address) -> str:
        """Begins to listen; gives the address. Raises StellwerkError."""
        context = _context(address) if address.cert else None
        self._bound = bind_tcp(address.listen)
        self._bound.setblocking(False)
        self._bound.listen(MOST_STRANGERS)
        host, port = self._bound.getsockname()[:2]
        self._listening = asyncio.create_task(
            self._accept_all(self._bound, context), name="doorman"
        )
        return f"{host}:{port}"

    def close(self) -> None:
        """Listens no more."""
        if self._listening is not None and self._bound is not None:
            self._listening.cancel()
            self._bound.close()

    async def _accept_all(self, bound: socket.socket, context: ssl.SSLContext | None) -> None:
        """Strangers can't use up what the whole server may have open: beyond a number they are
        hung up on. Machines dial again.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(bound)
            except OSError as error:
                log.warning("nobody can dial in for a moment: %s", error)
                await asyncio.sleep(1.0)
                continue
            if len(self._strangers) >= MOST_STRANGERS:
                connection.close()
                continue
            visit = asyncio.create_task(self._receive(connection, context), name="visit")
            for visits in (self._strangers, self._visits):
                visits.add(visit)
                visit.add_done_callback(visits.discard)

    def _is_known(self) -> None:
        """Whoever is spoken with now has shown who they are."""
        visit = asyncio.current_task()
        self._strangers -= {visit} if visit is not None else set()

    async def _receive(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=STREAM_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=context,
                ssl_handshake_timeout=HEAD_S if context else None,
            )
        except OSError:
            connection.close()  # that was no TLS, or took too long
            return
        await self._meet(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head, (reader, writer))
        except No as no:
            body = json.dumps({"code": no.code, "message": no.message}).encode()
            await _say(writer, no.status, body)
        except (OSError, ValueError, EOFError, RecursionError, asyncio.LimitOverrunError):
            writer.close()  # whoever that was can try again
        except Exception:
            log.exception("somebody who dialled in could not be answered")
            writer.close()

    async def _answer(self, head: bytes, streams: Streams) -> None:
        method, path, headers = _parsed(head)
        if method == "GET" and path == "/runtime.pyz":
            if not self._runtime:
                from stellwerk.runtime.bundle import packed

                self._runtime = packed()
            await _say(streams[1], 200, self._runtime, "application/octet-stream")
            return
        if method != "GET" or path != "/join" or headers.get("upgrade") != PROTOCOL:
            raise No(404, "not-here", "there is nothing at this address but machines that join")
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        try:
            wish = msgspec.json.decode(headers.get("stellwerk-join", ""), type=Wish)
        except (msgspec.DecodeError, RecursionError) as error:
            raise No(400, "bad-request", f"what it wants can't be read: {error}") from error
        if wish.channel:
            await self._channel(wish, bearer, streams)
        else:
            await self._join(wish, bearer, streams)

    async def _channel(self, wish: Wish, bearer: str, streams: Streams) -> None:
        member = self._tokens.member_of(bearer)
        driver = self._clusters.joined(member.cluster) if member is not None else None
        if driver is None:
            raise _not_wanted()
        self._is_known()
        await _switch(streams[1], {})
        if not driver.waiting.brings(wish.channel, streams):
            streams[1].close()

    async def _join(self, wish: Wish, bearer: str, streams: Streams) -> None:
        member, secret = await self._admit(wish, bearer)
        driver = self._clusters.joined(member.cluster)
        if driver is None:
            raise _not_wanted()
        self._is_known()
        told: dict[str, Any] = {
            "node": member.node,
            "key": driver.key,
            "runtime": driver.build.digest,
        }
        await _switch(streams[1], told | ({"secret": secret} if secret else {}))
        async with asyncio.timeout(FOUND_S):
            found = json.loads(await streams[0].readline() or b"{}")
        if not isinstance(found, dict) or "home" not in found:
            raise asyncio.IncompleteReadError(b"", 1)
        _keep_alive(streams[1])
        log.info("%s of %s has dialled in", member.node, member.cluster)
        driver.arrived(member.node, JoinedConnection(streams, found, driver.waiting))

    async def _admit(self, wish: Wish, bearer: str) -> tuple[Member, str]:
        """The machine that this is, and the secret that it is given if it is new."""
        member = self._tokens.member_of(bearer)
        if member is not None:
            if member.machine_id != wish.machine_id:
                raise No(403, "another-machine", f"this secret belongs to {member.node}")
            return member, ""
        now_ms = self._now_ms()
        token = self._tokens.token_of(bearer, now_ms)
        if token is None:
            raise _not_wanted()
        if _NODE.fullmatch(wish.name) is None:
            raise No(400, "name", f"`{wish.name[:80]}` can't be a node's name: --name NAME")
        secret = await self._tokens.join(token.cluster, wish.name, wish.machine_id, now_ms)
        if not secret:
            message = f"{token.cluster} has another machine `{wish.name}`: --name NAME"
            raise No(409, "name", message)
        await self._clusters.keep_member(token.cluster, wish.name)
        return Member(token.cluster, wish.name, wish.machine_id, "", now_ms), secret


def _not_wanted() -> No:
    message = "this token isn't valid (any more): `stw cluster token` makes one"
    return No(401, "token", message)


def _context(address: Address) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(address.cert, address.key)
    except (OSError, ssl.SSLError) as error:
        message = f"`join_cert` and `join_key` can't be used: {error}"
        raise StellwerkError.of("config/join", message, "name files in PEM that fit") from error
    return context


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    if len(head) > HEAD_BYTES:
        raise No(400, "bad-request", "that is too much")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise No(400, "bad-request", "that is no HTTP")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return words[0], "/" + words[1].rpartition("/")[2], headers


async def _switch(writer: asyncio.StreamWriter, told: dict[str, Any]) -> None:
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {PROTOCOL}"]
    lines.append(f"Stellwerk-Join: {json.dumps(told)}")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    await writer.drain()


async def _say(
    writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json"
) -> None:
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode("ascii") + body)
    writer.close()
    try:
        async with asyncio.timeout(FOUND_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):  # who reads too slowly can't hold on for ever
        writer.transport.abort()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A machine that is gone without a word is noticed within two minutes."""
    bound = writer.get_extra_info("socket")
    if bound is None:
        return
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
