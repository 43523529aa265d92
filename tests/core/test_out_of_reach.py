"""A machine out of reach has the newest cause that is told of it alone."""

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.reports import ClusterReport, Reachability
from stellwerk.testing.builders import a_cluster, a_node
from tests.core.hall import Hall


def notes(hall: Hall, cluster: str) -> list[str]:
    return [node.note for node in hall.state.clusters[cluster].nodes]


def test_a_newer_cause_takes_the_place_of_an_older_one() -> None:
    """The same again is no fact; what is told of a whole room doesn't hide what each one has."""
    room = a_cluster("room", a_node("pc1"), a_node("pc2"), kind="room")
    alone: Cluster = a_cluster("big", a_node("big"))
    hall = Hall(room, alone)
    hall.report(Reachability("big", "unreachable", "no route"))
    assert len(hall.report(Reachability("big", "unreachable", "the key was changed"))) == 1
    assert notes(hall, "big") == ["the key was changed"]
    assert hall.report(Reachability("big", "unreachable", "the key was changed")) == []
    hall.report(Reachability("room", "unreachable", "it is off", ("pc1",)))
    hall.report(Reachability("room", "unreachable", "none can be reached: it is off"))
    assert notes(hall, "room") == ["it is off", "none can be reached: it is off"]
    hall.report(Reachability("room", "unreachable", "another host key", ("pc1",)))
    assert notes(hall, "room")[0] == "another host key"
    hall.report(ClusterReport(room))
    assert notes(hall, "room") == ["", ""]
