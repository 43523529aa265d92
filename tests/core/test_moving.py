"""A run that is to go on elsewhere: notice, the place alone, and what it always asked for after."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.moving import bound
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall

SAVED = RunEnd(how="notice", code=85, checkpointed=True, put_back=True, new_checkpoint=True)


def a_hall() -> tuple[Hall, WorkloadId]:
    """A job that runs in one of two clusters."""
    hall = Hall(a_cluster("lab", a_node("a"), a_node("b")), a_cluster("server", a_node("s")))
    key = hall.submit()
    hall.settle()
    hall.seen(key)
    return hall, key


def place(hall: Hall, key: WorkloadId) -> tuple[str, str]:
    """Where the newest run of a job is."""
    allocation = hall.workload(key).runs[-1].allocation
    return allocation.cluster, allocation.nodes[0].node


@pytest.mark.parametrize("to", ["lab/a", "lab/b", "server/s", "server"])
def test_it_goes_on_where_it_was_sent(to: str) -> None:
    """After its grace, at that place alone; a later run may be anywhere again."""
    hall, key = a_hall()
    shape = hall.workload(key).shape
    cluster, _, node = to.partition("/")
    if place(hall, key) in {(cluster, node), (cluster, "s" if not node else "")}:
        to, cluster, node = "lab/b", "lab", "b"
    (notice,) = hall.command(cmd.Move(key, cluster, node), actor="ada")
    assert isinstance(notice, ev.NoticeGiven)
    assert notice.reason is not None
    assert render(notice.reason).sentence == f"ada has it go on at {to}"
    hall.end(key, SAVED)
    assert hall.workload(key).shape != shape
    hall.settle()
    hall.seen(key)
    assert place(hall, key)[0] == cluster
    assert node in {"", place(hall, key)[1]}
    hall.end(key, replace(SAVED, how="exited"))
    assert hall.workload(key).shape == shape
    assert hall.workload(key).shape_after is None


def test_what_can_not_be_moved_is_told_why() -> None:
    """Where it is already, what isn't there, what waits or is stopping: nothing is stopped."""
    hall, key = a_hall()
    here, node = place(hall, key)
    waiting = hall.submit(a_shape(a_request(cpus=900)))

    def why(key: WorkloadId, cluster: str, node: str = "") -> str:
        (event,) = hall.command(cmd.Move(key, cluster, node))
        assert isinstance(event, ev.CommandRefused)
        return render(event.reason).sentence.removeprefix("it can't be moved: ")

    assert why(key, here) == why(key, here, node) == "it is there already"
    assert why(key, "moon") == "there is no cluster moon"
    assert why(key, here, "z") == f"{here} has no node z"
    assert why(waiting, here) == "it is Pending, and only what runs is moved"
    hall.command(cmd.Cancel(key))
    other = "server" if here == "lab" else "lab"
    assert why(key, other) == "it is stopping already"


def test_a_place_that_it_may_not_have_is_none() -> None:
    """By what it asks for, and where several nodes are to be one."""
    cluster = a_cluster("lab", a_node("a"), a_node("b"))
    shape = a_shape()
    elsewhere = replace(
        shape, alternatives=tuple(replace(one, infra="server") for one in shape.alternatives)
    )
    assert bound(elsewhere, cluster) is None
    assert bound(replace(shape, num_nodes=2), cluster, "a") is None
    found = bound(shape, cluster, "a")
    assert found is not None
    assert found.avoid == ("lab/b",)
