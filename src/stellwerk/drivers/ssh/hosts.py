"""Reads how a machine is named: `user@host:port`, or a name from the user's SSH configuration.

Behind it may stand where it is in its room: `pc01 switch=sw1 rack=r2`, and what follows when
somebody sits down at it: `console=notice quiet=10m`.
"""

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.errors import Problem, StellwerkError

Console = Literal["", "ignore", "notice"]
_CONSOLES: tuple[Console, ...] = ("ignore", "notice")
_QUIET = re.compile(r"([0-9]{1,4})(s|m|h)")
_MS = {"s": 1000, "m": 60_000, "h": 3_600_000}
_MOST_QUIET_MS = 86_400_000
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:%-]{0,252}")


class Host(Struct, frozen=True, omit_defaults=True):
    """One machine. ``host`` is an address or a name of the SSH configuration, which gives what is
    missing here.

    ``python`` is the interpreter to use there ("" = found), ``folder`` where everything lies there
    ("" = found), ``node`` its name as a node, ``identity_file`` the key that opens
    it ("" = those of the SSH configuration). ``domains`` says where it stands, by level.

    ``console`` is what follows when somebody sits down at it ("" = in a room notice, else nothing),
    and ``quiet_ms`` for how long nobody must have been there until it is used again (0 = the
    runtime's ten minutes).
    """

    host: str
    user: str = ""
    port: int = 0
    python: str = ""
    folder: str = ""
    node: str = ""
    identity_file: str = ""
    domains: dict[str, str] = {}
    console: Console = ""
    quiet_ms: int = 0

    def __str__(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return (
            (f"{self.user}@" if self.user else "") + name + (f":{self.port}" if self.port else "")
        )

    def for_ssh(self) -> str:
        """As `ssh` and `ssh-copy-id` take it, which know no `host:port`."""
        name = (f"{self.user}@" if self.user else "") + self.host
        return f"-p {self.port} {name}" if self.port else name


def read_host(text: str, *, python: str = "", folder: str = "") -> Host:
    """Reads one; raises StellwerkError `ssh/host`."""
    text, *places = text.split() or [""]
    user, mark, rest = text.rpartition("@")
    host, port_text = _split_port(rest)
    good_user = not mark or _USER.fullmatch(user) is not None
    port = int(port_text) if port_text.isdecimal() and len(port_text) < 6 else -1
    if not port_text:
        port = 0
    if not good_user or _HOST.fullmatch(host) is None or not 0 <= port < 65536:
        message = f"`{text[:120]}` names no machine"
        raise StellwerkError([Problem("ssh/host", message, "write user@host, or user@host:port")])
    for what, path in (("the Python", python), ("the folder", folder)):
        if path and (re.fullmatch(r"/[A-Za-z0-9._/+-]*", path) is None):
            message = f"{what} on {host}, `{path[:120]}`, is no plain absolute path"
            raise StellwerkError(
                [Problem("ssh/host", message, "write a path like /opt/py/bin/python3")]
            )
    console: Console = ""
    quiet_ms = 0
    domains: dict[str, str] = {}
    for place in places:
        level, value = _read_place(place)
        if level == "console":
            console = _read_console(value)
        elif level == "quiet":
            quiet_ms = _read_quiet(value)
        else:
            domains[level] = value
    return Host(
        host, user, port, python, folder, domains=domains, console=console, quiet_ms=quiet_ms
    )


def _read_console(value: str) -> Console:
    """Raises StellwerkError `ssh/host`."""
    found = next((one for one in _CONSOLES if one == value), None)
    if found is None:
        message = f"`console={value}` isn't something that can follow when somebody sits down"
        if value == "suspend":
            message = "jobs can't be suspended while somebody sits there, only told to leave"
        remedy = "write console=notice or console=ignore"
        raise StellwerkError([Problem("ssh/host", message, remedy)])
    return found


def _read_quiet(value: str) -> int:
    """`10m`; raises StellwerkError `ssh/host`."""
    found = _QUIET.fullmatch(value)
    quiet_ms = int(found[1]) * _MS[found[2]] if found else 0
    if not 0 < quiet_ms <= _MOST_QUIET_MS:
        message = f"`quiet={value}` is no time of at most a day"
        raise StellwerkError([Problem("ssh/host", message, "write it as `quiet=10m`")])
    return quiet_ms


def _read_place(text: str) -> tuple[str, str]:
    """`switch=sw1`; raises StellwerkError `ssh/host`."""
    level, _, value = text.partition("=")
    if _LEVEL.fullmatch(level) is None or _LEVEL.fullmatch(value) is None:
        message = f"`{text[:120]}` doesn't say where a machine stands"
        raise StellwerkError([Problem("ssh/host", message, "write LEVEL=NAME, as `switch=sw1`")])
    return level, value


def name_nodes(hosts: list[Host]) -> list[Host]:
    """Gives each a name of its own: that of the host, with the port or user where that's needed."""
    named: list[Host] = []
    taken: set[str] = set()
    for host in hosts:
        tries = [host.node, host.host, f"{host.host}-{host.port or 22}", str(host)]
        plain = [re.sub(r"[^A-Za-z0-9._-]+", "-", one).strip("-.") for one in tries if one]
        name = next((one for one in plain if one not in taken), None)
        if name is None or any(str(host) == str(other) for other in named):
            message = f"{host} is there twice"
            raise StellwerkError([Problem("ssh/host", message, "name each machine once")])
        taken.add(name)
        named.append(replace(host, node=name))
    return named


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, port.removeprefix(":")
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port or "?"
    return text, ""
