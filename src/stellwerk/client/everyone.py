"""The machine's service that keeps people's runtimes there, each as that person; it runs as root.

Who asks for their own runtime is known by the kernel's word alone. Nobody can ask for somebody
else, and the server can't ask for anything. What was asked for lasts through restarts of the
machine, in a folder of root's. Of people's homes nothing is read; whatever is theirs is done by a
process that has become them before its first step.
"""

import contextlib
import errno
import grp
import json
import os
import pwd
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stellwerk.client.allowed import Account, Rule, why_not

ASK_MOST_BYTES = 64
ASK_S = 5.0
CALLERS_MOST = 64
LASTED_S = 60.0
RETRY_FIRST_S = 1.0
RETRY_MOST_S = 60.0
SAID_MOST = 2_000
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
LANGUAGE = ("LANG", "LC_ALL", "TZ")
_UCRED = struct.Struct("3i")
Say = Callable[[str], None]


class Service(NamedTuple):
    """What the administrator has said: where people ask, what is remembered, for which server."""

    socket: str
    folder: str
    server: str
    rule: Rule


def account_of(uid: int) -> Account | None:
    """A user as this machine knows them now."""
    try:
        user = pwd.getpwuid(uid)
        numbers = os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OSError):
        return None
    names = []
    for number in numbers:
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return Account(user.pw_name, uid, user.pw_gid, user.pw_dir, user.pw_shell, tuple(names))


def as_person(account: Account, server: str) -> "subprocess.Popen[bytes]":
    """Starts a person's runtime: in a session of its own, with the person's groups and rights.

    The child becomes them before it executes anything, and enters their home, if at all, as them.
    """
    env = {name: os.environ[name] for name in LANGUAGE if name in os.environ}
    if path := os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = path
    for name in ("STELLWERK_MACHINE_CONFIG", "STELLWERK_CLAIMS"):
        if name in os.environ:
            env[name] = os.environ[name]
    env |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "PATH": PATH}
    env |= {"SHELL": account.shell or "/bin/sh", "STELLWERK_SOCKET": server}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "stellwerk.client.guest"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        env=env,
        user=account.uid,
        group=account.gid,
        extra_groups=os.getgrouplist(account.name, account.gid),
        umask=0o022,
        start_new_session=True,
    )


class Kept:
    """One person's runtime, as far as this service started it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.begun_s = -LASTED_S
        self.due_s = -LASTED_S
        self.delay_s = RETRY_FIRST_S
        self.failed = ""

    def ended(self, status: int, now_s: float) -> None:
        """It has ended: when it is tried again. With 0 another one is there already."""
        lasted = now_s - self.begun_s > LASTED_S
        self.delay_s = RETRY_FIRST_S if lasted else min(self.delay_s * 2, RETRY_MOST_S)
        self.due_s = now_s + (RETRY_MOST_S if status == 0 else self.delay_s)
        self.process = None


class Everyone:
    """Keeps the runtimes of all who have asked for theirs, and may."""

    def __init__(
        self,
        service: Service,
        say: Say,
        *,
        account: Callable[[int], Account | None] = account_of,
        start: Callable[[Account, str], "subprocess.Popen[bytes]"] = as_person,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._say = say
        self._account = account
        self._start = start
        self._monotonic_s = monotonic_s
        self._leaving: list[subprocess.Popen[bytes]] = []
        self.kept: dict[int, Kept] = {}

    # who has asked

    def remember(self) -> None:
        """Takes up what was asked for before; a number that is another user's by now is dropped."""
        for name in sorted(os.listdir(self._service.folder)):
            path = Path(self._service.folder, name)
            account = self._account(int(name)) if name.isdecimal() else None
            if account is not None and path.read_text("utf-8").strip() == account.name:
                self.kept[account.uid] = Kept()
            elif name.isdecimal():
                self._say(f"user {name} isn't who has asked before any more: forgotten")
                path.unlink()

    def answer(self, uid: int, word: str) -> dict[str, object]:
        """Does what a user asks for themselves: `start`, `stop`, or `status`."""
        account = self._account(uid)
        refused = why_not(account, uid, self._service.rule)
        if word == "stop":
            self._forget(uid)
            return {"kept": False}
        if word == "start" and not refused:
            assert account is not None
            Path(self._service.folder, str(uid)).write_text(account.name + "\n", "utf-8")
            if uid not in self.kept:
                self._say(f"{account.name} has asked for their runtime")
            asked = self.kept.setdefault(uid, Kept())
            if asked.process is None:
                asked.due_s, asked.delay_s = asked.begun_s + RETRY_FIRST_S, RETRY_FIRST_S
        elif word not in {"start", "status"}:
            return {"refused": "ask for start, stop or status"}
        kept = self.kept.get(uid)
        failed = kept.failed if kept is not None and kept.process is None else ""
        told = {"kept": kept is not None and not refused, "refused": refused, "failed": failed}
        return {**told, "server": self._service.server}

    def _forget(self, uid: int) -> None:
        kept = self.kept.pop(uid, None)
        Path(self._service.folder, str(uid)).unlink(missing_ok=True)
        if kept is not None and kept.process is not None:
            kept.process.terminate()
            self._leaving.append(kept.process)

    # their runtimes

    def look(self) -> float | None:
        """Starts what is due; gives the seconds until something is due next, None for nothing."""
        now_s = self._monotonic_s()
        self._leaving = [one for one in self._leaving if not _is_over(one)]
        for uid, kept in list(self.kept.items()):
            if kept.process is not None and kept.process.poll() is not None:
                self._ended(uid, kept, now_s)
            if kept.process is None and kept.due_s <= now_s:
                self._start_for(uid, kept, now_s)
        dues = [kept.due_s - now_s for kept in self.kept.values() if kept.process is None]
        return max(0.0, min(dues)) if dues else None

    def _ended(self, uid: int, kept: Kept, now_s: float) -> None:
        assert kept.process is not None
        status = int(kept.process.returncode)
        said = _collect(kept.process)
        kept.ended(status, now_s)
        kept.failed = (said or f"it ended with {status}") if status else ""
        if status:
            ended = f"the runtime of user {uid} ended with {status}"
            self._say(f"{ended}; again in {kept.due_s - now_s:.0f} s" + (said and f"; {said}"))

    def _start_for(self, uid: int, kept: Kept, now_s: float) -> None:
        account = self._account(uid)
        if refused := why_not(account, uid, self._service.rule):
            self._say(f"not started for user {uid}: {refused}")
            kept.due_s = now_s + RETRY_MOST_S
            return
        assert account is not None
        kept.begun_s = now_s
        try:
            kept.process = self._start(account, self._service.server)
        except OSError as error:
            kept.ended(1, now_s)
            kept.failed = str(error)
            self._say(f"the runtime of {account.name} can't be started: {error}")
        else:
            if kept.process.stderr is not None:
                os.set_blocking(kept.process.stderr.fileno(), False)

    def end(self) -> None:
        """Ends the runtimes' connections; what runs goes on."""
        for kept in self.kept.values():
            if kept.process is not None:
                with contextlib.suppress(PermissionError, ProcessLookupError):
                    kept.process.terminate()


def _is_over(process: "subprocess.Popen[bytes]") -> bool:
    if process.poll() is None:
        return False
    _collect(process)
    return True


def _collect(process: "subprocess.Popen[bytes]") -> str:
    """What an ended runtime has said of errors, as plain text of one line."""
    said = b""
    if process.stderr is not None:
        with contextlib.suppress(BlockingIOError):
            said = os.read(process.stderr.fileno(), SAID_MOST)
        process.stderr.close()
    text = " ".join(said.decode("utf-8", "replace").split())
    return "".join(each for each in text if each.isprintable())[-300:]


class Door:
    """Where people ask: one word and one answer for each connection; nobody is waited for."""

    def __init__(self, path: str, answer: Callable[[int, str], dict[str, object]]) -> None:
        self._answer = answer
        self._until: dict[socket.socket, float] = {}
        if _answers(path):
            raise FileExistsError(errno.EEXIST, "another one is there already", path)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._listening.bind(path)
        os.chmod(path, 0o666)  # noqa: S103 (whoever asks is known, and asks for themselves)
        self._listening.listen(CALLERS_MOST)
        self._listening.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self._listening, selectors.EVENT_READ)

    def wait(self, seconds: float | None) -> None:
        """Waits until something happens, and answers whoever has asked."""
        if self._until:
            seconds = min(ASK_S, ASK_S if seconds is None else seconds)
        for key, _ in self.selector.select(seconds):
            if key.fileobj is self._listening:
                self._let_in()
            elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._until:
                self._hear(key.fileobj)
            elif isinstance(key.fileobj, int):
                os.read(key.fileobj, 4096)
        for caller, until_s in list(self._until.items()):
            if until_s < time.monotonic():
                self._hang_up(caller)

    def _let_in(self) -> None:
        with contextlib.suppress(OSError):
            caller, _ = self._listening.accept()
            caller.setblocking(False)
            if len(self._until) >= CALLERS_MOST:
                self._hang_up(next(iter(self._until)))  # who has been silent for the longest
            self._until[caller] = time.monotonic() + ASK_S
            self.selector.register(caller, selectors.EVENT_READ)

    def _hear(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            word = caller.recv(ASK_MOST_BYTES).decode("ascii", "replace").strip()
            raw = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
            _pid, uid, _gid = _UCRED.unpack(raw)
            caller.send(json.dumps(self._answer(uid, word)).encode("ascii") + b"\n")
        self._hang_up(caller)

    def _hang_up(self, caller: socket.socket) -> None:
        del self._until[caller]
        self.selector.unregister(caller)
        caller.close()

    def close(self) -> None:
        """Nobody is let in any more."""
        for caller in list(self._until):
            self._hang_up(caller)
        self.selector.close()
        self._listening.close()


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) == 0


def serve(service: Service, say: Say) -> None:
    """Be the service until SIGTERM or SIGINT."""
    everyone = Everyone(service, say)
    everyone.remember()
    door = Door(service.socket, everyone.answer)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    os.set_blocking(ours, False)
    ending: list[int] = []
    signal.set_wakeup_fd(theirs)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: ending.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    door.selector.register(ours, selectors.EVENT_READ)
    say(f"people ask at {service.socket}; their runtimes call {service.server}")
    while not ending:
        door.wait(everyone.look())
    door.close()
    os.unlink(service.socket)
    everyone.end()
