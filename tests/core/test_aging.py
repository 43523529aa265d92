"""Waiting work rises: old work is passed by new work of a higher priority for a time only."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.describe.queues import read_queues
from stellwerk.core.in_line import Rises, in_line, quota_in
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.limits import Aging, Limits
from stellwerk.core.view import CLASSES, HEADS, Viewer
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

HOUR = 3_600_000
ALL, MOST = a_shape(a_request(cpus=4)), a_shape(a_request(cpus=3))


def a_hall(aging: Aging) -> Hall:
    """One machine that is taken, on which work rises."""
    hall = Hall(a_cluster("lab", a_node(cpus=4)))
    hall.viewer = Viewer(hall.state, Limits(aging=aging))
    hall.submit(ALL)
    hall.settle()
    return hall


def next_of(hall: Hall) -> WorkloadId:
    """Who starts when what runs has ended."""
    for key in hall.running():
        hall.end(key)
    return hall.settle()[0]


def test_old_work_goes_before_new_work_of_a_higher_priority() -> None:
    """By so much an hour and no more than the most, within a shape and between shapes."""
    hall = a_hall(Aging(2, 10))
    old, same = hall.submit(ALL), hall.submit(MOST, priority=1)
    hall.now_ms += 5 * HOUR
    higher = hall.submit(ALL, priority=9)
    far = hall.submit(MOST, priority=30)
    found = in_line(hall.view(), old, None)
    assert found is not None
    assert found.place == 3, "behind the far one, and the one that rose as much"
    assert found.rises == Rises(2, 10, 10, 30, 0)
    assert [next_of(hall) for _ in range(4)] == [far, same, old, higher]


def test_a_queue_says_how_its_work_rises() -> None:
    """Its annotation holds before the setting."""
    hall = a_hall(Aging())
    rising = replace(a_queue("rising", 4), aging=Aging(10, 100))
    hall.apply(queueing(rising, a_queue("flat", 4)))
    old = hall.submit(ALL, queue="rising")
    flat = hall.submit(ALL, queue="flat")
    hall.now_ms += HOUR
    new = hall.submit(ALL, queue="flat", priority=9)
    view = hall.view()
    found = in_line(view, old, quota_in(view))
    assert found is not None
    assert found.rises == Rises(10, 10, 100, 9, hall.now_ms - 6 * 60_000)
    assert [next_of(hall) for _ in range(3)] == [old, new, flat]


def test_a_view_has_the_first_of_each_priority() -> None:
    """However many of a higher one wait, old work of a lower one is seen."""
    hall = a_hall(Aging(1, 100))
    low = hall.submit(ALL)
    for number in range(HEADS + 10):
        hall.submit(ALL, priority=1 + number % 3)
    [shape] = hall.view().shapes
    assert low in [one.id for one in shape.heads]
    assert len(shape.heads) <= HEADS
    assert CLASSES <= HEADS


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_nobody_starves_behind_new_work(data: st.DataObject) -> None:
    """An hour's work of a higher priority comes every hour: the old one's turn comes when it has
    risen beyond it, whatever comes.
    """
    per_hour = data.draw(st.integers(1, 5), "points")
    hall = a_hall(Aging(per_hour, 100))
    old = hall.submit(ALL)
    turns = 0
    while True:
        hall.now_ms += HOUR
        hall.submit(data.draw(st.sampled_from([ALL, MOST])), priority=data.draw(st.integers(1, 10)))
        if next_of(hall) == old:
            break
        turns += 1
        assert turns <= 10 // per_hour + 1


def test_an_annotation_of_a_queue_is_read() -> None:
    """And what says nothing is told, with its place and how it is written."""
    text = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\n"
        "metadata: {{name: q, annotations: {{stellwerk/aging: '{}'}}}}\nspec: {{}}\n"
    )
    for written, found in {"2/h, at most 50": Aging(2, 50), "0/h": Aging(0, 1000)}.items():
        assert read_queues([("q.yaml", text.format(written))]).objects.queues[0].aging == found
    [problem] = read_queues([("q.yaml", text.format("2 points"))]).problems
    assert (problem.code, "2/h, at most 100" in problem.help) == ("queue/aging", True)
