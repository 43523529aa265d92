"""Runs one run on this machine from its first process to its last, and writes down how it ended.

One wrapper per run, forked by the agent, in a session of its own; it goes on when the agent dies.
It never touches the output: the processes write to their files themselves. The run is over when
no child is left, and as a subreaper the wrapper is the parent of every orphan of the job.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import NamedTuple, Optional

from . import processes, stopping
from .files import JSONObject, Places, sync_directory, write_json
from .launch import Inherited, SpawnError, spawn
from .limits import Limits
from .loop import Loop
from .notice import Hands, Notice
from .ranks import Processes
from .sampling import Sampler, oom_kills
from .setups import BUSY, CACHED, SetupGate
from .snapshot import Shell, capture_in_child, load, snapshot_key
from .spec import Spec, read_signals
from .status import status_record
from .system import become_subreaper, boot_id, now_ms
from .telling import LineReader, tell

_KILL_AFTER_MS = 5_000
_LEFT_OVER_AFTER_MS = 300
_KILL_AGAIN_MS = 40
_KILL_AGAIN_AT_MOST_MS = 2_000
_SETUP_LOOK_MS = 100
_POKE_AGAIN_MS = 500
_SYNC_CLAIM_MS = 250
_KILLED = 128 + int(signal.SIGKILL)


class Order(NamedTuple):
    """What the agent hands over to a wrapper."""

    places: Places
    spec: Spec
    secrets: Mapping[str, str]
    environment: Mapping[str, str]
    inherited: Inherited
    control: int
    """The descriptor on which orders come."""


class Wrapper:
    """The life of one run."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.spec = order.spec
        self.files = order.places.run(order.spec.run)
        self.loop = Loop()
        self.sampler = Sampler()
        self.started_at_ms = now_ms()
        self.phase, self.detail, self.setup_state = "setting_up", "", "none"
        self.shell: JSONObject = {"source": "none", "why_plain": None}
        self.message: Optional[str] = None
        self.cause: Optional[str] = None
        self.setup_code: Optional[int] = None
        self.codes: dict[int, int] = {}
        self.signals: dict[int, int] = {}
        self.first_failed: Optional[int] = None
        self.reaped_codes: set[int] = set()
        self.left_over: list[str] = []
        self.log_over = False
        self.oom_kills_before = oom_kills()
        self.commands: Optional[Processes] = None
        self.rank_of: dict[int, int] = {}
        self.setup_pid: Optional[int] = None
        self._capture_pid: Optional[int] = None
        self._gate = SetupGate(order.places.setups, order.spec.setup_key)
        self._ending_ranks = False
        self._kill_again_ms = _KILL_AGAIN_MS
        self._is_over = False
        self._has_orphans = True
        self.limits = Limits(
            order.spec,
            self.files,
            self.loop,
            lambda why, grace_ms: self._give_notice(why, grace_ms, order.spec.term_signals),
            self._log_is,
        )
        self.notice = Notice(
            Hands(self.loop, self.files, self._own_shells, self.changed, self.kill_everything)
        )

    def run(self) -> None:
        """From the first file to the last process. Returns when nothing of the job is left."""
        self._has_orphans = become_subreaper()
        try:
            self._write_started()
        except OSError as error:
            self.message = f"`{self.files.started}` can't be written: {error.strerror}"
            self.cause = "spawn"
            return
        control = LineReader(self.order.control)
        self.loop.on_readable(control.descriptor, lambda: self._take_orders(control))
        self.loop.on_signal(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self._find_shell()
        while not self._is_over:
            self.loop.turn()

    def _write_started(self) -> None:
        me = processes.look_up(os.getpid())
        started: JSONObject = {"v": 1, "pid": os.getpid(), "starttime": me.started if me else 0}
        started.update(boot_id=boot_id(), at_ms=self.started_at_ms)
        write_json(self.files.started, started)

    # -- orders and limits -----------------------------------------------------------------------

    def _take_orders(self, control: LineReader) -> None:
        for line in control.lines():
            try:
                order = json.loads(line)
                self._obey(order, str(order["op"]))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                # The job may write here too, being the same user: nonsense is noted, not obeyed.
                self.message = f"an order could not be read: {error!r}"

    def _obey(self, order: JSONObject, op: str) -> None:
        if op == "stop" and order["why"] in stopping.WHYS:
            grace_ms = order.get("grace_ms")
            signals = self.spec.term_signals
            if order.get("signals"):
                signals = read_signals(order["signals"], lambda _field, _message: None)
            self._give_notice(
                order["why"], self.spec.grace_ms if grace_ms is None else int(grace_ms), signals
            )
        elif op == "withdraw":
            self.notice.withdraw()
            if self.phase == "stopping":
                self.phase = "setting_up" if self.setup_pid is not None else "running"
            if self.cause is not None:
                self.loop.after("left over", _LEFT_OVER_AFTER_MS, self._end_left_over)
            self.changed()
        elif op == "kill":
            self.cause = self.cause or "killed"
            self.changed()
            self.kill_everything()

    def _give_notice(
        self, why: str, grace_ms: int, signals: list[tuple[int, Optional[int]]]
    ) -> None:
        nothing_runs = self.setup_pid is None and not self.rank_of and not self.codes
        self.phase = "stopping"
        self.notice.give(why, grace_ms, signals)
        if nothing_runs:
            self._begin_end("not_started")
            self.kill_everything()

    def _log_is(self, size: int) -> None:
        if size > self.spec.log_limit_bytes and not self.log_over:
            self.log_over = True
            self.changed()
        if size > 2 * self.spec.log_limit_bytes and self.cause is None:
            self.cause = "log_limit"
            self.message = f"the logs had grown to {size} bytes, twice their limit, and went on"
            self._end_gently()

    # -- the shell and the setup -----------------------------------------------------------------

    def _find_shell(self) -> None:
        environment = self.order.environment
        if self.spec.inherit_env:
            self._have_shell(Shell({}, None, None), "given")
        elif self.spec.shell == "interactive":
            self._have_shell(Shell(dict(environment), None, None), "interactive")
        else:
            key = snapshot_key(environment)
            found = load(self.order.places, key, environment)
            if found is not None:
                self._have_shell(found, "snapshot")
                return
            self.detail = "reading the shell's start-up files"
            self.changed()
            try:
                self._capture_pid = capture_in_child(self.order.places, key, environment)
            except OSError as error:
                why = f"the shell's start-up files can't be read: {error.strerror}"
                self._have_shell(Shell(dict(environment), None, why), "plain")

    def _after_capture(self) -> None:
        environment = self.order.environment
        found = load(self.order.places, snapshot_key(environment), environment)
        if found is None:
            found = Shell(dict(environment), None, "the shell's start-up files could not be read")
        self._have_shell(found, "snapshot")

    def _have_shell(self, shell: Shell, source: str) -> None:
        is_plain = shell.why_plain is not None
        self.shell = {"source": "plain" if is_plain else source, "why_plain": shell.why_plain}
        self.commands = Processes(self.spec, self.files, self.order.secrets, shell)
        try:
            self.commands.prepare(self.order.inherited.umask)
        except OSError as error:
            self._fail(f"`{error.filename}` can't be made: {error.strerror}")
            return
        self.loop.after("sample", self.sampler.next_in_ms(), self._sample)
        self._set_up(self.commands)

    def _set_up(self, commands: Processes) -> None:
        """Run the setup, skip it where its result is known, or wait for another run's same one."""
        if self.notice.in_force or self.cause is not None:
            self._begin_end("not_started")
        elif self.spec.setup is None:
            self._start_ranks(commands)
        else:
            entered = self._gate.enter()
            if entered == CACHED:
                self.setup_state = "cached"
                self._start_ranks(commands)
            elif entered == BUSY:
                if not self.detail:
                    self.detail = "waiting for the same setup of another run"
                    self.changed()
                self.loop.after("setup", _SETUP_LOOK_MS, lambda: self._set_up(commands))
            else:
                self.setup_state, self.detail = "running", ""
                self.setup_pid = self._spawn_or_fail(commands, None)
                self.changed()

    def _spawn_or_fail(self, commands: Processes, rank: Optional[int]) -> Optional[int]:
        try:
            if rank is None:
                return spawn(commands.setup(), self.order.inherited)
            return spawn(commands.rank(self.spec.ranks[rank]), self.order.inherited)
        except (SpawnError, OSError) as error:
            self._fail(str(error))
            return None

    def _setup_ended(self, code: int) -> None:
        self.setup_pid, self.setup_code = None, code
        self.setup_state = "ok" if code == 0 else "failed"
        if code == 0:
            try:
                self._gate.succeeded(self.spec.run)
            except OSError as error:
                self.message = f"the setup will run again next time: {error.strerror}"
        if code != 0:
            self._begin_end("setup")
        elif self.notice.in_force or self.cause is not None or self.commands is None:
            self._begin_end("not_started")
        else:
            self._start_ranks(self.commands)

    # -- ranks -----------------------------------------------------------------------------------

    def _start_ranks(self, commands: Processes) -> None:
        self.phase, self.detail = "running", ""
        commands.choose_meeting_point()
        for index, rank in enumerate(self.spec.ranks):
            pid = self._spawn_or_fail(commands, index)
            if pid is None:
                return
            self.rank_of[pid] = rank.rank
        self.changed()
        self.loop.after("claim", _SYNC_CLAIM_MS, self._sync_claim)

    def _sync_claim(self) -> None:
        """Make the claim outlive a power cut. A start is waited for, and a short run needs none."""
        try:
            sync_directory(self.files.directory)
            sync_directory(self.order.places.runs)
        except OSError as error:
            self.message = f"the claim of this run may not outlive a power cut: {error.strerror}"

    def _own_shells(self) -> set[int]:
        """Shells that have our trap and wait for their command."""
        shells = set() if self.setup_pid is None else {self.setup_pid}
        if self.spec.argv is None and not (self.commands and self.commands.script_has_own_trap):
            shells |= set(self.rank_of)
        return shells

    def _rank_ended(self, rank: int, status: int) -> None:
        code = _KILLED if self._ending_ranks else _exit_code(status)
        self.codes[rank] = code
        if status < 0 and not self._ending_ranks:
            self.signals[rank] = -status
        if code != 0 and self.first_failed is None:
            self.first_failed = rank
        if not self.rank_of:
            self._begin_end("ranks")
            return
        if code != 0 and not self._ending_ranks and not self.notice.in_force:
            self._ending_ranks = True
            self.message = f"rank {rank} ended with exit code {code}; then the others were ended"
            self._end_gently()
        self.changed()

    def _sample(self) -> None:
        sample = self.sampler.take()
        line: JSONObject = {"run": self.spec.run, "sample": dict(sample._asdict())}
        line["sample"].update(at_ms=now_ms(), log_bytes=self.limits.log_bytes())
        tell(self.order.places.inbox, line)
        self.loop.after("sample", self.sampler.next_in_ms(), self._sample)

    # -- the end ---------------------------------------------------------------------------------

    def _fail(self, message: str) -> None:
        self.message = message
        self._begin_end("spawn")
        self.kill_everything()

    def _begin_end(self, cause: str) -> None:
        """The user's own commands are over; what is left of theirs gets a moment, then signals."""
        self.cause = self.cause or cause
        self._gate.leave()
        if not self.notice.in_force:
            self.loop.after("left over", _LEFT_OVER_AFTER_MS, self._end_left_over)
        self.loop.after("reap", 0, self._reap)

    def _end_left_over(self) -> None:
        left = processes.descendants(os.getpid(), processes.everything())[:20]
        self.left_over = [" ".join(processes.arguments(p.pid))[:200] or p.name for p in left]
        self._end_gently()
        self.changed()

    def _end_gently(self) -> None:
        for process in processes.descendants(os.getpid(), processes.everything()):
            processes.send(process, signal.SIGTERM)
        self.loop.after("kill", _KILL_AFTER_MS, self.kill_everything)

    def kill_everything(self) -> None:
        """SIGKILL until no process of the job is left."""
        self.notice.stop_acting()
        self.loop.cancel("left over", "setup")
        processes.kill_all_below(os.getpid(), passes=2)
        # A process that waits for a dead file server dies late: look less and less often.
        self._kill_again_ms = min(_KILL_AGAIN_AT_MOST_MS, self._kill_again_ms * 3 // 2)
        self.loop.after("kill", self._kill_again_ms, self.kill_everything)
        self.loop.after("reap", 0, self._reap)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_over = self.cause is not None and self._has_no_strays()
                return
            if pid == 0:
                return
            self._child_ended(pid, os.waitstatus_to_exitcode(status))

    def _has_no_strays(self) -> bool:
        """Whether nothing is left where the kernel doesn't hand us the orphans; kills what is."""
        if self._has_orphans:
            return True
        everything = processes.everything()
        strays = processes.marked(self.spec.run, everything, self.files.directory, set())
        for pid in strays:
            processes.send_to_pid(pid, signal.SIGKILL)
        self.loop.after("reap", _KILL_AGAIN_MS, self._reap)
        return not strays

    def _child_ended(self, pid: int, status: int) -> None:
        if pid == self._capture_pid:
            self._capture_pid = None
            self._after_capture()
        elif pid == self.setup_pid:
            self._setup_ended(_exit_code(status))
        elif pid in self.rank_of:
            self._rank_ended(self.rank_of.pop(pid), status)
        elif self.notice.why is not None:
            self.reaped_codes.add(_exit_code(status))

    # -- what others see -------------------------------------------------------------------------

    def changed(self) -> None:
        """Write the status and tell the agent."""
        try:
            write_json(self.files.status, status_record(self))
        except OSError as error:
            # A full disk must not end the job; the end itself is tried for longer.
            self.message = f"the status can't be written: {error.strerror}"
        self.poke()

    def poke(self) -> None:
        """Tell the agent that the files of this run are worth a look."""
        if not tell(self.order.places.inbox, {"run": self.spec.run}):
            self.loop.after("poke", _POKE_AGAIN_MS, self.poke)


def _exit_code(status: int) -> int:
    """What a shell would call the end: 128 + n after signal n."""
    return status if status >= 0 else 128 - status
