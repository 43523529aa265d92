"""Trees of queues that are left alone: what wakes one, and that nothing is missed by it."""

from stellwerk.core.model import events as ev
from stellwerk.core.plan import OVERTAKEN_MS
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import ANY, a_queue, queueing

ONE, TWO = a_shape(a_request(cpus=1)), a_shape(a_request(cpus=2))


def trees(hall: Hall) -> list[str]:
    """The trees that are left alone."""
    return sorted(hall.memory.asleep.trees)


def test_a_tree_is_left_alone_until_something_in_it_changes() -> None:
    """A run that ends, another shape, a head that is due and other objects wake it, and no other.

    That the same is planned as by somebody who looks at all of it is asked in every cycle.
    """
    hall = Hall(a_cluster("lab", a_node(cpus=16)))
    first = a_queue("a", 1, cohort="x", preemption=ANY)
    queues = [first, a_queue("b", 1, cohort="x"), a_queue("c", 1)]
    hall.apply(queueing(*queues))
    keys = {name: [hall.submit(ONE, queue=name) for _ in range(3)] for name in ("a", "b", "c")}
    assert len(hall.settle()) == 3
    assert hall.cycle() == []
    assert trees(hall) == ["cohort/x", "queue/c"]
    hall.end(keys["c"][0])
    assert hall.cycle() == [keys["c"][1]]
    assert trees(hall) == ["cohort/x"]
    hall.settle()
    hall.submit(TWO, queue="a")
    assert hall.cycle() == []
    assert trees(hall) == ["queue/c"], "another shape, which is told why it waits"
    hall.cycle()
    assert trees(hall) == ["cohort/x", "queue/c"]
    due_ms = hall.plan().wake_at_ms
    assert hall.now_ms < due_ms <= hall.now_ms + OVERTAKEN_MS
    hall.now_ms = due_ms
    assert hall.settle() == []
    hall.fold([ev.ClusterObserved(a_cluster("lab", a_node(cpus=32)))])
    hall.cycle()
    assert "queue/c" in trees(hall), "what keeps it waiting isn't room"
    hall.apply(queueing(*queues[:2], a_queue("c", 3)))
    assert hall.settle() == [keys["c"][2]]


def test_without_queues_none_is_there() -> None:
    """When the last queue goes, all work is looked at again."""
    hall = Hall(a_cluster("lab", a_node(cpus=16)))
    hall.apply(queueing(a_queue("a", 1)))
    for _ in range(3):
        hall.submit(ONE, queue="a")
    hall.settle()
    hall.cycle()
    assert trees(hall) == ["queue/a"]
    for kind, namespace in (("ClusterQueue", ""), ("LocalQueue", "p")):
        hall.fold([ev.QueueObjectDeleted(kind, "a", namespace)])
    hall.cycle()
    assert trees(hall) == []
