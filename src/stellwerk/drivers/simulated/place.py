"""The simulated place itself: nodes, the runs on them, and what a runtime would keep on disk there.

It outlives every driver, as machines outlive the control plane. Orders are carried out at once, by
the rules that a real runtime keeps: at most one start for a (run, generation), nothing for older
leaders. All that goes wrong on the way to it is in `driver` and `faults`.
"""

from collections.abc import Callable

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunReport
from stellwerk.core.model.workload import RunEnd, RunPhase
from stellwerk.drivers.base import DriverError, LogChunk, LogStream, StartOrder, StopOrder
from stellwerk.drivers.simulated.behaviour import Behaviour, Script
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.truth import Truth
from stellwerk.runtime.spec import PUT_ME_BACK
from stellwerk.runtime.stopping import Facts, classify

Watcher = Callable[[RunReport], None]
SIGKILL = 9
SIGTERM = 15


class SimulatedRun:
    """One run as the place knows it. ``turn`` counts changes, so that older plans for it lapse."""

    def __init__(self, order: StartOrder, behaviour: Behaviour, started_ms: int) -> None:
        self.order = order
        self.behaviour = behaviour
        self.started_ms = started_ms
        self.phase: RunPhase = "Starting"
        self.end: RunEnd | None = None
        self.notice = ""
        self.withdrawn = False
        self.ends_at_ms = 0
        self.before_notice: RunPhase = "Running"
        self.turn = 0
        self.dead = False
        self.worked_from_ms = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the run has replicas on."""
        return tuple(dict.fromkeys(rank.node for rank in self.order.ranks))


class SimulatedPlace:
    """Runs work in virtual time and keeps the truth about it."""

    def __init__(self, cluster: Cluster, clock: VirtualClock, script: Script) -> None:
        self.cluster = cluster
        self.clock = clock
        self.script = script
        self.truth = Truth(cluster)
        self.runs: dict[RunId, SimulatedRun] = {}
        self.epoch = 0
        self.down: dict[str, bool] = {}
        self._boots: dict[str, int] = {}
        self._forgotten: dict[RunId, int] = {}
        self._watchers: list[Watcher] = []

    # what a driver asks for

    def facts(self) -> Cluster:
        """The place as a probe finds it now."""
        nodes = tuple(
            replace(node, state="unreachable", note="no answer")
            if self.down.get(node.name)
            else node
            for node in self.cluster.nodes
        )
        return replace(self.cluster, nodes=nodes)

    def listing(self) -> tuple[RunReport, ...]:
        """All runs that the place remembers."""
        return tuple(self._report(run) for run in self.runs.values())

    def start(self, order: StartOrder) -> None:
        """Starts a run, or says again how it is; raises DriverError if it must not be started."""
        self._fence(order.epoch)
        known = self.runs.get(order.run)
        if known is not None:
            self._check_generation(known, order.generation)
            self._tell(known)
            return
        if self._forgotten.get(order.run, -1) >= order.generation:
            message = f"{order.run} was here and has been forgotten"
            raise DriverError("runtime/forgotten", message, final=True)
        behaviour = self.script(order)
        if behaviour.refused:
            raise DriverError(behaviour.refused, "the place refused the run", final=True)
        run = SimulatedRun(order, behaviour, self.clock.now_ms)
        absent = [node for node in run.nodes if self.down.get(node)]
        if absent:
            raise DriverError("driver/unreachable", f"{absent[0]} does not answer", final=False)
        self.runs[order.run] = run
        self.truth.began((order.run, order.generation), order.allocation, self.clock.now_ms)
        if behaviour.setup_ms or behaviour.setup_code:
            self._enter(run, "SettingUp")
            self._later(run, behaviour.setup_ms, self._set_up)
        else:
            self._work(run)

    def stop(self, order: StopOrder) -> None:
        """Gives a run notice; a run that is over or has notice already stays as it is."""
        self._fence(order.epoch)
        run = self._known(order.run)
        self._check_generation(run, order.generation)
        if run.phase in {"Ended", "Stopping"} or run.dead or order.window_end_ms:
            return
        run.notice = order.why
        run.withdrawn = False
        run.before_notice = run.phase
        self._enter(run, "Stopping")
        behaviour = run.behaviour
        if behaviour.notice == "leaves" and behaviour.leave_ms < order.grace_ms:
            self._later(run, behaviour.leave_ms, self._leave)
        elif (
            run.before_notice == "Running" and run.ends_at_ms <= self.clock.now_ms + order.grace_ms
        ):
            self._later(run, run.ends_at_ms - self.clock.now_ms, self._done)
        else:
            self._later(run, order.grace_ms, self._slain)

    def withdraw(self, run_id: RunId) -> None:
        """Takes a notice back: the run goes on with what it was doing."""
        run = self._known(run_id)
        if run.phase != "Stopping" or run.dead:
            return
        run.withdrawn = True
        self._enter(run, run.before_notice)
        remaining = max(0, run.ends_at_ms - self.clock.now_ms)
        then = self._set_up if run.before_notice == "SettingUp" else self._done
        self._later(run, remaining, then)

    def kill(self, run_id: RunId) -> None:
        """Ends a run at once."""
        run = self._known(run_id)
        if run.phase != "Ended" and not run.dead:
            self._slain(run)

    def forget(self, run_id: RunId) -> None:
        """Drops a run that is over; one that isn't stays."""
        run = self.runs.get(run_id)
        if run is None:
            return
        if run.phase != "Ended":
            raise DriverError("runtime/still-running", f"{run_id} is not over", final=True)
        del self.runs[run_id]
        self._forgotten[run_id] = run.order.generation

    def read_log(
        self, run_id: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads what a run has printed by now; all ranks print the same."""
        run = self.runs.get(run_id)
        data = b""
        if run is not None and rank in {each.rank for each in run.order.ranks}:
            if stream == "setup":
                data = run.behaviour.setup_output
            elif stream == "metrics":
                data = self._metrics(run)
            elif run.worked_from_ms:
                data = run.behaviour.output
        return LogChunk(data=data[offset : offset + limit], offset=offset, size=len(data))

    def _metrics(self, run: SimulatedRun) -> bytes:
        """The lines that the run has reported by now, or by its end."""
        until_ms = run.end.ended_at_ms if run.end else self.clock.now_ms
        worked_ms = until_ms - run.worked_from_ms if run.worked_from_ms else -1
        return b"".join(line for after_ms, line in run.behaviour.metrics if after_ms <= worked_ms)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tells of every change from now on; call the answer to be told no more."""
        self._watchers.append(watcher)

        def unwatch() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return unwatch

    # what happens to machines

    def node_dies(self, name: str) -> None:
        """A node stops with everything on it; nobody hears of the ends before it is back."""
        self.down[name] = True
        for run in self.runs.values():
            if name in run.nodes and run.phase != "Ended" and not run.dead:
                run.dead = True
                run.turn += 1
                self.truth.ended((run.order.run, run.order.generation), self.clock.now_ms)

    def node_returns(self, name: str) -> None:
        """A dead node is back with a new boot id and finds which of its runs died with it."""
        self._boots[name] = self._boots.get(name, 0) + 1
        self.down.pop(name, None)
        nodes = tuple(
            replace(node, boot_id=f"{node.boot_id.split('+')[0]}+{self._boots[name]}")
            if node.name == name
            else node
            for node in self.cluster.nodes
        )
        self.cluster = replace(self.cluster, nodes=nodes)
        for run in list(self.runs.values()):
            if run.dead and run.phase != "Ended" and not any(map(self.down.get, run.nodes)):
                self._over(run, RunEnd(how="reboot"))

    def loses_memory_of(self, run_id: RunId) -> None:
        """A run's folder is gone (a wiped disk), and the run with it."""
        run = self.runs.pop(run_id)
        if run.phase != "Ended" and not run.dead:
            self.truth.ended((run_id, run.order.generation), self.clock.now_ms)
        run.turn += 1

    # the life of a run

    def _set_up(self, run: SimulatedRun) -> None:
        if run.behaviour.setup_code:
            self._ended(run, "setup", code=run.behaviour.setup_code)
        else:
            self._work(run)

    def _work(self, run: SimulatedRun) -> None:
        run.worked_from_ms = self.clock.now_ms
        self._enter(run, "Running")
        self._later(run, run.behaviour.run_ms, self._done)

    def _done(self, run: SimulatedRun) -> None:
        self._ended(run, "ranks", run.behaviour.code, run.behaviour.signal)

    def _leave(self, run: SimulatedRun) -> None:
        code = run.behaviour.leave_code
        self._ended(run, "ranks", code or 0, SIGTERM if code is None else None)

    def _slain(self, run: SimulatedRun) -> None:
        self._ended(run, "ranks" if run.phase == "Stopping" else "killed", 0, SIGKILL)

    def _ended(self, run: SimulatedRun, cause: str, code: int, signal: int | None = None) -> None:
        """Ends a run with the meaning that the real runtime gives to such an end."""
        end = classify(
            Facts(
                cause=cause,
                code=code if signal is None else 128 + signal,
                signal=signal,
                notice=run.notice or None,
                withdrawn=run.withdrawn,
                reached_by_it=False,
                reaped_codes=frozenset(),
                put_me_back=frozenset([PUT_ME_BACK, *run.order.recover_on_exit_codes]),
                done_said=False,
                wrote_checkpoint=run.behaviour.checkpoints,
            )
        )
        self._over(run, RunEnd(**end._asdict()))

    def _over(self, run: SimulatedRun, end: RunEnd) -> None:
        now_ms = self.clock.now_ms
        run.end = replace(
            end,
            started_at_ms=run.started_ms,
            ended_at_ms=now_ms,
            last_lines=run.behaviour.last_lines,
            peak_memory_bytes=run.behaviour.peak_memory_bytes,
        )
        if not run.dead:
            self.truth.ended((run.order.run, run.order.generation), now_ms)
        run.dead = True
        self._enter(run, "Ended")

    def _enter(self, run: SimulatedRun, phase: RunPhase) -> None:
        run.phase = phase
        run.turn += 1
        self._tell(run)

    def _later(
        self, run: SimulatedRun, delay_ms: int, then: Callable[[SimulatedRun], None]
    ) -> None:
        turn = run.turn
        if run.phase != "Stopping":
            run.ends_at_ms = self.clock.now_ms + delay_ms

        def due() -> None:
            if run.turn == turn:
                then(run)

        self.clock.after(delay_ms, due)

    # rules and reports

    def _fence(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise DriverError(
                "runtime/old-epoch", f"epoch {epoch} is over; epoch {self.epoch} leads", final=True
            )
        self.epoch = epoch

    def _known(self, run_id: RunId) -> SimulatedRun:
        run = self.runs.get(run_id)
        if run is None:
            raise DriverError("runtime/unknown-run", f"there is no run {run_id}", final=True)
        return run

    @staticmethod
    def _check_generation(run: SimulatedRun, generation: int) -> None:
        if generation != run.order.generation:
            raise DriverError(
                "runtime/other-generation",
                f"{run.order.run} is at generation {run.order.generation}, not {generation}",
                final=True,
            )

    def _report(self, run: SimulatedRun) -> RunReport:
        return RunReport(
            cluster=self.cluster.name,
            run=run.order.run,
            generation=run.order.generation,
            phase=run.phase,
            end=run.end,
            at_ms=self.clock.now_ms,
        )

    def _tell(self, run: SimulatedRun) -> None:
        report = self._report(run)
        for watcher in tuple(self._watchers):
            watcher(report)
