"""The core alone, in virtual time: facts go in by hand, plans are carried out at once."""

from collections.abc import Iterable

import msgspec

from stellwerk.core import gates
from stellwerk.core.intake import on_command, on_plan, on_report
from stellwerk.core.invariants import overbooks, overcharges, violations
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import Plan, StartRun
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.gates import After, ArrayPart
from stellwerk.core.model.ids import BlobHash, RunId, WorkloadId, digest, workload_of
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import QueueObjects
from stellwerk.core.model.reports import Report, RunReport
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Policies, RunEnd, RunPhase, Workload
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import plan
from stellwerk.core.state import State, fold
from stellwerk.core.view import View, Viewer
from stellwerk.testing.builders import a_shape

OK = RunEnd(how="exited", code=0)


def applied(objects: QueueObjects) -> list[ev.Event]:
    """The facts that objects of queueing are applied."""
    found = [
        *(QueueObject("ResourceFlavor", one.name, flavor=one) for one in objects.flavors),
        *(QueueObject("Topology", one.name, topology=one) for one in objects.topologies),
        *(QueueObject("AdmissionCheck", one.name, check=one) for one in objects.checks),
        *(QueueObject("ClusterQueue", one.name, queue=one) for one in objects.queues),
        *(QueueObject("Cohort", one.name, cohort=one) for one in objects.cohorts),
        *(
            QueueObject("LocalQueue", one.name, one.namespace, local_queue=one)
            for one in objects.local_queues
        ),
        QueueObject("Configuration", "default", settings=objects.settings),
    ]
    return [ev.QueueObjectApplied(one) for one in found]


class Hall:
    """A state with its journal; every fact that is folded leaves it sound."""

    def __init__(self, *clusters: Cluster) -> None:
        self.state = State()
        self.viewer = Viewer(self.state)
        self.memory = Memory()
        self.journal: list[bytes] = []
        self.now_ms = 1_000_000
        self.count = 0
        self.fold(ev.ClusterObserved(cluster) for cluster in clusters)

    def fold(self, events: Iterable[ev.Event], actor: str = "ada") -> list[ev.Event]:
        """Folds facts and keeps them."""
        folded = []
        for event in events:
            if isinstance(event, ev.RunPlanned):
                assert not overbooks(self.state, event)
                assert not overcharges(self.state, event)
            record = ev.Record(self.state.seq + 1, self.now_ms, 1, actor, "p", event)
            fold(self.state, record)
            self.journal.append(msgspec.json.encode(record))
            folded.append(event)
        assert not violations(self.state)
        return folded

    def submit(
        self,
        shape: Shape | None = None,
        *,
        priority: int = 0,
        policies: Policies | None = None,
        held: bool = False,
        after: tuple[After, ...] = (),
        array: ArrayPart | None = None,
        queue: str = "default",
        work: str = "",
    ) -> WorkloadId:
        """Submits a workload; ids count up. Work of one kind has a name and a task of its own."""
        self.count += 1
        key = WorkloadId(f"w-{self.count:05}")
        self.command(
            cmd.Submit(
                id=key,
                name=f"{work or 'job'}-{self.count}",
                project="p",
                shape=shape or a_shape(),
                task=BlobHash(digest(work) if work else "0" * 64),
                priority=priority,
                policies=policies or Policies(),
                held=held,
                after=after,
                array=array,
                queue=queue,
            )
        )
        return key

    def apply(self, objects: QueueObjects) -> None:
        """Lets objects of queueing be what is applied."""
        self.fold(applied(objects))

    def command(self, command: cmd.Command, actor: str = "ada") -> list[ev.Event]:
        """Lets somebody ask for something."""
        return self.fold(on_command(self.state, command, actor, self.now_ms), actor)

    def report(self, report: Report) -> list[ev.Event]:
        """Lets a driver tell something."""
        return self.fold(on_report(self.state, report, self.now_ms))

    def view(self) -> View:
        """What a plan would look at now."""
        return self.viewer.take(self.now_ms)

    def plan(self) -> Plan:
        """Plans, and sees to it that what is remembered changes nothing."""
        view = self.view()
        planned = plan(view, self.memory)
        assert planned == plan(view)
        return planned

    def cycle(self) -> list[WorkloadId]:
        """Plans and carries it out; gives who was started, in order."""
        while opened := gates.settle(self.state):
            self.fold(opened)
        planned = self.plan()
        events = self.fold(on_plan(self.state, planned))
        assert not any(isinstance(event, ev.ActionDropped) for event in events)
        return [action.workload for action in planned.actions if isinstance(action, StartRun)]

    def settle(self) -> list[WorkloadId]:
        """Cycles until there is nothing more to do now."""
        started = self.cycle()
        while more := self.cycle():
            started += more
        return started

    def seen(self, key: str, phase: RunPhase = "Running") -> list[ev.Event]:
        """Lets the live run of a workload be seen in a phase."""
        run = self.workload(key).runs[-1]
        return self.report(RunReport(run.allocation.cluster, run.id, run.generation, phase))

    def end(self, key: str, end: RunEnd = OK) -> list[ev.Event]:
        """Lets the live run of a workload end."""
        run = self.workload(key).runs[-1]
        return self.report(RunReport(run.allocation.cluster, run.id, run.generation, "Ended", end))

    def workload(self, key: str) -> Workload:
        """A live workload."""
        return self.state.workloads[WorkloadId(key)]

    def told(self, key: str) -> list[str]:
        """The codes for which a waiting workload's shape was told to wait."""
        waits = self.state.shapes[self.workload(key).shape].waits
        return [reason.code for reason in waits.reasons] if waits else []

    def why(self, key: str) -> str:
        """The sentence of the one reason for which a workload waits."""
        waits = self.state.shapes[self.workload(key).shape].waits
        assert waits is not None
        [reason] = waits.reasons
        return render(reason).sentence

    def running(self) -> dict[WorkloadId, RunId]:
        """Live runs by workload."""
        return {workload_of(run): run for run in self.state.running.values()}
