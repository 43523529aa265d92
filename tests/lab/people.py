"""Several real users on one machine, without adding any: they exist inside of a mount namespace.

There `/etc/passwd` and `/etc/group` are others, and folders on the way to the interpreter that only
root may enter are replaced by ones that hold nothing else. Needs root; `missing()` says what isn't
there.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FIRST_UID = 22_000 + os.getpid() % 4_000 * 10
"""Others than those of a test that runs at the same time, which ends all processes of its users."""
GROUP, GID = "lab", FIRST_UID + 9
PEOPLE = ("ben", "ada", "cyd")
Done = subprocess.CompletedProcess[str]
REPOSITORY = Path(__file__).resolve().parents[2]


def missing() -> str:
    """What this machine lacks for several users; empty if nothing."""
    if os.geteuid() != 0:
        return "several users need root, to become each of them"
    if shutil.which("setpriv") is None or shutil.which("nsenter") is None:
        return "there is no setpriv or nsenter (apt install util-linux)"
    probe = subprocess.run(["unshare", "--mount", "true"], check=False)
    return "" if probe.returncode == 0 else "mount namespaces aren't allowed here"


class Person:
    """A user with a home that nobody else may enter."""

    def __init__(self, house: "House", name: str) -> None:
        self.name = name
        self.home = house.folder / "home" / name
        self._house = house

    def run(
        self, *argv: str, check: bool = False, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program as this user, in their home, with nothing of the caller's environment."""
        uid = str(self._house.uid(self.name))
        env = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY / "src"),
            "STELLWERK_MACHINE_CONFIG": str(self._house.settings),
            "STELLWERK_CLAIMS": str(self._house.claims),
            "STELLWERK_PEOPLE_SOCKET": str(self._house.ask_at),
        }
        inside = ["nsenter", "-t", str(self._house.pid), "-m", f"--wd={self.home}"]
        as_user = ["setpriv", "--reuid", uid, "--regid", uid, "--init-groups"]
        return subprocess.run(
            [*inside, *as_user, *argv],
            env=env, input=text, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def stw(self, *argv: str, text: str = "") -> Done:
        """Runs the command line as this user."""
        python = str(REPOSITORY / ".venv" / "bin" / "python")
        return self.run(python, "-m", "stellwerk.cli", *argv, text=text)

    def show(self, name: str) -> dict[str, Any]:
        """What this user is shown of a workload."""
        told: dict[str, Any] = json.loads(self.stw("show", name, "-o", "json").stdout)
        return told


class House:
    """A machine with people; ``server`` is the socket that its administrator has named for all."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder = folder
        self.settings = folder / "config.toml"
        self.socket = folder / "run" / "server.sock"
        self.claims = folder / "claims"
        self.ask_at = folder / "people" / "ask.sock"
        self.people = {name: Person(self, name) for name in PEOPLE}
        self._make(settings)
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", self._script()],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._keeper.pid
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            pytest.skip("a mount namespace with other users can't be made here")

    def serve_people(self, *named: str) -> "subprocess.Popen[str]":
        """Runs the service that keeps people's runtimes, as root; waits until it can be asked."""
        env = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY / "src"),
            "STELLWERK_MACHINE_CONFIG": str(self.settings),
            "STELLWERK_CLAIMS": str(self.claims),
            "STELLWERK_PEOPLE_SOCKET": str(self.ask_at),
        }
        python = str(REPOSITORY / ".venv" / "bin" / "python")
        service = subprocess.Popen(
            ["nsenter", "-t", str(self.pid), "-m", "--wd=/", python, "-m", "stellwerk.cli", "agent",
             "everyone", "--folder", str(self.folder / "asked"), *map("--people={}".format, named)],
            env=env, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert service.stderr is not None
        said = service.stderr.readline()
        assert "people ask at" in said, said
        return service

    def uid(self, name: str) -> int:
        """A user's number, which is that of their group too."""
        return FIRST_UID + PEOPLE.index(name)

    def _make(self, settings: str) -> None:
        self.folder.chmod(0o755)
        passwd, group = ["root:x:0:0::/:/bin/bash"], ["root:x:0:"]
        for name, person in self.people.items():
            uid = self.uid(name)
            person.home.mkdir(parents=True)
            os.chown(person.home, uid, uid)
            person.home.chmod(0o700)
            passwd.append(f"{name}:x:{uid}:{uid}::{person.home}:/bin/bash")
            group.append(f"{name}:x:{uid}:")
        group.append(f"{GROUP}:x:{GID}:{','.join(PEOPLE)}")
        (self.folder / "passwd").write_text("\n".join(passwd) + "\n")
        (self.folder / "group").write_text("\n".join(group) + "\n")
        self.settings.write_text(f'socket = "{self.socket}"\n{settings}')
        self.claims.mkdir()
        self.claims.chmod(0o1777)
        self.socket.parent.mkdir()
        os.chown(self.socket.parent, self.uid(PEOPLE[0]), self.uid(PEOPLE[0]))

    def _script(self) -> str:
        lines = [f"mount --bind {self.folder}/{name} /etc/{name}" for name in ("passwd", "group")]
        for number, needed in enumerate((Path(sys.base_prefix), REPOSITORY)):
            closed = next(
                (one for one in reversed(needed.parents) if not one.stat().st_mode & 0o001), None
            )
            if closed is not None:
                kept = self.folder / f"kept{number}"
                kept.mkdir()
                lines += [
                    f"mount --bind {needed} {kept}",
                    f"mount -t tmpfs -o mode=755 none {closed}",
                    f"mkdir -p {needed}",
                    f"mount --bind {kept} {needed}",
                ]
        return " && ".join([*lines, "echo ready", "exec sleep 1000000"])

    def end(self) -> None:
        """Ends everything that these users run, and then the namespace."""
        uids = {self.uid(name) for name in PEOPLE}
        for _ in range(100):
            left = [pid for pid in _all_pids() if _uid_of(pid) in uids]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.05)
        self._keeper.kill()
        self._keeper.communicate()


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _uid_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


@contextlib.contextmanager
def a_house(settings: str = "") -> Iterator[House]:
    """A machine with people; skips where it can't be had."""
    if lack := missing():
        pytest.skip(lack)
    folder = Path(tempfile.mkdtemp(prefix="stw-people-"))
    house = House(folder, settings)
    try:
        yield house
    finally:
        house.end()
        shutil.rmtree(folder, ignore_errors=True)
