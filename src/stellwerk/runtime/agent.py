"""The agent: one per (machine, user, root), the only process that takes requests for its runs.

One thread, one loop. It holds nothing that the files don't hold, so it may be killed at any time:
wrappers and jobs go on, and the next agent takes them over.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable
from typing import Optional

from . import EXIT_ALREADY_THERE, EXIT_UNUSABLE, PROTOCOL, VERSION, system
from .connection import Connection
from .console_watch import ConsoleWatch
from .files import JSONObject, Places, read_json, write_json
from .gpus import Gpus
from .handover import HandOvers
from .launch import raise_own_limits
from .loop import Loop
from .operations import OPERATIONS
from .ordering import Refused, give_back
from .prober import Prober
from .roster import Roster
from .setups import remove_unused
from .snapshot import capture_in_child, load, login_environment, snapshot_key
from .telling import LineReader, make_fifo

_LONGEST_SOCKET_PATH = 107
_SAMPLE_EVERY_MS = 5_000
_ACCEPT_AGAIN_MS = 200
_CLAIM_TRIES = 6


class Unusable(Exception):
    """The agent can't start; `status` is its exit status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Agent:
    """Everything one agent knows."""

    def __init__(self, root: str, socket_path: str, idle_exit_s: Optional[float]) -> None:
        self.places = Places(os.path.abspath(root))
        self.inherited = raise_own_limits()
        self.environment = login_environment(os.environ)
        self.is_leaving = False
        self._socket_path = os.path.abspath(socket_path)
        self._idle_exit_ms = None if idle_exit_s is None else int(idle_exit_s * 1000)
        self._connections: list[Connection] = []
        self._sampled_at: dict[str, int] = {}
        self._lock = _claim(self.places)
        self._epoch = int((read_json(self.places.epoch) or {}).get("epoch", 0))
        self._listener = _listen(self._socket_path)
        self._loop = Loop()
        self.roster = Roster(self.places, self._loop, self._report_run)
        self.hand_overs = HandOvers(self.places.sessions, self._loop)
        self._prober = Prober(self._loop, self.places.root)
        self._gpus = Gpus(self._prober.ask)
        self.console = ConsoleWatch(
            self.places.console, self._loop, lambda: give_back(self), self._tell_watchers
        )

    def serve(self) -> None:
        """Work until told to leave. Jobs go on."""
        system.become_subreaper()
        os.chdir("/")
        self._loop.on_signal(signal.SIGCHLD, self._reap)
        self._loop.on_signal(signal.SIGTERM, self._leave)
        self._loop.on_signal(signal.SIGINT, self._leave)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        inbox = LineReader(make_fifo(self.places.inbox))
        self._loop.on_readable(inbox.descriptor, lambda: self._hear(inbox))
        self.roster.adopt_all()
        self.hand_overs.sweep()
        self.empty_trash()
        self._in_background(lambda: remove_unused(self.places.setups))
        self._warm_up()
        self.console.begin()
        self._mind_listener()
        self._write_card()
        self._mind_idleness()
        while not self.is_leaving:
            self._loop.turn()
        self._say_goodbye()

    def _leave(self) -> None:
        self.is_leaving = True

    def _say_goodbye(self) -> None:
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket_path)

    def _write_card(self) -> None:
        me = {"v": 1, "pid": os.getpid(), "version": VERSION, "protocol": [PROTOCOL]}
        write_json(self.places.card, {**me, "socket": self._socket_path, "at_ms": system.now_ms()})

    def _warm_up(self) -> None:
        """Have the shell's start-up files read before the first job waits for it."""
        key = snapshot_key(self.environment)
        if load(self.places, key, self.environment) is None:
            with contextlib.suppress(OSError):  # no process could be started: the job tries again
                capture_in_child(self.places, key, self.environment)

    def empty_trash(self) -> None:
        """Remove what was thrown away, in a process of its own."""
        if os.listdir(self.places.trash):
            self._in_background(self.roster.empty_trash)

    @staticmethod
    def _in_background(work: Callable[[], None]) -> None:
        try:
            if os.fork():
                return
        except OSError:
            return  # what is done in the background can wait for the next time
        try:
            signal.set_wakeup_fd(-1)
            system.close_descriptors()
            os.nice(10)
            work()
        finally:
            os._exit(0)

    def fence(self, epoch: int) -> None:
        """Refuse an older leader than the youngest ever seen; remember a younger one durably."""
        if epoch < self._epoch:
            message = f"epoch {epoch} is over; epoch {self._epoch} has been here"
            raise Refused("fenced", message, epoch=self._epoch)
        if epoch > self._epoch:
            write_json(self.places.epoch, {"v": 1, "epoch": epoch}, durable=True)
            self._epoch = epoch

    # -- clients ---------------------------------------------------------------------------------

    def _mind_listener(self) -> None:
        self._loop.on_readable(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            client, _address = self._listener.accept()
        except OSError:
            # Out of descriptors, say: nothing is gained by trying again at once.
            self._loop.forget(self._listener.fileno())
            self._loop.after("accept", _ACCEPT_AGAIN_MS, self._mind_listener)
            return
        if system.peer_uid(client) not in {os.getuid(), 0}:
            client.close()
            return
        self._connections.append(Connection(client, self._loop, self._answer, self._closed))
        self._loop.cancel("idle")

    def _closed(self, connection: Connection) -> None:
        self._connections.remove(connection)
        self._mind_idleness()

    def _answer(self, connection: Connection, request: JSONObject) -> None:
        number, op = request.get("id"), request.get("op")
        if op == "probe":
            self._prober.ask(lambda answer: connection.send({"id": number, **answer}))
            return
        operation = OPERATIONS.get(str(op))
        try:
            if operation is None:
                known = ", ".join(sorted([*OPERATIONS, "probe"]))
                raise Refused("unknown_op", f"`{op}` is no operation; known are {known}")
            result = operation(self, connection, request)
            if result is None:
                return
            answer = {"id": number, "ok": True, **result}
        except Refused as refusal:
            error = {"code": refusal.code, "message": refusal.message, **refusal.more}
            answer = {"id": number, "error": error}
        except OSError as trouble:
            place = f"`{trouble.filename}`: " if trouble.filename else ""
            error = {"code": "machine", "message": f"{place}{trouble.strerror}"}
            answer = {"id": number, "error": error}
        except Exception as fault:  # noqa: BLE001 - a request must not take the agent with it
            traceback.print_exc()
            error = {"code": "fault", "message": f"a fault of the runtime: {fault!r}"}
            answer = {"id": number, "error": error}
        connection.send(answer)

    def _tell_watchers(self, line: JSONObject) -> None:
        for connection in list(self._connections):
            if connection.watches:
                connection.send(line)

    # -- what happens on the machine -------------------------------------------------------------

    def _report_run(self, report: JSONObject) -> None:
        self._tell_watchers({"event": "run", "run": report})
        if report["state"] == "ended":
            self._sampled_at.pop(report["run"], None)
            self._mind_idleness()

    def _hear(self, inbox: LineReader) -> None:
        changed: dict[str, None] = {}
        for line in inbox.lines():
            try:
                word = json.loads(line)
                run = str(word["run"])
            except (ValueError, KeyError, TypeError, RecursionError):
                # Anybody of the same user may write here.
                continue
            if run in self.roster.entries and isinstance(word.get("sample"), dict):
                self._pass_on_sample(run, word["sample"])
            else:
                changed[run] = None
        for run in changed:
            if run in self.roster.entries:
                self.roster.reread(self.roster.entries[run])

    def _pass_on_sample(self, run: str, sample: JSONObject) -> None:
        now = system.monotonic_ms()
        last = self._sampled_at.get(run)
        if last is None or now - last >= _SAMPLE_EVERY_MS:
            self._sampled_at[run] = now
            self._gpus.then(lambda: self._tell_sample(run, sample))

    def _tell_sample(self, run: str, sample: JSONObject) -> None:
        sample["gpus"] = self._gpus.used_by(run)
        self._tell_watchers({"event": "sample", "run": run, "sample": sample})

    def _reap(self) -> None:
        while True:
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._prober.child_ended(pid)

    def _mind_idleness(self) -> None:
        if self._idle_exit_ms is not None and not self._connections and not self.roster.live:
            self._loop.after("idle", self._idle_exit_ms, self._leave_if_idle)

    def _leave_if_idle(self) -> None:
        self.is_leaving = not self._connections and not self.roster.live


def _claim(places: Places) -> int:
    """Make sure that this is the only agent of its root; the descriptor must stay open."""
    try:
        places.make()
        lock = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        place = error.filename or places.root
        raise Unusable(EXIT_UNUSABLE, f"`{place}` can't be used: {error.strerror}") from error
    kind = system.file_system_type(places.root)
    if system.is_network_file_system(kind):
        raise Unusable(
            EXIT_UNUSABLE,
            f"`{places.root}` lies on a network file system ({kind}), where locks and renames of "
            "several machines meet; choose a directory on a local disk",
        )
    # A wrapper forked by an agent that was killed just then holds the lock for a moment longer.
    for _ in range(_CLAIM_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return lock
    card = read_json(places.card) or {}
    raise Unusable(
        EXIT_ALREADY_THERE,
        f"another agent serves `{places.root}` (process {card.get('pid', 'unknown')})",
    )


def _listen(path: str) -> socket.socket:
    """Bind the socket beside its place and rename it, so that whoever sees it can connect.

    Who connects before the runs are taken over waits for it.
    """
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise Unusable(
            EXIT_UNUSABLE,
            f"the socket's path `{path}` is longer than the {_LONGEST_SOCKET_PATH} bytes "
            "Linux allows; choose a shorter one",
        )
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    found = os.stat(directory)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        message = f"others than its user may write to `{directory}`, where the socket would be"
        raise Unusable(EXIT_UNUSABLE, message)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unfinished = os.path.join(directory, f".{os.getpid()}")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        listener.bind(unfinished)
        os.chmod(unfinished, 0o600)
        listener.listen(64)
        os.rename(unfinished, path)
    except OSError as error:
        raise Unusable(EXIT_UNUSABLE, f"no socket at `{path}`: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def serve(root: str, socket_path: str, idle_exit_s: Optional[float]) -> int:
    """Be the agent of a root; the exit status."""
    try:
        agent = Agent(root, socket_path, idle_exit_s)
    except Unusable as trouble:
        print(f"error[runtime/unusable]  {trouble}", file=sys.stderr)
        return trouble.status
    except OSError as trouble:
        place = f"`{trouble.filename}`: " if trouble.filename else ""
        print(f"error[runtime/unusable]  {place}{trouble.strerror}", file=sys.stderr)
        return EXIT_UNUSABLE
    agent.serve()
    return 0
