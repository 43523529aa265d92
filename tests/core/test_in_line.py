"""How waiting work stands in its queue: place, who may be stopped and why not, what would help."""

from stellwerk.core.in_line import InLine, in_line, quota_in
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.limits import LEAST_RUN_MS
from stellwerk.core.model.queueing import Preemption
from stellwerk.core.queueing_preview import STARTS, outcomes_of
from stellwerk.core.what_if import with_quota
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, limited, queueing

NEVER = Preemption()


def standing(hall: Hall, id: WorkloadId) -> InLine:
    """How it stands now."""
    view = hall.view()
    found = in_line(view, id, quota_in(view))
    assert found is not None
    return found


def said(found: InLine) -> dict[str, str]:
    """What is told of each contender."""
    return {one.name: f"{one.standing}: {one.why}" for one in found.contenders}


def test_place_narrow_level_and_each_way_in_are_true() -> None:
    """Two wait before it and want two CPUs; more quota at its queue or the end of one helps."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=8)))
    hall.apply(queueing(a_queue("team", limited(2, 0), cohort="lab", preemption=NEVER)))
    _, _, first, second, third = (hall.submit(queue="team") for _ in range(5))
    hall.settle()
    found = standing(hall, third)
    assert (found.queue, found.place, found.waiting) == ("team", 3, 3)
    assert found.ahead_wants["cpu"] == 2000
    [narrow] = found.narrow
    assert (narrow.level, narrow.wanted, narrow.available) == ("team", 1000, 0)
    told = "may not be stopped: team stops none of its own (withinClusterQueue: Never)"
    assert said(found) == {"job-1": told, "job-2": told}
    assert not found.ways, "with one CPU more the first starts, not the third"
    ways = {one.kind: one for one in standing(hall, first).ways}
    assert ways["quota"].change == "quota team std cpu=+1"
    assert ways["end"].change == "cancel job-1"
    assert "priority" not in ways
    after = with_quota(hall.view(), ways["quota"].change.split()[1:])
    assert outcomes_of(after)[first].what == STARTS
    assert outcomes_of(after)[second].what != STARTS


def test_each_rule_that_spares_somebody_is_told() -> None:
    """Priority, the minimum runtime, the quota of its own, who leaves already."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=8)))
    own = a_queue("own", 2, cohort="lab")
    hall.apply(queueing(own, a_queue("other", 1, cohort="lab")))
    low, high = hall.submit(queue="own"), hall.submit(queue="own", priority=9)
    hall.submit(queue="other")
    hall.settle()
    hall.now_ms += 1000
    waits = hall.submit(queue="own", priority=5)
    found = standing(hall, waits)
    told = said(found)
    assert told["job-1"].startswith("not yet: a run is spared at first")
    assert told["job-2"].endswith(
        "its priority 9 isn't lower than 5 (withinClusterQueue: LowerPriority)"
    )
    assert told["job-3"] == "may not be stopped: other uses no more of it than its own quota"
    [spared] = [one for one in found.contenders if one.until_ms]
    assert spared.until_ms == hall.now_ms - 1000 + LEAST_RUN_MS
    hall.now_ms = spared.until_ms
    assert "job-1" in said(standing(hall, waits))
    hall.cycle()
    assert said(standing(hall, waits))["job-1"].startswith("leaves: has notice already")
    assert {low, high} <= set(hall.running())


def test_who_borrows_too_far_is_told_as_such() -> None:
    """It may be stopped by the rules, and that isn't enough."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=8)))
    hall.apply(queueing(a_queue("team", 2, cohort="lab"), a_queue("rest", 1, cohort="lab")))
    for _ in range(2):
        hall.submit(queue="rest")
    hall.submit(queue="team", priority=9)
    hall.settle()
    hall.now_ms += LEAST_RUN_MS
    waits = hall.submit(a_shape(a_request(cpus=2)), queue="team", priority=5)
    told = said(standing(hall, waits))
    assert any("isn't enough" in one for one in told.values()), told


def test_without_queues_the_ends_of_others_are_told() -> None:
    """Of work that no quota binds there are its place and what would make room."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=1)))
    hall.submit()
    waits = hall.submit()
    hall.settle()
    found = standing(hall, waits)
    assert (found.queue, found.place, found.contenders) == ("", 1, ())
    assert [one.change for one in found.ways] == ["cancel w-00001"]
    assert in_line(hall.view(), WorkloadId("w-none"), None) is None


def test_what_starts_by_itself_needs_no_way() -> None:
    """Nothing is offered for what the next cycle does anyway."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=1)))
    assert standing(hall, hall.submit()).ways == ()
