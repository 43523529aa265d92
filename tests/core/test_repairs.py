"""A gang that has lost a machine keeps the others, with their ranks, and gets one in its place."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model.reports import ClusterReport
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.place.staying import REPAIR_MS
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.test_nearness import on

NAMES = ("pc0", "pc1", "pc2", "pc3")
LOST = RunEnd(how="machine_lost", put_back=True)
GANG = a_shape(a_request(cpus=2), num_nodes=3)
ONE = a_shape(a_request(cpus=2))


def a_hall(*off: str, names: tuple[str, ...] = NAMES) -> Hall:
    """The room, with nothing to do."""
    return Hall(room(*off, names=names).cluster)


def room(*off: str, names: tuple[str, ...] = NAMES) -> ClusterReport:
    """Machines with two CPUs each, some of them off."""
    nodes = [
        replace(a_node(name, cpus=2), state="unreachable" if name in off else "ready")
        for name in names
    ]
    return ClusterReport(a_cluster("room", *nodes, kind="room"))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_machine_is_replaced_and_the_other_ranks_stay(lost: int) -> None:
    """Whichever it was: its rank goes to the machine that was free."""
    hall = a_hall()
    gang = hall.submit(GANG)
    hall.settle()
    before = on(hall, gang)
    hall.seen(gang)
    hall.report(room(before[lost]))
    hall.end(gang, LOST)
    assert hall.settle() == [gang]
    [free] = set(NAMES) - set(before)
    assert on(hall, gang) == [free if rank == lost else name for rank, name in enumerate(before)]


def test_nobody_takes_the_machines_that_are_left_while_another_is_sought() -> None:
    """Not even who came before; and when one is there again it goes on at once, as it was."""
    hall = a_hall(names=NAMES[:3])
    gang = hall.submit(GANG)
    hall.settle()
    before = on(hall, gang)
    hall.seen(gang)
    others = [hall.submit(ONE) for _ in range(2)]
    hall.report(room(before[1], names=NAMES[:3]))
    hall.end(gang, LOST)
    assert hall.settle() == []
    assert hall.plan().wake_at_ms
    hall.now_ms += 60_000
    assert hall.settle() == []
    hall.report(room(names=NAMES[:3]))
    assert hall.settle() == [gang]
    assert on(hall, gang) == before
    hall.seen(gang)
    hall.end(gang)
    assert hall.settle() == others


def test_what_is_left_is_given_to_others_where_no_machine_comes() -> None:
    """A quarter of an hour is what a restart takes, and more."""
    hall = a_hall(names=NAMES[:3])
    gang = hall.submit(GANG)
    hall.settle()
    hall.seen(gang)
    other = hall.submit(ONE)
    hall.report(room("pc1", names=NAMES[:3]))
    hall.end(gang, LOST)
    while hall.settle() == []:
        waited_ms = hall.now_ms - hall.workload(gang).queued_ms
        hall.now_ms = hall.plan().wake_at_ms
    assert hall.workload(other).live_run is not None
    assert hall.now_ms - hall.workload(gang).queued_ms == REPAIR_MS > waited_ms
