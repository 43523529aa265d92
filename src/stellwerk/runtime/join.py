"""Joins this machine to a server that can't dial in: it dials out, and again after breaks.

At the end of the connection stands a hand, as at the end of any other (`hand.py`). A token is used
once: with it the machine gets a secret of its own, which lies with all else in its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import select
import socket
import ssl
import subprocess
import sys
import time
from typing import Any, Optional

from .dialing import Refused, Server, fetch, upgrade
from .files import JSONObject
from .system import boot_id, file_system_type, is_network_file_system, machine_id, make_own, now_ms

RETRY_FIRST_S = 0.5
RETRY_MOST_S = 60.0
LASTED_S = 30.0
FILE = "join.json"
_BLOCK = 256 * 1024
_MOST_WAITING = 1 << 20
_LOOK_S = 60.0
_NO_PERMISSION = 77
_USAGE = 64


class Joined:
    """A machine that has joined a server, or is about to."""

    def __init__(self, server: Server, bearer: str, name: str, home: str, folder: str) -> None:
        self._server = server
        self._bearer = bearer
        self._name = name
        self._home = home
        self._folder = folder

    def stay(self) -> int:
        """Dials again and again, until the server says that this machine isn't wanted."""
        delay = RETRY_FIRST_S
        while True:
            begun = time.monotonic()
            try:
                self._once()
                _say(f"the connection to {self._server.url} ended")
            except Refused as refusal:
                if refusal.code == "token" and self._is_renewed():
                    continue
                _say(f"error[join/{refusal.code}]  {refusal.message}")
                if refusal.final:
                    return _NO_PERMISSION
            except (OSError, ValueError) as error:
                _say(f"{self._server.url} can't be reached: {error}")
            if time.monotonic() - begun > LASTED_S:
                delay = RETRY_FIRST_S
            time.sleep(delay * random.uniform(0.7, 1.0))  # noqa: S311 - no secret
            delay = min(delay * 2, RETRY_MOST_S)

    def _is_renewed(self) -> bool:
        """Whether another one that joined for this folder meanwhile has left a newer secret."""
        kept = {}
        path = os.path.join(self._home, FILE)
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            kept = json.load(file)
        before, self._bearer = self._bearer, str(kept.get("secret") or self._bearer)
        return self._bearer != before

    def _once(self) -> None:
        wish = {"v": 1, "name": self._name, "machine_id": machine_id() or os.uname().nodename}
        stream, said = upgrade(self._server, self._bearer, wish)
        with stream:
            self._settle(said)
            build = _build(self._home, str(said["runtime"]), self._server)
            stream.sendall(json.dumps(_found(self._home)).encode("ascii") + b"\n")
            _say(f"{self._name} is joined to {self._server.url}")
            carry(stream, [sys.executable, "-I", "-S", build, "hand", "--home", self._home])

    def _settle(self, said: JSONObject) -> None:
        """Keeps what a first answer gives: where things lie here, and the secret."""
        self._name = str(said["node"])
        if not self._home:
            self._home = home_of(str(said["key"]), self._folder)
        os.makedirs(self._home, mode=0o700, exist_ok=True)
        if said.get("secret"):
            self._bearer = str(said["secret"])
        kept = {"url": self._server.url, "ca": self._server.ca, "name": self._name}
        write_private(os.path.join(self._home, FILE), {**kept, "secret": self._bearer})
        _only_one(self._home)


def carry(stream: socket.socket, command: list[str]) -> None:
    """Runs a command whose input and output are a stream, until either ends."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        _carry(stream, child.stdin.fileno(), child.stdout.fileno())
    finally:
        child.stdin.close()  # type: ignore[union-attr]
        child.stdout.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(5.0)
        if child.poll() is None:
            child.kill()
            child.wait()


def _carry(stream: socket.socket, down: int, up: int) -> None:
    """One thread for both ways, since TLS allows no two."""
    stream.setblocking(False)
    for fd in (down, up):
        os.set_blocking(fd, False)
    to_child, to_server = bytearray(), bytearray()
    while True:
        reads: list[Any] = [stream] if len(to_child) < _MOST_WAITING else []
        pipes = [up] if len(to_server) < _MOST_WAITING else []
        hidden = bool(reads) and isinstance(stream, ssl.SSLSocket) and stream.pending() > 0
        writes: list[Any] = [down] if to_child else []
        writes += [stream] if to_server else []
        ready = select.select([*reads, *pipes], writes, [], 0 if hidden else _LOOK_S)
        if stream in ready[0] or hidden:
            block = _received(stream)
            if block == b"":
                return
            to_child += block or b""
        if up in ready[0]:
            block = os.read(up, _BLOCK)
            if not block:
                return
            to_server += block
        if to_child:
            del to_child[: _written(down, to_child)]
        if to_server:
            del to_server[: _sent(stream, to_server)]


def _received(stream: socket.socket) -> Optional[bytes]:
    try:
        return stream.recv(_BLOCK)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None


def _sent(stream: socket.socket, data: bytearray) -> int:
    try:
        return stream.send(data[:_BLOCK])
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0


def _written(fd: int, data: bytearray) -> int:
    try:
        return os.write(fd, data[:_BLOCK])
    except BlockingIOError:
        return 0


def home_of(key: str, folder: str = "") -> str:
    """Where everything lies here: on a local disk, apart by machine and by server."""
    if folder:
        return os.path.abspath(folder)
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    machine = (machine_id() or os.uname().nodename)[:12]
    tops = [os.path.join(state, "stellwerk"), f"/var/tmp/stellwerk-{os.getuid()}"]  # noqa: S108
    for top in tops:
        if not is_network_file_system(file_system_type(top)):
            if top == tops[1]:
                make_own(top)
            return os.path.join(top, machine, key)
    places = " and ".join(tops)
    message = f"{places} lie on network file systems: name a folder on a local disk, --folder"
    raise Refused("no-local-disk", message, final=True)


def _no_programs_in(place: str) -> str:
    """A folder in which nothing can be started; "" where that can be, or isn't known."""
    try:
        return place if os.statvfs(place).f_flag & os.ST_NOEXEC else ""
    except OSError:
        return ""


def _found(home: str) -> JSONObject:
    return {
        "home": home,
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "no_exec": bool(os.statvfs(home).f_flag & os.ST_NOEXEC),
        "tmp_no_exec": _no_programs_in(os.environ.get("TMPDIR") or "/tmp"),  # noqa: S108
        "now_ms": now_ms(),
        "machine_id": machine_id() or os.uname().nodename,
        "boot_id": boot_id(),
    }


def _build(home: str, digest: str, server: Server) -> str:
    """The runtime's file that the server works with: this one, or fetched from there."""
    folder = os.path.join(home, "runtime")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"runtime-{digest[:12]}.pyz")
    if _digest_of(path) == digest:
        return path
    own = os.path.abspath(sys.argv[0])
    content = b""
    if _digest_of(own) == digest:
        with open(own, "rb") as file:
            content = file.read()
    else:
        content = fetch(server, "runtime.pyz")
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError("the runtime arrived damaged")
    draft = f"{path}.{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(content)
    os.rename(draft, path)
    return path


def _digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def write_private(path: str, content: JSONObject) -> None:
    """Writes a file that only its user can read, all of it or nothing."""
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    os.rename(draft, path)


_LOCKS: dict[str, int] = {}


def _only_one(home: str) -> None:
    """Keeps a second one from dialling for the same folder."""
    if home in _LOCKS:
        return
    lock = os.open(os.path.join(home, "join.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        message = f"another one dials for {home} already"
        raise Refused("running", message, final=True) from error
    _LOCKS[home] = lock


def _say(line: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}", file=sys.stderr, flush=True)


def join(url: str, token: str, *, name: str, folder: str, ca: str, home: str) -> int:
    """Joins and stays joined; with `home` as before. The exit status."""
    try:
        if home:
            with open(os.path.join(home, FILE), encoding="utf-8") as file:
                kept = json.load(file)
            server = Server(str(kept["url"]), str(kept.get("ca") or ""))
            return Joined(server, str(kept["secret"]), str(kept["name"]), home, folder).stay()
        if not url or not token:
            _say("error[join/token]  give the address, and a token: `stw cluster token` makes one")
            return _USAGE
        server = Server(url, os.path.abspath(ca) if ca else "")
        return Joined(server, token, name or os.uname().nodename, "", folder).stay()
    except (OSError, ValueError, KeyError) as error:
        _say(f"error[join/folder]  what is known of the join in {home} can't be read: {error}")
        return _USAGE


def channel(home: str, number: str) -> int:
    """Gives the server one more stream, which is joined to the agent."""
    with open(os.path.join(home, FILE), encoding="utf-8") as file:
        kept = json.load(file)
    server = Server(str(kept["url"]), str(kept.get("ca") or ""))
    stream, _ = upgrade(server, str(kept["secret"]), {"v": 1, "channel": number})
    with stream:
        carry(
            stream,
            [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "relay", "--home", home],
        )
    return 0
