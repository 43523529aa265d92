"""SSH servers on loopback for tests, and people who log in to them."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh

from stellwerk.drivers.ssh.hosts import Host
from tests.processes import wait_gone

NUMBERS = itertools.count(1)
PROGRAM = Path(__file__).with_name("ssh_server.py")


class Sshd:
    """One server; each of its users has a home of their name in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.keys = folder / "keys"
        self.keys.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None
        person = asyncssh.generate_private_key("ssh-ed25519")
        person.write_private_key(str(self.keys / "person"))
        person.write_public_key(str(self.keys / "person.pub"))
        self.host_key = self.new_host_key()
        self.start()

    def new_host_key(self) -> asyncssh.SSHKey:
        """Has it look like another machine from its next start on."""
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key.write_private_key(str(self.keys / "host"))
        return self.host_key

    def start(self) -> None:
        """Listens, on the same port as before."""
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(PROGRAM),
                str(self.folder),
                str(self.port),
                str(self.keys / "host"),
                str(self.keys / "person.pub"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        """Hangs up on everybody and listens no more; what was started goes on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        """Ends the server and everything that was started in its homes."""
        self.stop()
        end_all_in(self.folder)
        shutil.rmtree(self.folder.parent, ignore_errors=True)

    @property
    def fingerprint(self) -> str:
        """Of its host key."""
        return self.host_key.get_fingerprint()

    @property
    def known_hosts_line(self) -> str:
        """What a known_hosts file says of it."""
        return f"[127.0.0.1]:{self.port} {self.host_key.export_public_key().decode()}"

    def admit(self, name: str) -> Path:
        """Gives a new user a home."""
        home = self.folder / name
        home.mkdir()
        return home


class Account:
    """A new user of a server."""

    def __init__(self, server: Sshd) -> None:
        self.server = server
        self.name = f"u{next(NUMBERS)}"
        self.home = server.admit(self.name)

    @property
    def host(self) -> Host:
        return Host("127.0.0.1", port=self.server.port, user=self.name, node=self.name)


def end_all_in(folder: Path) -> None:
    """Ends what runs with a home in a folder."""
    mark = f"HOME={folder}".encode()
    while left := _with(mark):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            wait_gone(pid)


def _with(mark: bytes) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
    return found


def be_a_person(home: Path, *known: Sshd, opens: Sshd) -> None:
    """Gives a home the key that opens a server, and trust in some."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(opens.keys / "person", folder / "id_ed25519")
    (folder / "id_ed25519").chmod(0o600)
    (folder / "known_hosts").write_text("".join(sshd.known_hosts_line for sshd in known))


@contextlib.contextmanager
def an_sshd(folder: Path) -> Iterator[Sshd]:
    """A server that listens, and is gone afterwards with all that it started."""
    sshd = Sshd(folder)
    try:
        yield sshd
    finally:
        sshd.close()
