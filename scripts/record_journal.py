"""Records the journal of this release into tests/journals, with every type of event in it.

`python scripts/record_journal.py` plays a scripted scenario through the core and writes
VERSION.jsonl and VERSION.state.json, what the state says at its end. A released journal is never
recorded anew: it shows that what was written then is still read.
"""

import json
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stellwerk import __version__
from stellwerk.core import intake
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model import reports as rep
from stellwerk.core.model.calendars import Calendar, Source
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import BlobHash, RunId, WorkloadId
from stellwerk.core.model.own import OwnDecided, OwnOption, OwnRefusal
from stellwerk.core.model.placement import (
    Condition,
    DecisionGroup,
    Placement,
    Predicate,
    Prioritizer,
    Toleration,
)
from stellwerk.core.model.placing import Move
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reservations import Holder, Reservation, Span, Wanted
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.model.standing import Decided, Refusal
from stellwerk.core.model.wishes import Limits, Wishes
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.plan import plan
from stellwerk.core.standing import Answer, OwnMade, on_answers, on_own_answers
from stellwerk.core.state import State, fold
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import Viewer
from stellwerk.testing import builders as make

ROOT = Path(__file__).resolve().parents[1]
ROOM = make.a_cluster("room", make.a_node("pc1", cpus=4, gpus=2), make.a_node("pc2", cpus=4))
ONE = make.a_shape(make.a_request(cpus=1, memory_gib=1))
SHARED_GPU = make.a_shape(make.a_request(cpus=1, gpus=1, gpu_share_gib=10))
GANG = make.a_shape(make.a_request(cpus=3), num_nodes=2)
SAVED = RunEnd(how="exited", code=85, ranks={"0": 85}, put_back=True, checkpointed=True)
BROKEN = RunEnd(how="setup_failed", code=1, message="the disk is read-only", last_lines=("no",))


class Scenario:
    """A day of a small lab, one step after the other."""

    def __init__(self) -> None:
        self.state = State()
        self.lines: list[bytes] = []
        self._viewer = Viewer(self.state)
        self._now_ms = 1_767_225_600_000

    def happen(self, *events: ev.Event, actor: str = "engine") -> None:
        """Folds facts and writes them down."""
        for event in events:
            self._now_ms += 250
            record = ev.Record(
                self.state.seq + 1, self._now_ms, self.state.epoch or 1, actor, "vision", event
            )
            fold(self.state, record)
            self.lines.append(msgspec.json.encode(record))

    def say(self, command: cmd.Command) -> None:
        """Somebody asks for something."""
        self.happen(*intake.on_command(self.state, command, "ada"), actor="ada")

    def see(self, report: rep.Report) -> None:
        """A driver tells something."""
        self.happen(*intake.on_report(self.state, report, self._now_ms))

    def cycle(self, later_ms: int = 0) -> None:
        """Time passes, and the engine plans."""
        self._now_ms += later_ms
        self.happen(*intake.on_plan(self.state, plan(self._viewer.take(self._now_ms))))

    def submit(
        self, name: str, shape: Shape, *, held: bool = False, priority: int = 0
    ) -> WorkloadId:
        """A new workload with something in every field."""
        id = WorkloadId(f"w-{name}")
        policies = Policies(
            grace_ms=60_000,
            max_restarts_on_errors=1,
            recover_on_exit_codes=(33,),
            time_limit_ms=86_400_000,
        )
        submit = cmd.Submit(
            id, name, "vision", shape, BlobHash("a" * 64), snapshot="b" * 64,
            priority=priority, labels={"team": "vision"}, policies=policies, held=held,
        )  # fmt: skip
        self.say(submit)
        return id

    def run_of(self, id: WorkloadId) -> RunId:
        """The run that a workload has now."""
        run = self.state.workloads[id].live_run
        assert run is not None, f"{id} has no run"
        return run.id

    def told(self, id: WorkloadId, phase: str, end: RunEnd | None = None) -> None:
        """The driver tells how far a workload's run is."""
        run = self.state.workloads[id].live_run
        assert run is not None, f"{id} has no run"
        seen = msgspec.convert(
            {"type": "run", "cluster": "room", "run": run.id, "generation": run.generation,
             "phase": phase, "at_ms": self._now_ms}, rep.RunReport,
        )  # fmt: skip
        self.see(replace(seen, end=end))


def play() -> Scenario:
    """The whole scenario."""
    day = Scenario()
    day.happen(ev.LeaderChanged(1, CORE_VERSION))
    day.see(rep.ClusterReport(ROOM))
    _one_that_is_put_back(day)
    _some_that_wait(day)
    _one_out_of_reach(day)
    _a_node_that_fails(day)
    _notices(day)
    _hours(day)
    day.say(cmd.Cancel(WorkloadId("w-unknown")))
    day.happen(ev.ActionDropped("start-run", WorkloadId("w-waits"), Reason("stale")))
    _placements(day)
    _wishes(day)
    _queues(day)
    _a_cluster_that_goes(day)
    day.happen(ev.LeaderChanged(2, CORE_VERSION))
    return day


def _one_that_is_put_back(day: Scenario) -> None:
    id = day.submit("digits", SHARED_GPU)
    day.cycle()
    for phase in ("SettingUp", "Running"):
        day.told(id, phase)
    run = day.run_of(id)
    day.happen(ev.RunWarned(run, Reason("gpu_over_asked", {"used": 9, "asked": 6})))
    day.happen(ev.WindowMoved(run, 1_767_312_000_000))
    day.happen(ev.CopyTimeLearned(run, 1 << 30, 12_000), ev.CheckpointNoted(run, 5_000))
    day.told(id, "Stopping")
    day.told(id, "Ended", SAVED)
    day.cycle(400_000)
    day.told(id, "Running")
    done = RunEnd(how="exited", code=0, ranks={"0": 0}, peak_memory_bytes=1 << 30, cpu_ms=90_000)
    day.told(id, "Ended", done)


def _some_that_wait(day: Scenario) -> None:
    for number in (1, 2):
        day.submit(f"gang-{number}", GANG)
    day.submit("waits", GANG, priority=2)
    held = day.submit("held", ONE, held=True)
    other = day.submit("other", ONE)
    day.say(cmd.Hold(other))
    day.cycle()
    day.say(cmd.SetPriority(WorkloadId("w-gang-2"), 7))
    day.say(cmd.Release(other))
    for gate in ("after", ""):
        day.happen(ev.GateChanged(WorkloadId("w-gang-2"), gate))
    day.say(cmd.Cancel(held))
    day.cycle()


def _one_out_of_reach(day: Scenario) -> None:
    id = WorkloadId("w-other")
    day.told(id, "Running")
    day.see(rep.Reachability("room", "unreachable", "no route"))
    day.see(rep.ClusterReport(ROOM))
    day.see(rep.Reachability("room", "reachable"))
    day.told(id, "Ended", RunEnd(how="signaled", signal=9, code=137))
    day.cycle(400_000)


def _a_node_that_fails(day: Scenario) -> None:
    day.happen(ev.NodeQuarantined("room", "pc2", Reason("quarantined", {"times": 3})))
    day.happen(ev.NodeResumed("room", "pc2"))
    day.happen(ev.NodeQuarantined("room", "pc2", Reason("quarantined", {"times": 3})))
    id = WorkloadId("w-other")
    day.told(id, "Ended", BROKEN)


def _a_cluster_that_goes(day: Scenario) -> None:
    day.see(rep.ClusterReport(make.a_cluster("old", make.a_node("old1"), make.a_node("old2"))))
    day.say(cmd.DrainCluster("old", ("old2",), 1_767_312_000_000))
    day.say(cmd.ResumeCluster("old"))
    day.say(cmd.DrainCluster("old", now=True))
    day.say(cmd.RemoveCluster("old"))


def _notices(day: Scenario) -> None:
    id = WorkloadId("w-waits")
    day.told(id, "Running")
    day.happen(ev.NoticeGiven(day.run_of(id), "preempt", 60_000, Reason("preempted")))
    day.happen(ev.NoticeWithdrawn(day.run_of(id)))
    day.say(cmd.Cancel(id, now=True))
    day.cycle()


def _hours(day: Scenario) -> None:
    """Lectures, room that is promised for an hour to come, and a check's answer."""
    rules = (Source("weekly", "mon-fri 18:00-08:00"),)
    hall = Calendar("hall", ((1_767_000_000_000, 1_768_000_000_000),), 1_768_000_000_000, rules)
    day.happen(ev.CalendarSet(hall), ev.CalendarRemoved("hall"))
    day.happen(ev.CheckSet(WorkloadId("w-gang-1"), "budget", "Ready", "paid"))
    parts = make.an_allocation("room", "pc1").nodes
    hour = Span(1_767_312_000_000, 1_767_315_600_000)
    holder = Holder("queue", "exam")
    exam = Reservation("exam", "ada", holder, Wanted(1), "room", parts, (hour,), release_ms=5)
    day.happen(ev.ReservationMade(exam))
    day.happen(ev.ReservationMoved("exam", (), "room/pc1 is gone"))
    day.happen(ev.ReservationOver("exam", "expired", 5))


def _placements(day: Scenario) -> None:
    near = Prioritizer("Latency", 3)
    gpus = Placement(
        "vision", "gpus", sets=("lab",), count=1, prioritizers=(near,),
        predicates=(Predicate(Selector({"tier": "gold"})),), tolerations=(Toleration("lectures"),),
    )  # fmt: skip
    spare = Placement("vision", "spare")
    file = cmd.ApplyFleet("lab.yaml", BlobHash("c" * 64), BlobHash("d" * 64), 2, (gpus, spare))
    day.say(file)
    moved = Move("pc", "room", Reason("better_cluster", {"cluster": "room", "left": "pc"}))
    decided = Decided(
        "pd-0123456789abcdef", ("room",), (230,), ("lab",), (DecisionGroup(0, "", ("room",)),),
        (Condition("PlacementSatisfied", "True", "AllDecisionsScheduled"),), moves=(moved,),
        refused={"laptop": Refusal("tier in gold", "it is iron")}, candidates=2,
    )  # fmt: skip
    day.happen(*on_answers(day.state, [Answer("vision/gpus", 1, decided)]))
    day.say(cmd.DeletePlacement("vision/spare"))


def _wishes(day: Scenario) -> None:
    near = (Requirement("region", "In", ("eu-west",)),)
    wishes = Wishes("cost", limits=Limits(near, usd_max=5.0), data=("imgs@r1",), prewarm=True)
    day.submit("wishes", replace(ONE, wishes=wishes))
    why = Reason("wish_unmet", {"cluster": "pc", "found": "6 usd", "rule": "at most 5 usd"})
    refused = OwnRefusal("pc", 0, (why,), (Reason("wish_unmet"),), later=True)
    decided = OwnDecided((OwnOption("room", 0, 0.0, 60.0, 1.5, 0.5),), (refused,), at_ms=1)
    ids = [id for id, queue in day.state.shapes.items() if queue.shape.wishes is not None]
    day.happen(*on_own_answers(day.state, [OwnMade(id, decided) for id in ids]))
    day.cycle()


def _queues(day: Scenario) -> None:
    gpu = QueueObject("ResourceFlavor", "gpu", manifest="{}", flavor=ResourceFlavor("gpu"))
    group = ResourceGroup(("cpu",), (FlavorQuotas("gpu", {"cpu": Quota(8_000, 2_000)}),))
    queue = ClusterQueue("vision", (group,), "lab", namespaces=Selector())
    cohort = QueueObject("Cohort", "lab", cohort=Cohort("lab", weight=2.0))
    day.say(cmd.ApplyQueues((gpu, cohort, QueueObject("ClusterQueue", "vision", queue=queue))))
    day.say(cmd.DeleteQueueObjects((cohort.key,), force=True))
    id = next(one.id for one in day.state.workloads.values() if one.phase == "Pending")
    quota = Holding("vision", {"cpu": "gpu"}, {"cpu": 1_000})
    claim = Claim(make.an_allocation("room", "pc1"), quota, (RunId("w-other-1"),))
    day.happen(ev.RoomClaimed(id, claim), ev.RoomClaimed(id))


def main() -> int:
    day = play()
    types = {json.loads(line)["event"]["type"] for line in day.lines}
    missing = {str(kind.__struct_config__.tag) for kind in ev.Event.__args__} - types
    if missing:
        print(f"the scenario has no {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    sys.path.insert(0, str(ROOT))
    from tests.journals.summary import summary

    folder = ROOT / "tests" / "journals"
    (folder / f"{__version__}.jsonl").write_bytes(b"".join(line + b"\n" for line in day.lines))
    said = json.dumps(summary(day.lines), indent=1, sort_keys=True) + "\n"
    (folder / f"{__version__}.state.json").write_text(said)
    print(f"{len(day.lines)} records of {len(types)} types in tests/journals/{__version__}.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
