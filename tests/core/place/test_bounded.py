"""Work that names a placement goes where that chose, in its order, and is told why."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model.commands import ApplyFleet, DeletePlacement
from stellwerk.core.model.ids import BlobHash
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.standing import Decided, Refusal
from stellwerk.core.plan import plan
from stellwerk.core.standing import Answer, on_answers
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall

KEY = "lab/p"
TEXT = BlobHash("a" * 64)
BOUND = a_shape(a_request(cpus=2), placement=KEY)


def a_hall() -> Hall:
    """Three clusters of one node each, and a placement that isn't decided yet."""
    hall = Hall(*(a_cluster(name, a_node(f"{name}-1", cpus=4, gpus=1)) for name in "abc"))
    hall.command(ApplyFleet("f", TEXT, TEXT, 0, (Placement("lab", "p"),)))
    return hall


def decide(hall: Hall, *clusters: str, **refused: Refusal) -> None:
    """Has the placement choose these, best first."""
    version = hall.state.standing.placements[KEY].version
    decided = Decided(f"pd-{clusters}", clusters, refused=refused)
    hall.fold(on_answers(hall.state, [Answer(KEY, version, decided)]))


def reasons(hall: Hall) -> list[tuple[str, str]]:
    """Why what waits waits, by code and cluster."""
    hall.cycle()
    return [
        (reason.code, str(reason.params.get("cluster", "")))
        for queue in hall.state.shapes.values()
        if queue.waits is not None and queue.entries
        for reason in queue.waits.reasons
    ]


def places(hall: Hall) -> list[str]:
    """Where everything that runs is."""
    return [
        workload.runs[-1].allocation.cluster
        for _, workload in sorted(hall.state.workloads.items())
        if workload.live_run is not None
    ]


def test_the_order_of_the_placement_counts_more_than_room() -> None:
    """The worst of three by room is taken first; what doesn't fit there goes to the next."""
    hall = a_hall()
    decide(hall, "c", "b")
    hall.submit(a_shape(a_request(cpus=1), infra="c"))
    hall.cycle()
    for _ in range(3):
        hall.submit(BOUND)
    hall.cycle()
    assert places(hall) == ["c", "c", "b", "b"]


def test_what_is_refused_is_told_with_the_rule() -> None:
    """Chosen but without a driver here, not chosen and why, nothing chosen, not decided, gone."""
    hall = a_hall()
    hall.submit(BOUND)
    assert reasons(hall) == [("not_decided", "")]
    decide(hall, "far", a=Refusal("tier in gold", "it is iron"))
    told = reasons(hall)
    assert told == [("not_chosen", "a"), ("not_chosen", "b"), ("not_chosen", "c"),
                    ("no_driver", "far")]  # fmt: skip
    [waits] = [queue.waits for queue in hall.state.shapes.values() if queue.waits]
    assert waits.reasons[0].params["rule"] == "tier in gold"
    decide(hall)
    assert {code for code, _ in reasons(hall)} == {"not_chosen"}
    hall.command(DeletePlacement(KEY))
    assert reasons(hall) == [("no_placement", "")]
    hall.command(ApplyFleet("f", TEXT, TEXT, 0, (Placement("lab", "p"),)))
    decide(hall, "b")
    hall.cycle()
    assert places(hall) == ["b"]


def test_many_that_nobody_reaches_are_one_reason() -> None:
    """Three are named, the others counted; each is a candidate of its own."""
    hall = a_hall()
    decide(hall, "x1", "x2", "x3", "x4", "x5")
    hall.submit(BOUND)
    assert reasons(hall)[-1] == ("no_driver", "x1, x2, x3 and 2 more")
    assert len(reasons(hall)) == 4


def test_a_full_cluster_of_the_placement_is_the_reason() -> None:
    """Not those that weren't chosen: waiting for room is what there is to know."""
    hall = a_hall()
    decide(hall, "a")
    for _ in range(3):
        hall.submit(BOUND)
    assert reasons(hall) == [("no_room", "a")]
    decide(hall, "a", "c")
    hall.cycle()
    assert places(hall) == ["a", "a", "c"]


@pytest.mark.parametrize("ordered", [True, False])
def test_ordered_alternatives_come_before_the_placement(ordered: bool) -> None:
    """The first alternative that fits anywhere is taken; without an order, the best cluster is."""
    big, small = a_request(cpus=4), a_request(cpus=1)
    shape: Shape = a_shape(big, small, ordered=ordered, placement=KEY)
    hall = a_hall()
    hall.submit(a_shape(a_request(cpus=1), infra="a"))
    hall.cycle()
    decide(hall, "a", "b", "c")
    hall.submit(shape)
    hall.cycle()
    assert places(hall) == ["a", "b" if ordered else "a"]


def test_what_is_remembered_changes_no_plan() -> None:
    """With and without memory, whatever was decided in between."""
    hall = a_hall()
    for number, clusters in enumerate((("a",), ("b", "a"), (), ("c",), ("far", "c"))):
        hall.submit(replace(BOUND, avoid=("a/a-1",) if number % 2 else ()))
        decide(hall, *clusters)
        view = hall.viewer.take(hall.now_ms)
        assert plan(view, hall.memory) == plan(view)
        hall.cycle()
        assert plan(hall.viewer.take(hall.now_ms), hall.memory).actions == ()
