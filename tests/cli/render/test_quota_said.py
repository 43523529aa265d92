"""How `explain` tells what a queue said."""

from stellwerk.cli.render.quota_said import quota_said
from stellwerk.core.model.decisions import FlavorVerdict, QuotaLevel, QuotaSaid


def test_each_flavor_with_the_way_of_its_quota() -> None:
    """From the queue to the root, with what bounds it on each level."""
    path = (
        QuotaLevel("team", "queue", 2000, 2000, 2000, 1000, borrowing_limit=1000),
        QuotaLevel("all", "cohort", 0, 8000, 2500, 5500),
    )
    verdicts = (
        FlavorVerdict("std", "cpu", "borrows", wanted=1000, available=1000, most=3000, path=path),
        FlavorVerdict("spot", "", "taint", note="spot has the taint lent=:NoSchedule"),
    )
    assert quota_said(QuotaSaid("team", verdicts)) == [
        "quota of team:",
        "  std: borrows, 1 cpu asked, 1 available",
        "    queue team: 2 of 2 used, may borrow 1",
        "    cohort all: 2500m of 8 used, 0 of its own",
        "  spot: spot has the taint lent=:NoSchedule",
    ]


def test_work_that_no_queue_binds_is_told_as_such() -> None:
    """And nothing is told where there are no queues."""
    assert quota_said(None) == []
    assert quota_said(QuotaSaid()) == [
        "quota: no ClusterQueue stands behind its queue, so it counts nowhere"
    ]
