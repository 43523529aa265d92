"""Who waits is told who holds what it waits for, and when that is free again."""

import pytest

from stellwerk.core.model.resources import Allocation, DeviceShare, NodeAllocation
from stellwerk.server.holders import _held, _told, passed_until_ms
from stellwerk.server.models import CandidateView, DecisionView
from tests.core.queued import a_queue
from tests.core.test_preemption import TWO, a_hall, run
from tests.server.stage import Stage


def test_the_holders_are_told_with_what_they_hold(stage: Stage) -> None:
    """On the cluster that has what is wanted, the largest first; nobody once it runs itself."""
    small = stage.submit("cpus 1", overrides={"name": "small"})
    large = stage.submit("cpus 3", overrides={"name": "large"})
    for one in (small, large):
        stage.report(stage.started(one["id"]), "Running")
    waiting = stage.submit("cpus 2", overrides={"name": "late"})
    stage.until(
        lambda: stage.get(f"/v1/workloads/{waiting['id']}/explain").json["decision"], "it waits"
    )
    told = stage.get("/v1/workloads/late/explain").json
    assert [(one["name"], one["holds"]) for one in told["holders"]] == [
        ("large", "3 CPUs"),
        ("small", "1 CPU"),
    ]
    assert {one["cluster"] for one in told["holders"]} == {"lab"}
    assert told["more_holders"] == 0
    assert [one["likely_ms"] for one in told["holders"]] == [None, None]
    stage.end(f"{large['id']}-1")
    stage.started(waiting["id"])
    assert stage.get("/v1/workloads/late/explain").json["holders"] == []


def test_what_ended_before_says_when_it_is_free(stage: Stage) -> None:
    """The same work has taken so long before."""
    first = stage.submit("cpus 4", overrides={"name": "fit"})
    stage.end(stage.started(first["id"]))
    stage.until(lambda: stage.phase(first["id"]) == "Succeeded", "it has ended")
    again = stage.submit("cpus 4", overrides={"name": "fit"})
    stage.started(again["id"])
    waiting = stage.submit("cpus 2", overrides={"name": "late"})
    path = f"/v1/workloads/{waiting['id']}/explain"
    stage.until(lambda: stage.get(path).json["holders"], "it waits")
    [holder] = stage.get(path).json["holders"]
    assert (holder["id"], holder["latest_ms"]) == (again["id"], None)


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        ("CPUs", "2 CPUs"),
        ("memory", "4 GiB memory"),
        ("GPU memory", "2 GiB GPU memory"),
        ("A100", "2 A100"),
        ("nodes at once", "1 node"),
    ],
)
def test_only_what_is_lacking_is_told(resource: str, told: str) -> None:
    """In the words of the shortfall."""
    shares = (DeviceShare(0, 1 << 30), DeviceShare(1, 1 << 30))
    part = NodeAllocation("n1", 2000, memory_bytes=4 << 30, devices=shares)
    held = _held(Allocation("lab", (part,)), {resource: None})
    assert _told(held) == told


def test_who_was_promised_room_is_passed_by_nobody() -> None:
    """Until others may pass is told as long as it waits for room; not once that is kept for it."""
    hall = a_hall(a_queue("team", 4))
    low = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    run(hall, *low)
    high = hall.submit(TWO, queue="team", priority=5)
    here = CandidateView("lab", 0, "2 CPUs", "later", [], [], {}, 0)
    later = DecisionView("d-1", 0, 0, [here], None, None, [], {})
    assert passed_until_ms(hall.view(), hall.workload(high), later) is not None
    hall.cycle()
    assert hall.workload(high).claim is not None
    assert passed_until_ms(hall.view(), hall.workload(high), later) is None


def test_in_a_strict_queue_nobody_passes() -> None:
    """So nothing is told of when others may; in another queue it is."""
    for strategy, passes in (("StrictFIFO", False), ("BestEffortFIFO", True)):
        hall = a_hall(a_queue("team", 4, strategy=strategy))  # type: ignore[arg-type]
        low = [hall.submit(TWO, queue="team") for _ in range(2)]
        hall.settle()
        late = hall.submit(TWO, queue="team")
        here = CandidateView("lab", 0, "2 CPUs", "later", [], [], {}, 0)
        later = DecisionView("d-1", 0, 0, [here], None, None, [], {})
        assert (passed_until_ms(hall.view(), hall.workload(late), later) is not None) == passes
        assert len(hall.running()) == len(low)
