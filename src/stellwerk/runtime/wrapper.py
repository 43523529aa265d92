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
from typing import Optional

from . import claims, preparation, processes, stopping
from .files import JSONObject, sync_directory, write_json
from .gang import Barrier
from .gang import Hands as BarrierHands
from .guest_session import GuestPlace
from .guests import Guests
from .launch import APPEND, SpawnError, is_of_machine, spawn
from .launches import OF_MPI, Launches
from .limits import Limits
from .loop import Loop
from .notice import Hands, Notice
from .preparation import Order, Preparation
from .ranks import Processes
from .sampling import Sampler, oom_kills
from .slurm import ENDS_IN_MS, PUT_BACK
from .spec import read_signals
from .status import status_record
from .system import become_subreaper, boot_id, exit_code, now_ms
from .telling import LineReader, tell

_KILL_AFTER_MS = 5_000
_LEFT_OVER_AFTER_MS = 300
_KILL_AGAIN_MS = 40
_KILL_AGAIN_AT_MOST_MS = 2_000
_POKE_AGAIN_MS = 500
_SYNC_CLAIM_MS = 250
_NO_PROGRAM = (126, 127)
_KILLED = 128 + int(signal.SIGKILL)


class Wrapper:
    """The life of one run."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.spec = order.spec
        self.files = order.places.run(order.spec.run)
        self.loop = Loop()
        self.sampler = Sampler()
        self.started_at_ms = now_ms()
        self.phase = "setting_up"
        self.message: Optional[str] = None
        self.cause: Optional[str] = None
        self.codes: dict[int, int] = {}
        self.signals: dict[int, int] = {}
        self.first_failed: Optional[int] = None
        self.reaped_codes: set[int] = set()
        self.left_over: list[str] = []
        self.of_machine = False
        self.spawn_code: Optional[int] = None
        self.log_over = False
        self.oom_kills_before = oom_kills()
        self.rank_of: dict[int, int] = {}
        self.wants_back = self._ending_ranks = False
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
        self.launches = Launches(order.spec, self.files, order.inherited, self.changed)
        self.barrier = Barrier(
            order.spec,
            BarrierHands(self.loop, self._may_go_on, self._start_ranks, self._say, self.launches),
        )
        self.before = Preparation(
            order,
            self.files,
            preparation.Hands(
                self.loop,
                self.changed,
                self._may_go_on,
                self.barrier.arrive,
                self._begin_end,
                self._fail,
            ),
        )
        self.guests = Guests(self.loop, self.kill_everything)
        self.notice = Notice(
            Hands(
                self.loop,
                self.files,
                self._own_shells,
                self._of_the_job,
                self.changed,
                self.kill_everything,
            )
        )

    def run(self) -> None:
        """From the first file to the last process. Returns when nothing of the job is left."""
        self._has_orphans = become_subreaper()
        try:
            self._write_started()
        except OSError as error:
            self.message = f"`{self.files.started}` can't be written: {error.strerror}"
            self.cause, self.of_machine = "spawn", True
            return
        root = self.order.places.root
        if self.spec.holds:
            claims.claim(root, self.spec.run, self.spec.holds)
        control = LineReader(self.order.control)
        self.loop.on_readable(control.descriptor, lambda: self._take_orders(control))
        self.loop.on_signal(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self.loop.after("sample", self.sampler.next_in_ms(), self._sample)
        self.before.begin()
        while not self._is_over:
            self.loop.turn()
        self.before.clean_up()
        self.launches.clean_up()
        if self.spec.holds:
            claims.give_back(root, self.spec.run)

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
            except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
                # The job may write here too, being the same user: nonsense is noted, not obeyed.
                self.message = f"an order could not be read: {error!r}"

    def _obey(self, order: JSONObject, op: str) -> None:
        if op == "stop" and order["why"] == stopping.PEER and self.barrier.failed_at_ms:
            return  # what failed here by itself is ending already, and may be the cause of all
        if op == "stop" and order["why"] in stopping.WHYS:
            grace_ms = order.get("grace_ms")
            signals = self.spec.term_signals
            if order.get("signals"):
                signals = read_signals(order["signals"], lambda _field, _message: None)
            self._give_notice(
                order["why"], self.spec.grace_ms if grace_ms is None else int(grace_ms), signals
            )
        elif op == "window":
            self.limits.window_ends_in(int(order["window_end_in_ms"]))
        elif op == "withdraw":
            self.notice.withdraw()
            if self.phase == "stopping":
                self.phase = "running" if self.rank_of or self.codes else "setting_up"
            if self.cause is not None:
                self.loop.after("left over", _LEFT_OVER_AFTER_MS, self._end_left_over)
            self.changed()
        elif op == "kill":
            self.cause = self.cause or "killed"
            self.changed()
            self.kill_everything()
        elif op == PUT_BACK:
            self.wants_back = self._ending_ranks = True
            self.loop.after("put back", ENDS_IN_MS, self._end_gently)
        elif op == "go":
            self.barrier.release(order.get("env"))
        elif op == "find":
            self.barrier.find(order.get("addresses"), order.get("port"))
        elif op in OF_MPI and (op != "launch" or (self._may_go_on() and self.rank_of)):
            self.launches.obey(op, order, self.before.commands)
        elif op == "exec":
            self._admit_guest(str(order["token"]), int(order["rank"]))

    def _admit_guest(self, token: str, rank: int) -> None:
        commands = self.before.commands
        if self.cause is not None or commands is None or not self.rank_of:
            return
        beside = commands.guest(rank)
        self.guests.admit(
            token,
            GuestPlace(
                self.order.places.sessions,
                beside.env,
                beside.cwd,
                beside.top,
                self.order.inherited,
            ),
        )

    def _of_the_job(self) -> list[processes.Process]:
        return processes.descendants(os.getpid(), processes.everything(), self.guests.keepers)

    def _give_notice(
        self, why: str, grace_ms: int, signals: list[tuple[int, Optional[int]]]
    ) -> None:
        nothing_runs = self.before.setup_pid is None and not self.rank_of and not self.codes
        self.phase = "stopping"
        self.notice.give(why, grace_ms, signals)
        self.guests.tell_notice(grace_ms)
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

    # -- ranks -----------------------------------------------------------------------------------

    def _may_go_on(self) -> bool:
        return not self.notice.in_force and self.cause is None

    def _say(self, detail: str) -> None:
        self.before.detail = detail
        self.changed()

    def _start_ranks(self, commands: Processes, told: Mapping[str, str]) -> None:
        self.phase, self.before.detail = "running", ""
        try:
            commands.choose_meeting_point(told)
            self.launches.prepare()
        except OSError as error:
            self._fail(f"`{error.filename}` can't be made: {error.strerror}", error)
            return
        self._write_notes()
        for rank in self.spec.ranks:
            try:
                self.rank_of[spawn(commands.rank(rank), self.order.inherited)] = rank.rank
            except (SpawnError, OSError) as error:
                self._fail(str(error), error)
                return
        self.changed()
        self.loop.after("claim", _SYNC_CLAIM_MS, self._sync_claim)

    def _write_notes(self) -> None:
        """Begin the output with what the control plane has to say of this run."""
        if not self.spec.notes:
            return
        text = "".join(f"stellwerk: {note}\n" for note in self.spec.notes)
        try:
            place = os.open(self.files.rank_log(self.spec.ranks[0].rank), APPEND, 0o600)
            with open(place, "a", encoding="utf-8") as log:
                log.write(text)
        except OSError as error:
            self.message = f"what is to be told of this run can't be written: {error.strerror}"

    def _sync_claim(self) -> None:
        """Make the claim outlive a power cut. A start is waited for, and a short run needs none."""
        try:
            sync_directory(self.files.directory)
            sync_directory(self.order.places.runs)
        except OSError as error:
            self.message = f"the claim of this run may not outlive a power cut: {error.strerror}"

    def _own_shells(self) -> set[int]:
        """Shells that have our trap and wait for their command."""
        shells = set() if self.before.setup_pid is None else {self.before.setup_pid}
        commands = self.before.commands
        if self.spec.argv is None and not (commands and commands.script_has_own_trap):
            shells |= set(self.rank_of)
        return shells

    def _rank_ended(self, rank: int, status: int) -> None:
        code = _KILLED if self._ending_ranks else exit_code(status)
        self.codes[rank] = code
        if status < 0 and not self._ending_ranks:
            self.signals[rank] = -status
        if code != 0 and self.first_failed is None:
            self.first_failed = rank
            if not self.notice.in_force:
                self.barrier.rank_failed()
                self.changed()
        if not self.rank_of:
            self._begin_end("ranks")
            return
        if code != 0 and not self._ending_ranks and not self.notice.in_force:
            self._ending_ranks = True
            self.message = f"rank {rank} ended with exit code {code}; then the others were ended"
            self._end_gently()
        self.changed()

    def _sample(self) -> None:
        sample = self.sampler.take(self.guests.keepers)
        line: JSONObject = {"run": self.spec.run, "sample": dict(sample._asdict())}
        line["sample"].update(at_ms=now_ms(), log_bytes=self.limits.log_bytes())
        line["sample"].update(self.guests.carried())
        tell(self.order.places.inbox, line)
        self.loop.after("sample", self.sampler.next_in_ms(), self._sample)

    # -- the end ---------------------------------------------------------------------------------

    def _fail(self, message: str, error: Optional[Exception] = None) -> None:
        self.message = message
        self.of_machine = error is not None and is_of_machine(error)
        if isinstance(error, SpawnError) and error.shell_code in _NO_PROGRAM:
            self.spawn_code = error.shell_code
        self._begin_end("spawn")
        self.kill_everything()

    def _begin_end(self, cause: str) -> None:
        """The user's own commands are over; what is left of theirs gets a moment, then signals."""
        self.cause = self.cause or cause
        self.before.stop()
        if not self.notice.in_force:
            self.loop.after("left over", _LEFT_OVER_AFTER_MS, self._end_left_over)
        self.loop.after("reap", 0, self._reap)

    def _end_left_over(self) -> None:
        left = self._of_the_job()[:20]
        self.left_over = [" ".join(processes.arguments(p.pid))[:200] or p.name for p in left]
        self._end_gently()
        self.changed()

    def _end_gently(self) -> None:
        for process in self._of_the_job():
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
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_over = self.cause is not None and self._has_no_strays()
                return
            if pid == 0:
                if self.cause is not None:
                    self.guests.end_if_alone()
                return
            if self.guests.child_ended(pid):
                self.sampler.leave_out(usage)
            else:
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
        if pid in self.rank_of:
            self._rank_ended(self.rank_of.pop(pid), status)
        elif (
            not self.launches.child_ended(pid, status)
            and not self.before.child_ended(pid, status)
            and self.notice.why is not None
        ):
            self.reaped_codes.add(exit_code(status))

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
