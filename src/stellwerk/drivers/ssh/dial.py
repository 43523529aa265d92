"""Opens connections: the user's own SSH configuration, keys and agent; host keys always checked.

Trusted is what the user's and the machine's known_hosts say, and what was accepted by its
fingerprint, which is kept in a file of ours: nothing of the user's is ever written.
"""

import asyncio
import contextlib
import os
import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Protocol

import asyncssh

from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.troubles import SshTrouble, of_connecting, of_host_key

USERS_FILE = "~/.ssh/known_hosts"
MACHINES_FILE = "/etc/ssh/ssh_known_hosts"
CONNECT_S = 10.0
LOGIN_S = 20.0
KEEPALIVE_S = 10
KEEPALIVES = 3
"""So many questions without an answer, and the connection is over."""


class Dials(Protocol):
    """What gives connections to machines."""

    async def connect(self, host: Host, accept: Collection[str] = ()) -> Any:
        """A connection. Raises SshTrouble."""
        ...


class Dialer:
    """Makes connections for one Stellwerk; ``known_hosts`` is its own file of accepted keys."""

    def __init__(self, known_hosts: Path) -> None:
        self._own = known_hosts

    async def connect(
        self, host: Host, accept: Collection[str] = ()
    ) -> asyncssh.SSHClientConnection:
        """Connects as the user; a key with one of the fingerprints in ``accept`` is kept.

        Raises SshTrouble.
        """
        watcher = _Watcher(accept)
        known = await asyncio.to_thread(self._trusted)
        try:
            connection = await asyncssh.connect(
                host.host,
                host.port or (),
                username=host.user or (),
                known_hosts=known,
                client_factory=lambda: watcher,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES,
                connect_timeout=CONNECT_S,
                login_timeout=LOGIN_S,
                password_auth=False,
                kbdint_auth=False,
                agent_forwarding=False,
                client_keys=[host.identity_file] if host.identity_file else (),
            )
        except Exception as error:
            raise self._why(host, watcher, error, accept) from error
        if watcher.accepted:
            self._keep(watcher.accepted)
        return connection

    def _trusted(self) -> asyncssh.SSHKnownHosts:
        """All that is known of hosts; a line that can't be read counts as none."""
        return _read(self._files())

    def _files(self) -> tuple[str, ...]:
        return (os.path.expanduser(USERS_FILE), str(self._own), MACHINES_FILE)

    def _why(
        self, host: Host, watcher: "_Watcher", error: Exception, accept: Collection[str]
    ) -> SshTrouble:
        if watcher.shown is None or not isinstance(error, asyncssh.HostKeyNotVerifiable):
            return of_connecting(host, error)
        name, address, port, key = watcher.shown
        known_by = [one for one in self._files() if _read([one]).match(name, address, port)[0]]
        forget = "; ".join(
            f"ssh-keygen -f {shlex.quote(one)} -R {shlex.quote(_named(name, port))}"
            for one in known_by
        )
        return of_host_key(
            host,
            key.get_fingerprint(),
            changed=bool(known_by),
            forget=forget,
            other_named=bool(accept),
        )

    def _keep(self, lines: str) -> None:
        self._own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(self._own, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
            file.write(lines)


def _named(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"


def _read(paths: Iterable[str]) -> asyncssh.SSHKnownHosts:
    known = asyncssh.SSHKnownHosts()
    for path in paths:
        for line in _lines(path):
            with contextlib.suppress(ValueError):
                known.load(line)
    return known


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


class _Watcher(asyncssh.SSHClient):
    """Sees the key of a host that isn't known."""

    def __init__(self, accept: Collection[str]) -> None:
        self._accept = accept
        self.accepted = ""
        self.shown: tuple[str, str, int, asyncssh.SSHKey] | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Accepts what was named; remembers what was shown."""
        self.shown = (host, addr, port, key)
        if key.get_fingerprint() not in self._accept:
            return False
        self.accepted = f"{_named(host, port)} {key.export_public_key().decode().strip()}\n"
        return True
