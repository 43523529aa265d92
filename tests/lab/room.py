"""A room in a box: machines with a real sshd, each in a network namespace with a user of its own.

Nothing of this machine is changed: users, homes and sshd are seen inside of the namespaces alone.
Needs root, iproute2 and openssh-server; `missing()` says in words what isn't there.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.processes import wait_gone

SSHD = "/usr/sbin/sshd"
USER = "ada"
FIRST_UID = 21_300


def missing() -> str:
    """What this machine lacks for a room; empty if nothing."""
    if os.geteuid() != 0:
        return "a room of machines needs root, for network namespaces"
    if not os.path.exists(SSHD):
        return "there is no sshd (apt install openssh-server)"
    if shutil.which("ip") is None:
        return "there is no `ip` (apt install iproute2)"
    probe = subprocess.run(["unshare", "--net", "--mount", "true"], check=False)
    return "" if probe.returncode == 0 else "network namespaces aren't allowed here"


class Computer:
    """One machine of a room."""

    def __init__(
        self,
        room: "Room",
        number: int,
        options: Sequence[str],
        python: str,
        small: str,
        shows: Sequence[Path],
        env: Mapping[str, str],
        home_of: "Computer | None",
        own_identity: bool,
        own_tmp: bool,
    ) -> None:
        self.name = f"stwlab{os.getpid() % 10_000}n{number}"
        self.address = f"10.213.{room.number}.{number * 4 + 2}"
        self._outside = f"10.213.{room.number}.{number * 4 + 1}"
        self._switch = room.switch
        self.hostname = f"pc{number:02}" if room.switch else ""
        self.beside = self.address
        if room.switch:
            self.address = f"10.214.{room.number}.{number}"
        self.folder = room.folder / f"m{number}"
        self.home: Path = home_of.home if home_of else self.folder / "home"
        self.uid: int = home_of.uid if home_of else FIRST_UID + number
        self._env = env
        self._own_identity = own_identity
        self._own_tmp = own_tmp
        self._options = options
        self._python = python
        self._small = small
        self._shows = shows
        self._veth = f"stw{os.getpid() % 10_000}v{number}"
        self._sshd: subprocess.Popen[bytes] | None = None
        self._key = room.key
        self._make()

    def __str__(self) -> str:
        return f"{USER}@{self.address}"

    def _make(self) -> None:
        self.folder.mkdir()
        self.home.mkdir(exist_ok=True)
        (self.home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(f"{self._key}.pub", self.home / ".ssh" / "authorized_keys")
        for path in (self.home, self.home / ".ssh", self.home / ".ssh" / "authorized_keys"):
            os.chown(path, self.uid, self.uid)
        etc = self.folder / "etc"
        etc.mkdir()
        person = f"{USER}:x:{self.uid}:{self.uid}::{self.home}:/bin/bash\n"
        for name, line in (
            ("passwd", person),
            ("group", f"{USER}:x:{self.uid}:\n"),
            ("shadow", f"{USER}:*:19000:0:99999:7:::\n"),
        ):
            (etc / name).write_text(Path("/etc", name).read_text() + line)
        before = self.address.rpartition(".")[0]
        names = [f"{before}.{each} pc{each:02}" for each in range(1, 30)]
        (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names]) + "\n")
        self.new_host_key()
        lines = ["UsePAM no", "StrictModes no", f"HostKey {self.folder}/host_key", "PidFile none"]
        claims = self.folder / "claims"
        claims.mkdir(exist_ok=True)
        claims.chmod(0o1777)
        given = {"STELLWERK_CLAIMS": claims, **self._env}  # as if each had a disk of its own
        lines += ["SetEnv " + " ".join(f'{name}="{value}"' for name, value in given.items())]
        lines += ["Subsystem sftp internal-sftp", "PrintMotd no", *self._options]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        _run("ip", "netns", "add", self.name)
        inner = f"{self._veth}i"
        _run(*f"ip link add {self._veth} type veth peer name {inner} netns {self.name}".split())
        if self._switch:
            _run("ip", "link", "set", self._veth, "master", self._switch)
            self._add_another_network()
            self._add_a_way_from_outside()
        else:
            _run("ip", "addr", "add", f"{self._outside}/30", "dev", self._veth)
        _run("ip", "link", "set", self._veth, "up")
        size = 24 if self._switch else 30
        _run("ip", "-n", self.name, "addr", "add", f"{self.address}/{size}", "dev", inner)
        _run("ip", "-n", self.name, "link", "set", inner, "up")
        _run("ip", "-n", self.name, "link", "set", "lo", "up")

    def _add_another_network(self) -> None:
        """One that leads nowhere, as containers have it, with the same address on each machine."""
        _run(*f"ip -n {self.name} link add docker0 type bridge".split())
        _run(*f"ip -n {self.name} addr add 172.17.0.1/16 dev docker0".split())
        _run(*f"ip -n {self.name} link set docker0 up".split())

    def _add_a_way_from_outside(self) -> None:
        """A cable to this machine alone, by which no other machine of the room is reached."""
        outer = f"{self._veth}b"
        _run(*f"ip link add {outer} type veth peer name {outer}i netns {self.name}".split())
        _run("ip", "addr", "add", f"{self._outside}/30", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run("ip", "-n", self.name, "addr", "add", f"{self.beside}/30", "dev", f"{outer}i")
        _run("ip", "-n", self.name, "link", "set", f"{outer}i", "up")

    def new_host_key(self) -> None:
        """Makes the machine look like another one, as after it was set up anew."""
        path = self.folder / "host_key"
        for old in (path, path.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))

    @property
    def fingerprint(self) -> str:
        """Of its host key."""
        told = subprocess.run(
            ["ssh-keygen", "-lf", f"{self.folder}/host_key.pub"], capture_output=True, check=True
        )
        return told.stdout.decode().split()[1]

    def switch_on(self) -> None:
        """Starts sshd, and waits until it listens."""
        os.makedirs("/run/sshd", exist_ok=True)
        etc = self.folder / "etc"
        binds = [f"mount --bind {etc}/{name} /etc/{name}" for name in ("passwd", "group", "shadow")]
        if self._python:
            binds.append(f"mount --bind {self._python} /opt")
        binds.append(f"mount --bind {etc} /mnt")
        if self._own_identity:
            self._identify(machine=not (etc / "machine-id").exists())
            for name, place in (("machine-id", "/etc"), ("boot_id", "/proc/sys/kernel/random")):
                binds.append(f"mount --bind {etc}/{name} {place}/{name}")
        if self._small:
            folder = self.folder / "small"
            folder.mkdir(exist_ok=True)
            binds.append(f"mount -t tmpfs -o mode=777,{self._small} tmpfs {folder}")
        if self.hostname:
            binds.append(f"mount --bind {etc}/hosts /etc/hosts")
            binds.append(f"echo {self.hostname} > /proc/sys/kernel/hostname")
        if self._own_tmp:
            binds.append("mount -t tmpfs -o mode=1777 tmpfs /var/tmp")
        binds += self._show()
        script = " && ".join([*binds, f"exec {SSHD} -D -e -f {self.folder}/sshd_config"])
        with (self.folder / "sshd.log").open("ab") as log:
            self._sshd = subprocess.Popen(
                ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _ in range(500):
            if b"Server listening" in (self.folder / "sshd.log").read_bytes():
                return
            time.sleep(0.01)
        raise AssertionError((self.folder / "sshd.log").read_text())

    def _identify(self, *, machine: bool) -> None:
        """A boot of its own, and at first (or anew) an installation of its own."""
        (self.folder / "etc" / "boot_id").write_text(f"{uuid.uuid4()}\n")
        if machine:
            (self.folder / "etc" / "machine-id").write_text(f"{uuid.uuid4().hex}\n")

    def switch_off(self) -> None:
        """Ends all at once, as a pulled plug does; what is on the disk stays."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._gone()
        (self.folder / "sshd.log").write_bytes(b"")

    def become_another(self) -> None:
        """Puts another machine in its place, which has its address, host key and home."""
        self.switch_off()
        (self.folder / "etc" / "machine-id").unlink()
        self.switch_on()

    def slow_down(self, how: str) -> bool:
        """Has its cable delay and lose, as `tc` says it; False where the kernel can't."""
        return (
            subprocess.run(
                f"tc qdisc replace dev {self._veth} root netem {how}".split(),
                check=False,
                capture_output=True,
            ).returncode
            == 0
        )

    def _show(self) -> list[str]:
        """Has folders below root's home be seen there, which is closed to others."""
        kept = self.folder / "kept"
        before, after = [], []
        for number, path in enumerate(self._shows):
            place = kept / str(number)
            place.mkdir(parents=True, exist_ok=True)
            before.append(f"mount --bind {path} {place}")
            after.append(f"mkdir -p {path} && mount --bind {place} {path}")
        hide = f"mount -t tmpfs -o mode=755 tmpfs {os.path.expanduser('~root')}"
        return [*before, hide, *after] if before else []

    def restart_sshd(self) -> None:
        """Ends sshd and the connections that it serves, and starts it again; jobs go on."""
        for pid in self.processes():
            if _program_of(pid).startswith("sshd"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._gone()
        (self.folder / "sshd.log").write_bytes(b"")
        self.switch_on()

    def cut(self) -> None:
        """Pulls the cable."""
        _run("ip", "link", "set", self._veth, "down")

    def mend(self) -> None:
        """Plugs it in again."""
        _run("ip", "link", "set", self._veth, "up")

    def processes(self) -> list[int]:
        """All processes of the machine."""
        told = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, check=False
        ).stdout
        return [int(pid) for pid in told.split()]

    def agent_pid(self) -> int:
        """The process of the runtime's agent."""
        cards = self.home.glob(".local/state/stellwerk/*/*/runtime/agent.json")
        newest = max(cards, key=lambda path: path.stat().st_mtime)
        return int(json.loads(newest.read_text())["pid"])

    def end_jobs(self) -> None:
        """Ends all that isn't sshd: agents, wrappers, jobs."""
        for pid in self.processes():
            if not _program_of(pid).startswith("sshd"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def tear_down(self) -> None:
        """Ends everything of the machine."""
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in left:
                wait_gone(pid)
            self._gone()
        subprocess.run(["ip", "link", "del", self._veth], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], check=False)

    def _gone(self) -> None:
        if self._sshd is not None:
            self._sshd.wait(10)
            self._sshd = None


class Room:
    """Machines, and a person's key that opens all of them."""

    def __init__(self, *, switch: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stw-room-"))
        self.folder.chmod(0o755)
        self.number = os.getpid() % 250
        self.key = str(self.folder / "key")
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
        self.person = self.folder / "person"
        self.computers: list[Computer] = []
        self.switch = f"stw{os.getpid() % 10_000}sw" if switch else ""
        if switch:
            _run("ip", "link", "add", self.switch, "type", "bridge")
            _run("ip", "addr", "add", f"10.214.{self.number}.254/24", "dev", self.switch)
            _run("ip", "link", "set", self.switch, "up")
        (self.person / ".ssh").mkdir(parents=True, mode=0o700)
        (self.person / ".ssh" / "config").write_text(f"IdentityFile {self.key}\n")

    def add(
        self,
        *,
        on: bool = True,
        options: Sequence[str] = (),
        python: str = "",
        small: str = "",
        shows: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        home_of: Computer | None = None,
        own_identity: bool = False,
        own_tmp: bool = False,
    ) -> Computer:
        """Another machine; ``python`` is a folder that is its /opt, ``small`` says how a file
        system in its folder `small` is mounted, ``shows`` are folders of root's that can be read.
        What runs there has ``env``. It shares the home ``home_of`` another. With an
        ``own_identity`` it has a machine-id, and each time it is switched on a boot, of its own.
        With ``own_tmp`` what lies in /var/tmp is its own.
        """
        number = len(self.computers) + 1
        computer = Computer(
            self, number, options, python, small, shows, env or {}, home_of, own_identity, own_tmp
        )
        self.computers.append(computer)
        if on:
            computer.switch_on()
        return computer

    def be_at(self, patch: pytest.MonkeyPatch) -> None:
        """Makes this process the person's."""
        patch.setenv("HOME", str(self.person))
        patch.delenv("SSH_AUTH_SOCK", raising=False)

    def trust(self, *computers: Computer) -> None:
        """Writes their host keys into the person's known_hosts."""
        with (self.person / ".ssh" / "known_hosts").open("a") as file:
            for computer in computers:
                words = (computer.folder / "host_key.pub").read_text().split()
                for address in dict.fromkeys((computer.address, computer.beside)):
                    file.write(f"{address} {words[0]} {words[1]}\n")


@contextlib.contextmanager
def a_room(*, switch: bool = False) -> Iterator[Room]:
    """A room that is torn down afterwards; with a ``switch`` its machines reach each other."""
    room = Room(switch=switch)
    try:
        yield room
    finally:
        for computer in room.computers:
            computer.tear_down()
        if room.switch:
            subprocess.run(["ip", "link", "del", room.switch], check=False)
        shutil.rmtree(room.folder, ignore_errors=True)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def _program_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
