"""A whole Stellwerk in one thread, in virtual time, with faults by seed.

The journal is durable, everything in memory may vanish at any step, reports may be lost, late,
doubled or out of order, orders may be lost before or after they were carried out. The ground truth
of what was started is kept here, out of the core's sight.
"""

import random

import msgspec

from stellwerk.core.gates import resolved, settle
from stellwerk.core.intake import live_runs, missing_runs, on_command, on_lost, on_plan, on_report
from stellwerk.core.invariants import overbooks, overcharges, violations
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model import reports as rep
from stellwerk.core.model.gates import WHENS, After, ArrayPart
from stellwerk.core.model.ids import BlobHash, RunId, WorkloadId, workload_of
from stellwerk.core.model.own import OwnDecided, OwnOption
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.wishes import Wishes
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.plan import plan
from stellwerk.core.standing import OwnMade, on_own_answers
from stellwerk.core.state import State, StateImage, fold
from stellwerk.core.view import Viewer
from stellwerk.engine.standing_work import wished
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.world.images import sorted_image

SHAPES = (
    a_shape(a_request(cpus=1)),
    a_shape(a_request(cpus=3, memory_gib=4)),
    a_shape(a_request(cpus=1, gpus=1, gpu_share_gib=10)),
    a_shape(a_request(cpus=1, gpus=2), a_request(cpus=2), ordered=True),
    a_shape(a_request(cpus=1), num_nodes=3),
    msgspec.structs.replace(a_shape(a_request(cpus=1)), wishes=Wishes(objective="cost")),
)
WISHED = ((), ("room",), ("alone",), ("alone", "room"))
"""Where work with wishes may start, as a decision may find."""
ENDS = (
    RunEnd(how="exited", code=0),
    RunEnd(how="exited", code=3),
    RunEnd(how="exited", code=85, put_back=True, checkpointed=True),
    RunEnd(how="signaled", signal=9),
    RunEnd(how="reboot"),
    RunEnd(how="setup_failed", code=1),
    RunEnd(how="exited", code=1, last_lines=("MemoryError",), peak_memory_bytes=3 << 30),
    RunEnd(how="spawn_failed", message="no room for the log", of_machine=True),
)
CURSED = RunEnd(how="spawn_failed", message="no disk here", of_machine=True)
STOPPED = (
    RunEnd(how="signaled", signal=15, put_back=True, new_checkpoint=True),
    RunEnd(how="signaled", signal=9, put_back=True),
    RunEnd(how="exited", code=85, put_back=True, checkpointed=True),
    RunEnd(how="exited", code=0),
)
CLUSTERS = (
    a_cluster("alone", a_node("alone", cpus=4, gpus=2), labels={"stellwerk/gpu-jobs": "2"}),
    a_cluster("room", *(a_node(f"pc{n}", cpus=2) for n in range(3)), kind="room"),
)


class World:
    """Steps through one seed; ``check`` raises AssertionError with the seed's story.

    Under some seeds one node is ``cursed``: whatever starts there fails at once.
    """

    def __init__(self, seed: int) -> None:
        self.dice, self.wishes = random.Random(seed), random.Random(seed)
        self.journal: list[bytes] = []
        self.images: list[bytes] = []
        self.inbox: list[cmd.Command] = []
        self.accepted: dict[WorkloadId, str] = {}
        self.started: dict[tuple[RunId, int], int] = {}
        self.alive: dict[RunId, rep.RunReport] = {}
        self.over: dict[RunId, rep.RunReport] = {}
        self.mail: list[rep.Report] = []
        self.quarantined = 0
        self.opened = 0
        self.never = 0
        self.reshaped = 0
        self.orders: list[RunId] = []
        self.arrays: dict[WorkloadId, range] = {}
        self.cursed = f"pc{self.dice.randrange(3)}" if self.dice.random() < 0.5 else ""
        self.now_ms = 1_000_000
        self.taken = 0
        self.count = 0
        self.state = State()
        self.viewer = Viewer(self.state)
        for cluster in CLUSTERS:
            self._fold([ev.ClusterObserved(cluster)])

    def _fold(self, events: list[ev.Event]) -> None:
        for event in events:
            if isinstance(event, ev.RunPlanned):
                assert not overbooks(self.state, event), overbooks(self.state, event)
                assert not overcharges(self.state, event), overcharges(self.state, event)
                self._is_as_wished(event)
            record = ev.Record(
                seq=self.state.seq + 1,
                at_ms=max(self.now_ms, self.state.at_ms),
                epoch=1,
                actor="somebody",
                project="p",
                event=event,
            )
            fold(self.state, record)
            self.journal.append(msgspec.json.encode(record))
            if isinstance(event, ev.WorkloadEnded):
                self.accepted[event.id] = event.phase
            if isinstance(event, ev.NodeQuarantined):
                self.quarantined += 1
            if isinstance(event, ev.GateChanged):
                self.opened += 1
            if isinstance(event, ev.WorkloadEnded) and event.reason.code == "after_never":
                self.never += 1
            if isinstance(event, ev.Requeued) and event.shape is not None:
                self.reshaped += 1

    def _is_as_wished(self, event: ev.RunPlanned) -> None:
        shape = self.state.workloads[event.workload].shape
        if self.state.shapes[shape].shape.wishes is not None:
            ranked = self.state.standing.own[shape].ranked
            assert event.allocation.cluster in [one.cluster for one in ranked]

    def _decide_own(self, *clusters: str) -> None:
        """The worker answers; where work with wishes runs already changes nothing of it."""
        decided = OwnDecided(tuple(map(OwnOption, clusters)))
        made = [OwnMade(id, decided) for id in wished(self.state)]
        before = dict(self.state.running)
        self._fold(on_own_answers(self.state, made))
        assert self.state.running == before

    def step(self) -> None:
        """Does one thing, by the dice."""
        dice = self.dice
        self.now_ms += dice.choice((0, 5, 1_000, 60_000, -30_000))
        choice = dice.randrange(100)
        if choice < 18:
            self._submit(self._after())
        elif choice < 22:
            self._submit_array()
        elif choice < 30 and self.accepted:
            self._say()
        elif choice < 48:
            self.cycle()
        elif choice < 62:
            self._carry_out()
        elif choice < 75:
            self._end_one()
        elif choice < 77:
            self._abort_one()
        elif choice < 90:
            self._deliver()
        elif choice < 95:
            self._crash()
        else:
            self._reconcile()
        self.check()

    def _submit(self, after: tuple[After, ...], part: ArrayPart | None = None) -> None:
        self.count += 1
        key = WorkloadId(f"w-{self.count:05}")
        self.accepted[key] = "accepted"
        self.inbox.append(
            cmd.Submit(
                id=key,
                name=key,
                project="p",
                shape=self.dice.choice(SHAPES),
                task=BlobHash("0"),
                priority=self.dice.randrange(3),
                policies=self._policies(),
                after=after,
                array=part,
                queue=self._queue(),
            )
        )

    def _policies(self) -> Policies:
        """How what is submitted wants to be retried."""
        return Policies(max_restarts_on_errors=self.dice.randrange(3))

    def _queue(self) -> str:
        """The queue of what is submitted."""
        return "default"

    def _ended(self, one: After) -> str:
        """How one ended of which the state knows nothing any more."""
        if one.id.startswith("a-"):
            phases = {self.accepted[WorkloadId(f"w-{n:05}")] for n in self.arrays[one.id]}
            return "Succeeded" if phases == {"Succeeded"} else "Failed"
        return self.accepted[one.id]

    def _after(self) -> tuple[After, ...]:
        """Sometimes it waits for others, which may be over already."""
        if not self.accepted or self.dice.random() < 0.8:
            return ()
        ids = [*self.accepted, *self.arrays]
        chosen = dict.fromkeys(self.dice.choice(ids) for _ in range(self.dice.randrange(1, 4)))
        return tuple(After(self.dice.choice(WHENS), WorkloadId(id), id) for id in chosen)

    def _submit_array(self) -> None:
        """Several at once, of which only some may be under way."""
        count, limit = self.dice.randrange(1, 6), self.dice.randrange(4)
        first, after = self.count + 1, self._after()
        array = WorkloadId(f"a-{first:05}")
        for index in range(count):
            part = ArrayPart(array, array, index, count, limit=limit)
            self._submit(after, part)
        self.arrays[array] = range(first, first + count)

    def _say(self) -> None:
        key = self.dice.choice(list(self.accepted))
        self.inbox.append(
            self.dice.choice(
                (
                    cmd.Cancel(key),
                    cmd.Hold(key),
                    cmd.Release(key),
                    cmd.DeclareLost(key),
                    cmd.SetPriority(key, self.dice.randrange(5)),
                    cmd.ResumeNode("room", f"pc{self.dice.randrange(3)}"),
                )
            )
        )

    def cycle(self) -> None:
        """One cycle of the engine: commands, then a plan, then the orders that follow."""
        before = len(self.journal)
        for command in self.inbox[self.taken :]:
            asked = command
            if isinstance(asked, cmd.Submit):
                asked = resolved(self.state, asked, self._ended)
            self._fold(on_command(self.state, asked, "somebody", self.now_ms))
        self.taken = len(self.inbox)
        while opened := settle(self.state):
            self._fold(opened)
        if self.wishes.random() < 0.3:
            self._decide_own(*self.wishes.choice(WISHED))
        self._fold(on_plan(self.state, plan(self.viewer.take(max(self.now_ms, self.state.at_ms)))))
        for line in self.journal[before:]:
            event = msgspec.json.decode(line, type=ev.Record).event
            if isinstance(event, ev.RunPlanned):
                self.orders.append(event.run)

    def _carry_out(self) -> None:
        """Carries orders out; one may get lost before or after it took effect, or come twice."""
        for run in self.orders[:]:
            self.orders.remove(run)
            fate = self.dice.randrange(10)
            if fate == 0:
                continue
            self._start(run)
            if fate == 1:
                self._start(run)

    def _start(self, run: RunId) -> None:
        if run in self.alive or run in self.over:
            return
        cluster = self._cluster_of(run)
        self.started[(run, 1)] = self.started.get((run, 1), 0) + 1
        generation = int(run.rsplit("-", 1)[1])
        self.alive[run] = rep.RunReport(cluster, run, generation, "Running")
        self._mail(self.alive[run])

    def _cluster_of(self, run: RunId) -> str:
        for line in self.journal:
            event = msgspec.json.decode(line, type=ev.Record).event
            if isinstance(event, ev.RunPlanned) and event.run == run:
                return event.allocation.cluster
        raise AssertionError(f"{run} was ordered but never planned")

    def _mail(self, report: rep.Report) -> None:
        fate = self.dice.randrange(10)
        if fate:
            self.mail.append(report)
        if fate == 1:
            self.mail.append(report)

    def _end_one(self) -> None:
        if not self.alive:
            return
        run = self.dice.choice(sorted(self.alive))
        report = self.alive.pop(run)
        end = CURSED if self._is_cursed(run) else self.dice.choice(self._ends(run))
        if end is CURSED:
            end = msgspec.structs.replace(
                end, started_at_ms=self.now_ms - 20, ended_at_ms=self.now_ms
            )
        ended = msgspec.structs.replace(report, phase="Ended", end=end)
        self.over[run] = ended
        self._mail(ended)

    def _ends(self, run: RunId) -> tuple[RunEnd, ...]:
        """How a run may end now."""
        workload = self.state.workloads.get(workload_of(run))
        live = workload.live_run if workload else None
        return STOPPED if live is not None and live.notice == "preempt" else ENDS

    def _is_cursed(self, run: RunId) -> bool:
        workload = self.state.workloads.get(workload_of(run))
        live = workload.live_run if workload else None
        return live is not None and any(p.node == self.cursed for p in live.allocation.nodes)

    def _abort_one(self) -> None:
        """A rule is found to hold for a run, which may be over by the time that this is heard."""
        if self.alive:
            report = self.alive[self.dice.choice(sorted(self.alive))]
            reason = Reason("aborted_gpu_idle", {"idle_ms": 60_000})
            self._mail(rep.RuleHeld(report.cluster, report.run, report.generation, reason))

    def _deliver(self) -> None:
        self.dice.shuffle(self.mail)
        for _ in range(self.dice.randrange(4)):
            if self.mail:
                self._fold(on_report(self.state, self.mail.pop(), self.now_ms))

    def _crash(self) -> None:
        """All memory is gone; what is durable is folded again, from an image or from the start."""
        self.orders.clear()
        self.mail.clear()
        if self.dice.random() < 0.3:
            self.images.append(msgspec.json.encode(self.state.image()))
        state = State()
        if self.images and self.dice.random() < 0.7:
            state = State.from_image(msgspec.json.decode(self.images[-1], type=StateImage))
        for line in self.journal[state.seq :]:
            fold(state, msgspec.json.decode(line, type=ev.Record))
        assert msgspec.json.encode(sorted_image(state)) == msgspec.json.encode(
            sorted_image(self.state)
        ), "the state after a crash is the state before it"
        self.state, self.viewer = state, Viewer(state)

    def _reconcile(self) -> None:
        """The driver connects again and tells all it knows, as after every restart."""
        for cluster in CLUSTERS:
            known = tuple(
                r for r in (*self.alive.values(), *self.over.values()) if r.cluster == cluster.name
            )
            inventory = rep.Inventory(cluster.name, known, self.now_ms)
            for report in known:
                self._fold(on_report(self.state, report, self.now_ms))
            unstarted, lost = missing_runs(self.state, inventory)
            self.orders.extend(run.id for run in unstarted)
            for run in lost:
                self._fold(on_lost(self.state, run, "gone", self.now_ms))

    def settle(self) -> None:
        """Lets everything come to its end without any more faults."""
        for _ in range(2_000):
            self.now_ms += 400_000
            self._decide_own("alone", "room")
            self.cycle()
            for run in self.orders[:]:
                self._start(run)
            self.orders.clear()
            for run in sorted(self.alive):
                report = self.alive.pop(run)
                self.over[run] = msgspec.structs.replace(report, phase="Ended", end=ENDS[0])
            self._reconcile()
            self._fold_releases()
            if self.taken == len(self.inbox) and not self.state.workloads:
                return
        raise AssertionError(f"never settles: {list(self.state.workloads.values())[:3]}")

    def _fold_releases(self) -> None:
        for cluster, nodes in list(self.state.quarantined.items()):
            for node in list(nodes):
                self._fold(on_command(self.state, cmd.ResumeNode(cluster, node), "somebody"))
        for workload in list(self.state.workloads.values()):
            if workload.phase == "Held":
                self._fold(on_command(self.state, cmd.Release(workload.id), "somebody"))

    def check(self) -> None:
        """Asks for every invariant, with what only the world knows besides."""
        broken = violations(self.state)
        assert not broken, broken
        for name, nodes in self.state.quarantined.items():
            assert 2 * len(nodes) <= max(2, len(self.state.clusters[name].nodes)), nodes
        twice = {run: n for (run, _), n in self.started.items() if n > 1}
        assert not twice, f"started more than once: {twice}"
        queued = {c.id for c in self.inbox[self.taken :] if isinstance(c, cmd.Submit)}
        lost = [
            key
            for key, phase in self.accepted.items()
            if phase == "accepted" and key not in self.state.workloads and key not in queued
        ]
        assert not lost, f"acknowledged and lost: {lost}"
        for cluster in CLUSTERS:
            planned = {run.id for run in live_runs(self.state, cluster.name)}
            stray = [
                run
                for run, report in self.alive.items()
                if report.cluster == cluster.name and run not in planned
            ]
            assert not stray, f"runs that the state believes over: {stray}"
