"""Runs one command inside a run for somebody outside: the keeper's side of the connection.

The keeper starts the command with what the job's processes are started with, carries its streams,
and tells how it ended. It speaks with the caller itself; the agent has only handed over the
connection. When the caller hangs up, the command and all it has started end. What a command leaves
behind that ended by itself goes on, at most until the run ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple, Optional

from . import frames, processes
from .files import JSONObject, to_json
from .guest_start import Guest, GuestRefused, read_wish, set_size, start_guest
from .launch import Inherited
from .meter import Meter
from .system import become_subreaper

_MOST_UNREAD = 512 * 1024
_READ = 64 * 1024
_HANG_UP_MS = 2_000
_QUIET_MS = 50
_DRAIN_MS = 1_000
_UNHELD_MS = 200
_WAIT_S = 10.0
_LONGEST_WAIT_MS = 60_000
_END_OF_TRANSMISSION = b"\x04"
RUN_ENDED = "run_ended"


class GuestPlace(NamedTuple):
    """Where a guest is: in which environment and folder of which run."""

    sessions: str
    """The folder in which the agent waits for keepers."""
    env: dict[str, str]
    cwd: str
    top: str
    inherited: Inherited


def keep(token: str, place: GuestPlace, meter: Meter) -> None:
    """Take over the connection that the agent hands out for this token, and serve it."""
    become_subreaper()
    handed = _fetch(place.sessions, token)
    if handed is not None:
        client, number = handed
        client.setblocking(False)
        Keeper(client, place, meter).serve(to_json({"id": number, "ok": True}) + b"\n")


def _fetch(sessions: str, token: str) -> Optional[tuple[socket.socket, object]]:
    """The caller's connection and the number of their request; None if the agent gave up."""
    folder = os.open(sessions, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.settimeout(_WAIT_S)
        try:
            # The path may be longer than a socket's may be.
            agent.connect(f"/proc/self/fd/{folder}/{token}")
            said, descriptors, _flags, _address = socket.recv_fds(agent, 4096, 1)
        except OSError:
            return None
        finally:
            os.close(folder)
    if not descriptors:
        return None
    os.set_inheritable(descriptors[0], False)
    return socket.socket(fileno=descriptors[0]), json.loads(said).get("id")


class Keeper:
    """The life of one guest."""

    def __init__(self, client: socket.socket, place: GuestPlace, meter: Meter) -> None:
        self._client: Optional[socket.socket] = client
        self._place = place
        self._meter = meter
        self._has_warned = False
        self._reader = frames.FrameReader()
        self._outgoing = bytearray()
        self._guest: Optional[Guest] = None
        self._input = bytearray()
        self._input_ends = False
        self._code: Optional[int] = None
        self._is_told = False
        self._left: dict[int, int] = {}
        """How much of what each pipe held when the command had ended is still to be told."""
        self._drain_until = 0
        self._hung_up_at: Optional[int] = None
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._run_ends())

    def serve(self, greeting: bytes) -> None:
        """Until the command has ended, everything is told, and nothing of it is left."""
        self._outgoing += greeting
        while self._client is not None or self._has_children():
            ready = self._wait()
            if self._woken in ready:
                os.read(self._woken, 4096)
            self._reap()
            if self._meter.grace_s and not self._has_warned:
                self._warn()
            if self._client is not None and self._client.fileno() in ready:
                self._talk()
            guest = self._guest
            if guest is not None:
                if not ready:
                    self._listen_again(guest)
                for descriptor in [fd for fd in guest.outputs if fd in ready]:
                    self._carry_output(guest, descriptor)
                if guest.input is not None and (guest.input in ready or not self._input):
                    self._carry_input(guest, guest.input)
            self._finish()

    # -- waiting ---------------------------------------------------------------------------------

    def _wait(self) -> set[int]:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if self._client is not None:
            wanted = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
            poll.register(self._client.fileno(), wanted)
        guest = self._guest
        if guest is not None:
            takes_output = len(self._outgoing) < _MOST_UNREAD
            for descriptor in guest.outputs if takes_output else ():
                writes = descriptor == guest.input and self._input
                poll.register(descriptor, select.POLLIN | (select.POLLOUT if writes else 0))
            if guest.input is not None and self._input:
                is_known = takes_output and guest.input in guest.outputs
                if not is_known:
                    poll.register(guest.input, select.POLLOUT)
        return {descriptor for descriptor, _event in poll.poll(self._wait_ms())}

    def _wait_ms(self) -> int:
        if self._hung_up_at is not None:
            return 100
        if self._guest is not None and self._is_unheld(self._guest):
            return _UNHELD_MS
        if self._code is not None and not self._is_told and len(self._outgoing) < _MOST_UNREAD:
            return _QUIET_MS
        return _LONGEST_WAIT_MS

    # -- the caller ------------------------------------------------------------------------------

    def _talk(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            if self._outgoing:
                del self._outgoing[: client.send(self._outgoing)]
        except BlockingIOError:
            pass  # it is told later
        except OSError:
            self._hang_up()
            return
        try:
            data = client.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        try:
            for kind, content in self._reader.frames(data):
                self._hear(kind, content)
        except frames.FrameError:
            self._hang_up()

    def _hear(self, kind: bytes, content: bytes) -> None:
        if kind == frames.COMMAND and self._guest is None and self._code is None:
            self._start(content)
        elif kind == frames.INPUT and not self._input_ends:
            self._take_input(content)
        elif kind == frames.END_OF_INPUT:
            self._input_ends = True
        elif kind == frames.SIZE and self._guest is not None and self._guest.terminal is not None:
            set_size(self._guest.terminal, *frames.read_size(content))
        elif kind == frames.SIGNAL and len(content) == 1:
            self._signal(content[0])

    def _warn(self) -> None:
        """Say to whoever sits at the guest's terminal that the run was given notice."""
        self._has_warned = True
        if self._guest is not None and self._guest.has_terminal and not self._is_told:
            left_s = self._meter.grace_s - 1
            said = f"this job has to end within {left_s} s, and this session with it"
            self._outgoing += frames.frame(frames.OUTPUT, f"\r\n\astellwerk: {said}\r\n".encode())

    def _take_input(self, content: bytes) -> None:
        if self._guest is not None and self._guest.input is None:
            self._outgoing += frames.taken(len(content))  # nobody reads it, nobody waits for it
            return
        self._input += content
        typed = self._guest is not None and self._guest.has_terminal
        self._meter.count(len(content), typed=typed)
        if len(self._input) > 2 * frames.WINDOW:
            raise frames.FrameError("more input than the window takes")

    def _start(self, content: bytes) -> None:
        try:
            wish = read_wish(content)
            self._guest = start_guest(wish, self._place)
        except GuestRefused as refusal:
            self._tell_end(refusal.exit_code, refusal.code, str(refusal))

    def _signal(self, number: int) -> None:
        if self._guest is not None and self._code is None and 0 < number < signal.NSIG:
            try:
                os.killpg(self._guest.pid, number)
            except (ProcessLookupError, PermissionError):
                return  # it has ended, or is somebody else's by now

    def _hang_up(self) -> None:
        """The caller has gone: what goes on for them ends."""
        was_over = self._is_told
        if self._client is not None:
            self._client.close()
            self._client = None
        self._outgoing.clear()
        if not was_over and self._hung_up_at is None:
            self._hung_up_at = _now_ms()
            for process in processes.descendants(os.getpid(), processes.everything()):
                processes.send(process, signal.SIGHUP)
                processes.send(process, signal.SIGCONT)

    # -- the command -----------------------------------------------------------------------------

    def _carry_output(self, guest: Guest, descriptor: int) -> None:
        left = self._left.get(descriptor, -1)
        try:
            data = os.read(descriptor, _READ if left < 0 else min(_READ, left) or _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal that everybody has let go of
        if not data:
            self._let_go(guest, descriptor)
            return
        if self._client is not None and not self._is_told:
            kind = guest.outputs[descriptor]
            self._meter.count(len(data), typed=False)
            for start in range(0, len(data), frames.PIECE):
                self._outgoing += frames.frame(kind, data[start : start + frames.PIECE])
        if left > 0:
            self._left[descriptor] = left - len(data)

    def _let_go(self, guest: Guest, descriptor: int) -> None:
        self._left.pop(descriptor, None)
        if guest.has_terminal and self._code is None:
            # Programs close their streams before they end: to close the terminal now would be a
            # hang-up, and kill them on their way out.
            guest.outputs.pop(descriptor, None)
            return
        guest.let_go(descriptor)

    def _listen_again(self, guest: Guest) -> None:
        """A terminal that nobody held a moment ago may have been opened again."""
        if self._is_unheld(guest) and guest.terminal is not None:
            guest.outputs[guest.terminal] = frames.OUTPUT

    def _is_unheld(self, guest: Guest) -> bool:
        return guest.has_terminal and self._code is None and not guest.outputs

    def _carry_input(self, guest: Guest, descriptor: int) -> None:
        try:
            if self._input:
                count = os.write(descriptor, self._input[: frames.PIECE])
                del self._input[:count]
                self._outgoing += frames.taken(count)
            if self._input_ends and not self._input:
                self._end_input(guest, descriptor)
        except BlockingIOError:
            return
        except OSError:
            self._refuse_input(guest, descriptor)

    @staticmethod
    def _end_input(guest: Guest, descriptor: int) -> None:
        if guest.has_terminal:
            os.write(descriptor, _END_OF_TRANSMISSION)
            guest.input = None
        else:
            guest.let_go(descriptor)

    def _refuse_input(self, guest: Guest, descriptor: int) -> None:
        """Nobody reads it any more: the rest counts as taken, so that the caller can go on."""
        if self._input:
            self._outgoing += frames.taken(len(self._input))
            self._input.clear()
        guest.input = None
        if not guest.has_terminal:
            os.close(descriptor)

    def _has_children(self) -> bool:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._guest is not None and pid == self._guest.pid:
                self._listen_again(self._guest)
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code
                self._left = self._guest.still_held()
                self._drain_until = _now_ms() + _DRAIN_MS

    def _finish(self) -> None:
        """Tell the end after all output; let go of a caller who knows; kill after a hang-up."""
        if self._code is not None and not self._is_told and self._is_drained():
            self._tell_end(self._code)
        if self._is_told and not self._outgoing and self._client is not None:
            self._client.close()
            self._client = None
        if self._hung_up_at is not None and _now_ms() - self._hung_up_at >= _HANG_UP_MS:
            processes.kill_all_below(os.getpid(), passes=2)

    def _is_drained(self) -> bool:
        guest = self._guest
        if guest is None or self._client is None:
            return True
        if not guest.has_terminal:
            return not any(self._left.get(fd) for fd in guest.outputs)
        if len(self._outgoing) >= _MOST_UNREAD:
            self._drain_until = _now_ms() + _DRAIN_MS
            return False
        # A terminal passes on what was written a moment ago; it is over when everybody let go.
        if not guest.outputs:
            return True
        poll = select.poll()
        for descriptor in guest.outputs:
            poll.register(descriptor, select.POLLIN)
        return not poll.poll(_QUIET_MS) or _now_ms() > self._drain_until

    def _tell_end(self, code: int, error: str = "", message: str = "") -> None:
        self._code, self._is_told = code, True
        said: JSONObject = {"code": code}
        if error:
            said["error"] = {"code": error, "message": message}
        self._outgoing += frames.frame(frames.ENDED, to_json(said))

    def _run_ends(self) -> None:
        """The wrapper says that nothing of the job is left: end everything, and say so."""
        processes.kill_all_below(os.getpid())
        if self._client is not None and not self._is_told:
            self._tell_end(125, RUN_ENDED, "the run has ended, and the command with it")
            self._client.settimeout(0.1)
            _attempt(self._client, bytes(self._outgoing))
        os._exit(0)


def _attempt(client: socket.socket, data: bytes) -> None:
    send: Callable[[bytes], None] = client.sendall
    try:
        send(data)
    except OSError:
        return  # the caller has gone or doesn't read; they see the connection end


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
