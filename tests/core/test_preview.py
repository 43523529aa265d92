"""A preview says what the next cycle would do, and its id changes with what it looked at."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.intake import on_command, on_plan
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import StartRun, TellWaiting
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.resources import Shape
from stellwerk.core.plan import plan
from stellwerk.core.preview import (
    PARTS,
    PLAN_ID,
    Outcome,
    Preview,
    changes,
    decided_again,
    just_before,
    outcome,
    preview,
)
from stellwerk.core.state import State, fold
from stellwerk.core.view import Head, View, Viewer
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape


class Lab:
    """A state with one machine of four CPUs."""

    def __init__(self) -> None:
        self.state = State()
        self.count = 0
        self.facts(ev.ClusterObserved(a_cluster("lab", a_node("n1", cpus=4))))

    def facts(self, *events: ev.Event) -> None:
        for event in events:
            fold(self.state, ev.Record(self.state.seq + 1, 1_000, 1, "me", "p", event))

    def submit(self, cpus: float, priority: int = 0) -> WorkloadId:
        self.count += 1
        key = WorkloadId(f"w-{self.count}")
        submit = cmd.Submit(
            id=key, name=key, project="p", shape=a_shape(a_request(cpus=cpus)),
            task=BlobHash("0"), priority=priority)  # fmt: skip
        self.facts(*on_command(self.state, submit, "me"))
        return key

    def cycle(self) -> None:
        self.facts(*on_plan(self.state, plan(Viewer(self.state).take(1_000))))

    def outcome(self, view: View, key: WorkloadId) -> Outcome:
        one = self.state.workloads[key]
        shape = self.state.shapes[one.shape].shape
        head = Head(one.id, one.version, one.priority, one.order, one.queued_ms, one.name)
        return outcome(view, shape, head, one.live_run.id if one.live_run else None)

    def preview(self, shape: Shape, priority: int = 0, spec: str = "s") -> Preview:
        return preview(Viewer(self.state).take(1_000), shape, priority, spec)


@given(running=st.lists(st.integers(1, 4), max_size=4), wanted=st.integers(1, 4))
def test_a_preview_comes_true(running: list[int], wanted: int) -> None:
    """What is submitted right after it starts exactly if the preview said so."""
    lab = Lab()
    for cpus in running:
        lab.submit(cpus)
        lab.cycle()
    said = lab.preview(a_shape(a_request(cpus=wanted)))
    key = lab.submit(wanted)
    lab.cycle()
    assert (lab.state.workloads[key].phase == "Starting") == said.starts_now
    assert said.starts_now or said.reasons


@given(
    running=st.lists(st.integers(1, 4), max_size=4),
    waiting=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4),
)
def test_an_outcome_comes_true(running: list[int], waiting: list[tuple[int, int]]) -> None:
    """Each that waits starts in the next cycle exactly where it is said to, or for no reason not.
    One that runs, asked as if it waited, starts as well as it did.
    """
    lab = Lab()
    for cpus in running:
        lab.submit(cpus)
        lab.cycle()
    keys = [lab.submit(cpus, priority) for cpus, priority in waiting]
    view = Viewer(lab.state).take(1_000)
    said = {key: lab.outcome(view, key) for key in keys}
    lab.cycle()
    for key in keys:
        run = lab.state.workloads[key].live_run
        assert said[key].allocation == (run.allocation if run is not None else None)
        assert (said[key].allocation is None) == bool(said[key].reasons)
        if run is not None:
            view = Viewer(lab.state).take(1_000)
            again = lab.outcome(view, key)
            assert again.allocation is not None or again.ahead


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=6))
def test_what_was_decided_is_decided_again(submitted: list[tuple[int, int]]) -> None:
    """On the same view each decision of a cycle comes out as it was; on another it needn't."""
    lab = Lab()
    for cpus, priority in submitted:
        lab.submit(cpus, priority)
    view = Viewer(lab.state).take(1_000)
    planned = plan(view)
    decisions = {one.id: one for one in planned.decisions}
    assert decisions
    for action in planned.actions:
        assert isinstance(action, StartRun | TellWaiting)
        workload = action.workload if isinstance(action, StartRun) else None
        then = decisions[action.decision]
        again = decided_again(view, then, workload)
        assert again == then
        before = just_before(view, workload)
        held = sum(len(part.allocations) for part in before.clusters)
        assert held <= sum(isinstance(one, StartRun) for one in planned.actions)
    assert decided_again(replace(view, shapes=()), then, None) is None


def test_the_id_names_spec_and_facts() -> None:
    """Asked again it is the same; another spec or another state of the machine gives another."""
    lab = Lab()
    shape = a_shape(a_request(cpus=1))
    first = lab.preview(shape).id
    assert lab.preview(shape).id == first
    assert lab.preview(shape, spec="other").id != first
    assert lab.preview(shape, priority=1).id != first
    lab.submit(1)
    lab.cycle()
    assert lab.preview(shape).id != first


def test_two_ids_say_what_changed() -> None:
    """Task, clusters, what runs hold, and the queue: each alone, and nothing for the same id."""
    lab = Lab()
    shape = a_shape(a_request(cpus=1))
    first = lab.preview(shape).id
    assert PLAN_ID.fullmatch(first)
    assert changes(first, first) == ()
    for other in (lab.preview(shape, spec="other"), lab.preview(shape, priority=1)):
        assert changes(first, other.id) == ("the task",)
    lab.submit(8)
    assert changes(first, lab.preview(shape).id) == ("the queue",)
    lab.submit(1)
    lab.cycle()
    busy = lab.preview(shape).id
    assert changes(first, busy) == ("what runs hold", "the queue")
    lab.facts(ev.ClusterObserved(a_cluster("lab", a_node("n1", cpus=5))))
    assert changes(busy, lab.preview(shape).id) == ("the clusters",)
    assert changes(first, first[:-1] + ("0" if first[-1] != "0" else "1")) == ("",)
    assert len(PARTS) == 4


def test_it_stands_behind_its_equals() -> None:
    """Two of its priority and one above it come first, one below doesn't."""
    lab = Lab()
    lab.submit(4)
    lab.cycle()
    for priority in (0, 0, 5, -1):
        lab.submit(2, priority)
    said = lab.preview(a_shape(a_request(cpus=1, memory_gib=1)))
    assert said.ahead == 3


def test_behind_more_than_a_cycle_starts_it_waits_its_turn() -> None:
    """With hundreds that could start before it, it doesn't start in the next cycle."""
    lab = Lab()
    lab.facts(ev.ClusterObserved(a_cluster("big", a_node("b1", cpus=4_000))))
    for _ in range(300):
        lab.submit(1)
    said = lab.preview(a_shape(a_request(cpus=2)))
    assert not said.starts_now
    assert [reason.code for reason in said.reasons] == ["behind"]
    assert said.ahead == 300
