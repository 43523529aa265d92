"""Binds the sockets before anything listens on them, so that no moment leaves them open to others.

The Unix socket is 0600 in a folder of its user's own (0660 in a folder of the group where a group
is named); a TCP address is only opened together with a token file that nobody else can read.
"""

import contextlib
import grp
import os
import secrets
import socket
import stat

from stellwerk.core.model.errors import StellwerkError

LONGEST_PATH = 107
"""Bytes that the kernel takes as the path of a Unix socket."""


def bind_unix(path: str, group: str = "") -> socket.socket:
    """Makes the socket's folder and binds the socket with its final mode; it doesn't listen yet."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise StellwerkError.of(
            "server/socket",
            f"the path of the socket is too long: {path}",
            f"set STELLWERK_SOCKET to a path of at most {LONGEST_PATH} bytes",
        )
    gid = _group_id(group) if group else -1
    _make_folder(os.path.dirname(path), gid)
    _remove_leftover(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        bound.bind(path)
        if group:
            os.chown(path, -1, gid)
            os.chmod(path, 0o660)
    except OSError as error:
        bound.close()
        raise StellwerkError.of(
            "server/socket",
            f"the socket {path} can't be made: {error.strerror}",
            "set STELLWERK_SOCKET to a path in a folder of your own",
        ) from error
    finally:
        os.umask(mask)
    return bound


def bind_tcp(address: str) -> socket.socket:
    """Binds `HOST:PORT` (`[::1]:7070` for IPv6)."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise StellwerkError.of(
            "server/listen", f"`{address}` is no address to listen on", "write HOST:PORT"
        )
    try:
        family, kind, proto, _, place = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as undo:
            bound = undo.enter_context(socket.socket(family, kind, proto))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(place)
            undo.pop_all()
    except OSError as error:
        raise StellwerkError.of(
            "server/listen",
            f"{address} can't be listened on: {error.strerror}",
            "choose another port with --listen HOST:PORT",
        ) from error
    return bound


def read_or_make_token(path: str) -> str:
    """The server's token: made once, in a file that only its user can read."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(path)
    token = secrets.token_urlsafe(32)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _read_token(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        mode = os.fstat(file.fileno()).st_mode
        token = file.read().strip()
    if mode & 0o077:
        raise StellwerkError.of(
            "server/token",
            f"the token file {path} can be read by others",
            f"remove it and start the server again, or: chmod 600 {path}",
        )
    if len(token) < 20:
        raise StellwerkError.of(
            "server/token",
            f"the token in {path} is too short to be safe",
            "remove the file; the server makes a new one",
        )
    return token


def _group_id(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise StellwerkError.of(
            "server/socket",
            f"this machine has no group `{group}`",
            "name one that `getent group` lists",
        ) from None


def _make_folder(folder: str, gid: int) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as error:
        raise StellwerkError.of(
            "server/socket",
            f"the folder {folder} can't be made: {error.strerror}",
            "set STELLWERK_SOCKET to a path in a folder of your own",
        ) from error
    others = 0o007 if gid >= 0 else 0o077
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if own and gid >= 0:
        _give_to_group(folder, gid)
    elif own and found.st_mode & others:
        own = not found.st_mode & 0o022
    if not own:
        raise StellwerkError.of(
            "server/socket",
            f"the folder {folder} belongs to others or can be written by them",
            "set STELLWERK_SOCKET to a path in a folder of your own",
        )


def _give_to_group(folder: str, gid: int) -> None:
    try:
        os.chown(folder, -1, gid)
        os.chmod(folder, 0o750)  # noqa: S103 (that is what a group was named for)
    except PermissionError as error:
        raise StellwerkError.of(
            "server/socket",
            f"{folder} can't be given to the group: this user is no member of it",
            "name a group of yours, or have yourself added to it and log in again",
        ) from error


def _remove_leftover(path: str) -> None:
    """A socket nobody listens on is what a killed server left; anything else stays."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StellwerkError.of(
            "server/socket", f"{path} is in the way and is no socket", "remove it"
        )
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(1)
    try:
        probe.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except OSError as error:
        raise StellwerkError.of(
            "server/socket", f"{path} is in use: {error}", "stop what listens there"
        ) from error
    else:
        raise StellwerkError.of(
            "server/running",
            f"another server already answers at {path}",
            "use it, or set STELLWERK_SOCKET to another path",
        )
    finally:
        probe.close()
