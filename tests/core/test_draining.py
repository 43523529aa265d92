"""Draining, resuming and removing clusters: what starts, what stops, what is told, what lasts."""

import msgspec

from stellwerk.core.draining import lapsed, next_lapse_ms
from stellwerk.core.invariants import violations
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.draining import moment
from stellwerk.core.model.reports import ClusterReport, Reachability
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.state import State, StateImage
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall

BIG = a_shape(a_request(cpus=2))
SAVED = RunEnd(how="exited", code=85, put_back=True, checkpointed=True)


def a_room(*names: str) -> Hall:
    """A room whose machines hold one job each."""
    nodes = [a_node(name, cpus=2) for name in names]
    return Hall(a_cluster("room", *nodes, kind="room"))


def states(hall: Hall) -> dict[str, str]:
    """How the nodes are."""
    return {node.name: node.state for node in hall.state.clusters["room"].nodes}


def test_nothing_new_starts_on_a_drained_node_and_what_runs_goes_on() -> None:
    """The others are used; what waits says who drained it, and starts after the resume."""
    hall = a_room("pc1", "pc2")
    first = hall.submit(BIG)
    hall.settle()
    on = hall.workload(first).runs[-1].allocation.nodes[0].node
    hall.command(cmd.DrainCluster("room", (on,)), "ada")
    assert states(hall)[on] == "drained"
    second, third = hall.submit(BIG), hall.submit(BIG)
    hall.settle()
    assert hall.workload(second).phase == "Starting"
    hall.seen(first)
    assert not hall.workload(first).runs[-1].notice
    hall.end(first)
    hall.end(second)
    hall.command(cmd.DrainCluster("room"), "bob")
    hall.settle()
    assert hall.told(third) == ["drained"]
    waits = hall.state.shapes[hall.workload(third).shape].waits
    assert waits is not None
    (reason,) = waits.reasons
    told = render(reason)
    assert (told.tier, "drained by ada since" in told.sentence) == ("held", True), told
    hall.command(cmd.ResumeCluster("room"))
    assert set(states(hall).values()) == {"ready"}
    assert hall.settle() == [third]


def test_with_now_runs_get_notice_and_go_elsewhere() -> None:
    """Only those on the nodes that are meant; a second order gives no second notice."""
    hall = a_room("pc1", "pc2", "pc3")
    jobs = [hall.submit(BIG) for _ in range(2)]
    hall.settle()
    where = {key: hall.workload(key).runs[-1].allocation.nodes[0].node for key in jobs}
    told = hall.command(cmd.DrainCluster("room", (where[jobs[0]],), now=True))
    notices = [event for event in told if isinstance(event, ev.NoticeGiven)]
    assert [(one.run, one.why) for one in notices] == [(f"{jobs[0]}-1", "drain")]
    again = hall.command(cmd.DrainCluster("room", (where[jobs[0]],), now=True))
    assert not any(isinstance(event, ev.NoticeGiven) for event in again)
    hall.end(jobs[0], SAVED)
    hall.settle()
    moved = hall.workload(jobs[0]).runs[-1]
    assert (moved.number, moved.allocation.nodes[0].node != where[jobs[0]]) == (2, True)
    hall.end(jobs[1], RunEnd(how="notice", code=143, put_back=True))
    assert violations(hall.state) == []


def test_a_drain_lasts_through_probes_and_restarts_and_ends_in_time() -> None:
    """A machine that is off meanwhile says both; a drain of the whole holds for nodes that come."""
    hall = a_room("pc1")
    hall.command(cmd.DrainCluster("room", (), hall.now_ms + 1_000), "ada")
    hall.command(cmd.DrainCluster("room", ("pc1",)), "ada")
    hall.report(Reachability("room", "unreachable", "no route"))
    (node,) = hall.state.clusters["room"].nodes
    assert (node.state, "drained by ada" in node.note, "no route" in node.note) == (
        "unreachable",
        True,
        True,
    )
    grown = a_cluster("room", a_node("pc1"), a_node("pc2"), kind="room")
    hall.report(ClusterReport(grown))
    image = msgspec.json.decode(msgspec.json.encode(hall.state.image()), type=StateImage)
    again = State.from_image(image)
    for state in (hall.state, again):
        assert [one.state for one in state.clusters["room"].nodes] == ["drained", "drained"]
        assert next_lapse_ms(state) == hall.now_ms + 1_000
        assert lapsed(state, hall.now_ms) == []
    hall.fold(lapsed(hall.state, hall.now_ms + 1_000))
    assert states(hall) == {"pc1": "drained", "pc2": "ready"}
    hall.command(cmd.ResumeNode("room", "pc1"))
    assert set(states(hall).values()) == {"ready"}
    assert (hall.state.drains, next_lapse_ms(hall.state)) == ({}, 0)


def test_a_cluster_goes_only_when_nothing_runs_there() -> None:
    """Then work that names it is told that nothing answers to that name."""
    hall = a_room("pc1")
    job = hall.submit(BIG)
    hall.settle()
    waits = hall.submit(a_shape(a_request(cpus=1), infra="ssh/room"))
    (refused,) = hall.command(cmd.RemoveCluster("room"))
    assert isinstance(refused, ev.CommandRefused)
    assert job in render(refused.reason).sentence
    hall.end(job)
    hall.command(cmd.DrainCluster("room"))
    assert hall.command(cmd.RemoveCluster("room")) == [ev.ClusterRemoved("room")]
    assert (hall.state.clusters, hall.state.observed, hall.state.drains) == ({}, {}, {})
    hall.settle()
    assert hall.told(waits) == ["no_such_infra"]
    assert hall.command(cmd.RemoveCluster("room")) == []
    hall.report(ClusterReport(a_cluster("room", a_node("pc1"), driver="ssh")))
    assert hall.settle() == [waits]


def test_a_time_is_written_for_everybody() -> None:
    """In a zone that is named."""
    assert moment(1_767_225_600_000) == "2026-01-01 00:00 UTC"
