"""A journal in which much happens, by seed: every kind of fact, in any order that can be."""

import random

from msgspec.structs import replace

from stellwerk.core.draining import lapsed
from stellwerk.core.model import commands as cmd
from stellwerk.core.model.admission import AdmissionCheck, CheckState
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.model.gates import WHENS, After, ArrayPart
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.own import OwnDecided, OwnOption
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import CheckRule, Cohort
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reports import ClusterReport, CopyTimed, Reachability, Report, RuleHeld
from stellwerk.core.model.reservations import Holder, Span, Wanted
from stellwerk.core.model.standing import Decided
from stellwerk.core.model.wishes import Wishes
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.reservations import due
from stellwerk.core.standing import Answer, OwnMade, on_answers, on_own_answers
from stellwerk.core.windows import closing
from stellwerk.engine.standing_work import wished
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import OK, Hall
from tests.core.queued import a_queue, queueing

ENDS = (
    OK,
    RunEnd(how="exited", code=1),
    RunEnd(how="exited", code=85, put_back=True, checkpointed=True),
    RunEnd(how="notice", code=143, put_back=True),
    RunEnd(how="reboot"),
    RunEnd(how="signaled", code=137, signal=9),
    RunEnd(how="start_refused", message="no/disk: full"),
    RunEnd(how="signaled", code=137, signal=9, oom_kills=1, peak_memory_bytes=1 << 30),
)
FAULT = RunEnd(how="spawn_failed", message="the disk is gone", of_machine=True)
SHAPES = (
    a_shape(a_request(cpus=1)),
    a_shape(a_request(cpus=3, memory_gib=4)),
    a_shape(a_request(cpus=1, gpus=1, gpu_share_gib=10)),
    a_shape(a_request(cpus=1), num_nodes=3),
)


def a_lively_hall(seed: int, steps: int = 150) -> Hall:
    """A journal in which much happens."""
    dice = random.Random(seed)
    room = a_cluster("room", *(a_node(f"pc{n}", cpus=2) for n in range(3)), kind="room")
    hall = Hall(a_cluster("alone", a_node("alone", cpus=4, gpus=2)), room)
    policies, wishes = random.Random(seed), random.Random(seed)
    for step in range(steps):
        if policies.random() < 0.2:
            _change_policies(hall, policies)
        if wishes.random() < 0.05:
            _change_wishes(hall, wishes)
        if step >= 120 and policies.random() < 0.4:
            _change_places(hall, policies)
            _change_reservations(hall, policies)
        machines_fail = 50 <= step < 80
        hall.now_ms += dice.choice((0, 10, 1_000, 60_000, 400_000))
        if machines_fail:
            hall.submit()
            for key in hall.cycle():
                hall.end(key, FAULT)
        live = sorted(hall.state.workloads)
        running = sorted(hall.running())
        match dice.randrange(10):
            case 0 | 1:
                hall.submit(
                    dice.choice(SHAPES),
                    priority=dice.randrange(3),
                    policies=Policies(max_restarts_on_errors=dice.randrange(3)),
                    held=dice.random() < 0.1,
                )
            case 2 if live:
                key = WorkloadId(dice.choice(live))
                commands: tuple[cmd.Command, ...] = (
                    cmd.Cancel(key, now=dice.random() < 0.5),
                    cmd.Hold(key),
                    cmd.Release(key),
                    cmd.SetPriority(key, dice.randrange(4)),
                    cmd.DeclareLost(key),
                    cmd.ResumeNode("alone", "alone"),
                )
                hall.command(dice.choice(commands))
            case 3 if running:
                hall.seen(dice.choice(running), dice.choice(("SettingUp", "Running")))
            case 4 | 5 if running:
                hall.end(dice.choice(running), dice.choice(ENDS))
            case 6:
                hall.report(dice.choice(_reports(hall, dice)))
            case _:
                hall.cycle()
    _answer_checks(hall, CheckState("budget", "Retry" if seed % 2 else "Ready"))
    _change_windows(hall)
    return hall


def _change_windows(hall: Hall) -> None:
    """Clusters get windows that end soon, and lose them."""
    span = (hall.now_ms, hall.now_ms + 3_600_000)
    for name in sorted(hall.state.observed):
        hall.command(cmd.SetCalendar(Calendar(name, (span,))))
    hall.fold(closing(hall.state, hall.now_ms))
    hall.command(cmd.RemoveCalendar("alone"))


SPARE = a_cluster("spare", a_node("spare", cpus=1))


def _change_places(hall: Hall, dice: random.Random) -> None:
    """Clusters and nodes are drained, for a while or now, resumed, and one comes and goes."""
    name, nodes = dice.choice((("alone", ()), ("room", ()), ("room", ("pc0", "pc2"))))
    until_ms = dice.choice((0, hall.now_ms + 5_000))
    match dice.randrange(5):
        case 0 | 1:
            hall.command(cmd.DrainCluster(name, nodes, until_ms, now=dice.random() < 0.3))
        case 2:
            hall.command(cmd.ResumeCluster(name, nodes))
        case 3:
            hall.fold(lapsed(hall.state, hall.now_ms + 10_000))
        case _:
            hall.report(ClusterReport(SPARE))
            hall.command(cmd.RemoveCluster("spare"))


def _change_reservations(hall: Hall, dice: random.Random) -> None:
    """A node is reserved, or time goes on for what is reserved."""
    if not hall.state.reservations.kept:
        begins = hall.now_ms + 1_000
        span = Span(begins, begins + dice.choice((600_000, 3_600_000)))
        wanted = Wanted(nodes=1, clusters=("room",))
        hall.command(cmd.MakeReservation("exam", Holder("person", "ada"), wanted, (span,)))
    hall.fold(due(hall.state, hall.now_ms))
    for key in sorted(hall.running()):
        run = hall.workload(key).runs[-1]
        copy_ms = dice.choice((2_000, 60_000))
        hall.report(CopyTimed(run.allocation.cluster, run.id, run.generation, 9, copy_ms))


BOUND = a_shape(a_request(cpus=1), placement="lab/p1")
WISHING = replace(a_shape(a_request(cpus=1)), wishes=Wishes(objective="cost"))


def _change_wishes(hall: Hall, dice: random.Random) -> None:
    """Work with wishes comes, and its own placement is decided now or later, or otherwise."""
    if not wished(hall.state):
        hall.submit(WISHING)
    ranked = tuple(OwnOption(name) for name in dice.choice(((), ("room",), ("alone", "room"))))
    made = [OwnMade(id, OwnDecided(ranked)) for id in wished(hall.state)]
    hall.fold(on_own_answers(hall.state, made))


def _change_policies(hall: Hall, dice: random.Random) -> None:
    """A fleet file is applied, a placement decided or deleted, work that names one submitted."""
    key = f"lab/p{dice.randrange(2)}"
    standing = hall.state.standing.placements
    match dice.randrange(4):
        case 0:
            placement = Placement("lab", key.removeprefix("lab/"), count=dice.randrange(3))
            text = BlobHash("a" * 63 + str(dice.randrange(3)))
            hall.command(cmd.ApplyFleet("lab.yaml", text, text, 1, (placement,)))
            _change_queues(hall, float(placement.count or 0))
        case 1 if key in standing:
            clusters = dice.choice(((), ("room",), ("alone", "room"), ("elsewhere",)))
            decided = Decided(f"pd-{dice.randrange(9)}", clusters, tuple(range(len(clusters))))
            hall.fold(on_answers(hall.state, [Answer(key, standing[key].version, decided)]))
        case 2 if dice.random() < 0.5:
            hall.command(cmd.DeletePlacement(key))
        case 3:
            hall.submit(BOUND)
            _submit_array(hall, dice)
        case _:
            hall.cycle()


def _change_queues(hall: Hall, weight: float) -> None:
    """A cohort is applied, or deleted where it is as it would be applied."""
    said = QueueObject("Cohort", "lab", manifest=str(weight), cohort=Cohort("lab", weight=weight))
    known = hall.state.queueing.kept.get(said.key)
    if known is not None and known.object == said:
        hall.command(cmd.DeleteQueueObjects((said.key,)))
    else:
        hall.command(cmd.ApplyQueues((said,)))


def _answer_checks(hall: Hall, said: CheckState) -> None:
    """A queue whose work must pass a check: one is submitted, and all are answered."""
    rules = (CheckRule(said.name),)
    queue = replace(a_queue("checked", 2), checks=rules)
    budget = AdmissionCheck(said.name, "example.com/budget")
    if not hall.state.queueing.objects.checks:
        hall.apply(queueing(queue, checks=(budget,)))
    hall.report(ClusterReport(SPARE))
    hall.submit(SHAPES[0], queue="checked", priority=9)
    hall.cycle()
    for id in list(hall.state.quota.claims):
        hall.command(cmd.SetCheck(id, said.name, said.state))


def _submit_array(hall: Hall, dice: random.Random) -> None:
    """Two elements, one at a time, after something that lives or after nothing."""
    live = sorted(hall.state.workloads)
    chosen = dice.sample(live, min(len(live), dice.randrange(2)))
    after = tuple(After(dice.choice(WHENS), WorkloadId(one), one) for one in chosen)
    array = WorkloadId(f"a-{hall.count:05}")
    for index in range(2):
        hall.submit(SHAPES[0], after=after, array=ArrayPart(array, array, index, 2, limit=1))


def _reports(hall: Hall, dice: random.Random) -> tuple[Report, ...]:
    """A cluster is lost from sight, or seen again; a rule of some run holds."""
    name = dice.choice(("alone", "room"))
    nodes = (replace(node, state="ready", note="") for node in hall.state.observed[name].nodes)
    found = replace(hall.state.observed[name], nodes=tuple(nodes))
    seen: tuple[Report, ...] = (
        Reachability(name, "unreachable", "gone"),
        ClusterReport(found),
        ClusterReport(found),
    )
    runs = sorted(hall.state.running.values())
    if not runs:
        return seen
    run = dice.choice(runs)
    generation = int(run.rsplit("-", 1)[1])
    return (*seen, RuleHeld(name, run, generation, Reason("aborted")))
