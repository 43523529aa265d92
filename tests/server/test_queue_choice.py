"""What the name of a queue means for work of a project."""

import pytest
from msgspec.structs import replace

from stellwerk.core.lower import Lowered
from stellwerk.core.model.queueing import LocalQueue
from stellwerk.core.model.resources import in_queue
from stellwerk.core.model.workload import Policies
from stellwerk.core.queueing_objects import queueing_now
from stellwerk.core.queueing_quota import queues_stand
from stellwerk.server.queue_choice import in_own_queue
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

KNOWN = ("default", "team", "default/team", "vision/team", "vision/own")


@pytest.mark.parametrize(
    ("project", "queue", "meant"),
    [
        ("vision", "team", "vision/team"),
        ("nlp", "team", "default/team"),
        ("", "team", "default/team"),
        ("vision", "default/team", "default/team"),
        ("vision", "other", "default/other"),
    ],
)
def test_a_queue_of_the_own_project_comes_first(project: str, queue: str, meant: str) -> None:
    """Else it is one of `default`; a namespace that is written holds."""
    shape = in_queue(a_shape(a_request(cpus=1)), "default", queue)
    shape = replace(shape, project=project)
    found = in_own_queue(Lowered(shape, Policies(), 0, queue), KNOWN)
    assert found.shape.queue == meant
    assert in_own_queue(Lowered(a_shape(), Policies(), 0, "default"), KNOWN).shape.queue == ""


def test_work_of_any_project_is_counted_where_it_waits() -> None:
    """Work that another namespace sends to a queue of `default` is told and kept as its own."""
    hall = Hall(a_cluster("lab", a_node(cpus=4)))
    local = (LocalQueue("default", "team", "team"),)
    hall.apply(replace(queueing(a_queue("team", 1)), local_queues=local))
    for _ in range(2):
        hall.submit(a_shape(a_request(cpus=1)), queue="team")
    hall.settle()
    now = queueing_now(hall.state)
    [row] = queues_stand(now.objects, now.live, now.doors)
    assert (len(row.admitted), len(row.pending)) == (1, 1)
