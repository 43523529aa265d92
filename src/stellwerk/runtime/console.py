"""Finds out whether somebody sits at this machine, and decides when they count as gone.

Somebody sits there whose session logind shows on a seat: of a person (no greeter, no service), in
front, and not from another machine. Where logind doesn't run, the file of logins tells of
terminals of the machine. Needs no rights and no package: these files are for everybody to read.
"""

from __future__ import annotations

import os
import re
import struct
from typing import NamedTuple, Optional

TREE_ENV = "STELLWERK_LOGIND_FOLDER"
LOGIND = "/run/systemd"
UTMP = "/run/utmp"
_MOST_BYTES = 65_536
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RECORD = struct.Struct("<h2xi32s4s32s256shhiii16s20s")
_USER_PROCESS = 7
_TERMINAL = re.compile(r"tty[0-9]+|:[0-9]+")


class Seen(NamedTuple):
    """What was seen: ``by`` is who told (`logind`, `utmp`; "" = nobody can), and what is there."""

    taken: bool
    by: str
    kind: str = ""
    """What the person sits at: `x11`, `wayland`, `tty`."""


def look(tree: str = LOGIND, utmp: str = UTMP) -> Seen:
    """Whether somebody sits there now."""
    try:
        seats = sorted(os.listdir(os.path.join(tree, "seats")))
    except OSError:
        seats = []
    for seat in seats:
        kind = _in_front(tree, seat)
        if kind:
            return Seen(True, "logind", kind)
    return Seen(False, "logind") if seats else _by_utmp(utmp)


def _in_front(tree: str, seat: str) -> str:
    """What the session in front of a seat is, if it is a person's."""
    active = _fields(os.path.join(tree, "seats", seat)).get("ACTIVE", "")
    if _SESSION.fullmatch(active) is None:
        return ""
    session = _fields(os.path.join(tree, "sessions", active))
    of_person = session.get("CLASS", "").partition("-")[0] == "user"
    here = session.get("REMOTE", "0") == "0" and session.get("STATE") == "active"
    return session.get("TYPE", "") or "session" if of_person and here else ""


def _fields(path: str) -> dict[str, str]:
    """The `NAME=value` lines of a file; none of one that is gone or not to be read."""
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    parts = (line.partition("=") for line in text.split("\n"))
    return {name: value for name, sign, value in parts if sign}


def _by_utmp(path: str) -> Seen:
    try:
        with open(path, "rb") as file:
            content = file.read(16 * _MOST_BYTES)
    except OSError:
        return Seen(False, "")
    if len(content) % _RECORD.size:
        return Seen(False, "")
    for kind, pid, line, _, _, host, *_ in _RECORD.iter_unpack(content):
        terminal, start = _text(line), _text(host)
        if kind != _USER_PROCESS or _TERMINAL.fullmatch(terminal) is None:
            continue
        here = not start or start.startswith(":")
        # What ended without a word stays in the file.
        if here and os.path.exists(f"/proc/{pid}"):
            return Seen(True, "utmp", "x11" if terminal.startswith(":") else "tty")
    return Seen(False, "utmp")


def _text(value: bytes) -> str:
    return value.partition(b"\0")[0].decode("ascii", "replace")


class Presence:
    """Taken at once, free only after nobody was there for a while: who goes for a coffee, or logs
    in and out, doesn't have work come and go.
    """

    def __init__(self, quiet_ms: int) -> None:
        self.quiet_ms = quiet_ms
        self.taken = False
        self._last_seen_ms: Optional[int] = None

    def saw(self, there: bool, now_ms: int) -> bool:
        """Takes in what was seen at a moment; True if the machine changed hands."""
        if there:
            self._last_seen_ms = now_ms
            changed, self.taken = not self.taken, True
            return changed
        gone_since = self._last_seen_ms
        if self.taken and gone_since is not None and now_ms - gone_since >= self.quiet_ms:
            self.taken = False
            return True
        return False
