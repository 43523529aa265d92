"""The view of a cycle: what changed is new in it, the rest is what it was; delays end in time."""

import random

import pytest

from stellwerk.core.model import commands as cmd
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.view import HEADS, Viewer
from stellwerk.testing.builders import a_cluster, a_node
from tests.core.hall import Hall
from tests.core.lively import ENDS, SHAPES


@pytest.mark.parametrize("seed", range(4))
def test_a_view_taken_along_the_way_is_a_view_taken_now(seed: int) -> None:
    """A viewer that reuses parts sees what a new one sees, after every step."""
    hall = Hall(a_cluster("lab", a_node(cpus=4, gpus=1)))
    dice = random.Random(seed)
    for _ in range(120):
        hall.now_ms += dice.choice((0, 1_000, 20_000))
        running = sorted(hall.running())
        if running and dice.random() < 0.4:
            hall.end(dice.choice(running), dice.choice(ENDS))
        elif dice.random() < 0.5:
            hall.submit(dice.choice(SHAPES), priority=dice.randrange(2))
        else:
            hall.cycle()
        assert hall.view() == Viewer(hall.state).take(hall.now_ms)


def test_a_view_costs_what_changed() -> None:
    """What did not change is the same object in the next view."""
    hall = Hall(a_cluster("a"), a_cluster("b", a_node(cpus=8)))
    hall.submit(SHAPES[0])
    hall.submit(SHAPES[1])
    before = hall.view()
    again = hall.view()
    assert all(one is other for one, other in zip(before.shapes, again.shapes, strict=True))
    assert all(one is other for one, other in zip(before.clusters, again.clusters, strict=True))
    hall.submit(SHAPES[1])
    after = hall.view()
    assert after.shapes[0] is before.shapes[0]
    assert after.shapes[1] is not before.shapes[1]
    assert after.clusters[0] is before.clusters[0]


def test_a_delayed_workload_takes_its_old_place_when_its_time_has_come() -> None:
    """Before its time it isn't in a view; then it stands where its age puts it."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    first = hall.submit(policies=Policies(max_restarts_on_errors=3))
    hall.settle()
    second = hall.submit()
    hall.end(first, RunEnd(how="exited", code=1))
    due = hall.workload(first).not_before_ms
    (shape,) = hall.view().shapes
    assert [head.id for head in shape.heads] == [second]
    assert hall.view().next_due_ms == due
    hall.now_ms = due
    (shape,) = hall.view().shapes
    assert [head.id for head in shape.heads] == [first, second]
    assert hall.view().next_due_ms == 0
    assert hall.state.delayed == {}


def test_many_delays_end_in_their_order() -> None:
    """Also those that were changed, held or cancelled while they waited."""
    hall = Hall(a_cluster("lab", a_node(cpus=8)))
    keys = [hall.submit(policies=Policies(max_restarts_on_errors=5)) for _ in range(6)]
    hall.settle()
    for number, key in enumerate(keys):
        hall.now_ms += 100
        hall.end(key, RunEnd(how="exited", code=number + 1))
    hall.command(cmd.SetPriority(keys[1], 5))
    hall.command(cmd.Hold(keys[2]))
    hall.command(cmd.Cancel(keys[3]))
    assert sorted(hall.state.delayed) == [keys[0], keys[1], keys[4], keys[5]]
    hall.now_ms += 1_000_000
    (shape,) = hall.view().shapes
    assert [head.id for head in shape.heads] == [keys[1], keys[0], keys[4], keys[5]]


def test_a_view_shows_only_the_heads_of_a_queue() -> None:
    """Counted are all."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    keys = [hall.submit() for _ in range(HEADS + 5)]
    (shape,) = hall.view().shapes
    assert [head.id for head in shape.heads] == keys[:HEADS]
    assert shape.count == HEADS + 5
