"""Dials out to a server: one request over HTTP that becomes a plain stream of bytes both ways.

A token goes over TLS, or to this machine itself, and nowhere else.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

from .files import JSONObject

PROTOCOL = "stellwerk-join/1"
CONNECT_S = 15.0
_MOST_HEAD = 32 * 1024
_MOST_BODY = 16 * 1024 * 1024
_IDLE_S = 30


class Refused(Exception):
    """The server says no: a code for programs, a sentence for people; ``final``: it stays so."""

    def __init__(self, code: str, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.final = final


class Server(NamedTuple):
    """Where a server listens, and what vouches for it: a file of certificates, or the machine's."""

    url: str
    ca: str = ""


def upgrade(server: Server, bearer: str, wish: JSONObject) -> tuple[socket.socket, JSONObject]:
    """A stream to the server and what it says first. Raises Refused, OSError."""
    stream, host, path = _connect(server)
    try:
        _ask(stream, host, f"{path}/join", bearer, wish)
        status, headers = _head(stream)
        if status != 101:
            raise _refusal(status, _body(stream, headers))
        said = json.loads(headers.get("stellwerk-join", "{}"))
    except BaseException:
        stream.close()
        raise
    return stream, said


def fetch(server: Server, name: str) -> bytes:
    """A file of the server's. Raises Refused, OSError."""
    stream, host, path = _connect(server)
    with stream:
        _ask(stream, host, f"{path}/{name}", "", None)
        status, headers = _head(stream)
        body = _body(stream, headers)
        if status != 200:
            raise _refusal(status, body)
        return body


def _connect(server: Server) -> tuple[socket.socket, str, str]:
    parts = urlsplit(server.url)
    secure = parts.scheme == "https"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refused("url", f"`{server.url}` is no address: write https://HOST:PORT", final=True)
    host, port = parts.hostname, parts.port or (443 if secure else 80)
    address = host
    if not secure:
        address = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            message = f"{host} is another machine: a token would travel in clear; use https://"
            raise Refused("in-clear", message, final=True)
    stream: socket.socket = socket.create_connection((address, port), CONNECT_S)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _IDLE_S)
    if secure:
        context = ssl.create_default_context(cafile=server.ca or None)
        try:
            stream = context.wrap_socket(stream, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            message = f"the certificate of {host} isn't trusted ({error.verify_message}); --ca FILE"
            raise Refused("certificate", message, final=True) from error
    return stream, parts.netloc, parts.path.rstrip("/")


def _ask(
    stream: socket.socket, host: str, path: str, bearer: str, wish: Optional[JSONObject]
) -> None:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}"]
    if wish is None:
        lines.append("Connection: close")
    else:
        lines += ["Connection: Upgrade", f"Upgrade: {PROTOCOL}", f"Authorization: Bearer {bearer}"]
        lines.append(f"Stellwerk-Join: {json.dumps(wish)}")
    stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))


def _head(stream: socket.socket) -> tuple[int, dict[str, str]]:
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        byte = stream.recv(1)  # what comes behind belongs to somebody else
        if not byte or len(got) > _MOST_HEAD:
            raise OSError("it hung up before it answered")
        got += byte
    first, *lines = got.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) < 2 or not words[1].isdecimal():
        raise OSError("it doesn't speak HTTP")
    pairs = (line.partition(":") for line in lines if line)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _body(stream: socket.socket, headers: dict[str, str]) -> bytes:
    length = min(int(headers.get("content-length") or 0), _MOST_BODY)
    got = bytearray()
    while len(got) < length:
        block = stream.recv(min(length - len(got), 1 << 16))
        if not block:
            raise OSError("it hung up amid its answer")
        got += block
    return bytes(got)


def _refusal(status: int, body: bytes) -> Refused:
    try:
        told = json.loads(body)
        code, message = str(told["code"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "http", f"the server answered {status}"
    return Refused(code, message, final=status in {400, 401, 403, 409})
