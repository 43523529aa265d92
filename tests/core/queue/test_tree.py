"""The five formulas of the quota tree, with numbers; and what decides where all else is equal."""

from stellwerk.core.model.queueing import Cohort, Pair, Quota
from stellwerk.core.queue.cycle import decide
from stellwerk.core.queue.explain import narrowest, waiting_views
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.settle import settle
from stellwerk.core.queue.shares import Share, share_of
from stellwerk.core.queue.tree import QuotaTree, level_that_fits
from tests.core.queue.builders import NOW_MS, group, holds, objects, queue, quota, waits

CPU = Pair("std", "cpu")


def tree() -> QuotaTree:
    """Over left (has 3, lends 2, borrows 2) with a (4, lends 1), and right with b (5), root 10."""
    return QuotaTree(
        (queue("a", quota(4, None, 1), "left"), queue("b", 5, "right")),
        (
            Cohort("root", "", group(("std", quota(10)))),
            Cohort("left", "root", group(("std", quota(3, 2, 2)))),
            Cohort("right", "root"),
        ),
    )


def test_what_a_subtree_has() -> None:
    """Own quota and what the children lend; private is what isn't lent."""
    found = tree()
    a, left, root = found.queues["a"], found.cohorts["left"], found.cohorts["root"]
    assert (a.subtree[CPU], a.private[CPU]) == (4000, 3000)
    assert (left.subtree[CPU], left.private[CPU]) == (4000, 2000)
    assert root.subtree[CPU] == 10_000 + 2000 + 5000
    assert (a.height, left.height, root.height) == (0, 1, 2)


def test_available_and_potential() -> None:
    """A can have its private 3, and through left at most its subtree of 4 and 2 borrowed."""
    found = tree()
    a, b = found.queues["a"], found.queues["b"]
    assert a.potential(CPU) == a.available(CPU) == 3000 + 6000
    assert b.potential(CPU) == b.available(CPU) == 17_000
    b.add({CPU: 15_000})
    assert a.available(CPU) == 3000 + 2000 + 2000
    assert a.potential(CPU) == 9000
    assert narrowest(a, CPU) == "root"
    b.remove({CPU: 15_000})
    assert narrowest(a, CPU) == "left"


def test_the_private_part_is_used_first() -> None:
    """What is used of it never shows above; what is beyond does."""
    found = tree()
    a, left, root = found.queues["a"], found.cohorts["left"], found.cohorts["root"]
    a.add({CPU: 3000})
    assert not left.usage.get(CPU, 0)
    a.add({CPU: 4000})
    assert (left.usage[CPU], root.usage[CPU]) == (4000, 2000)
    assert list(left.over[CPU].values()) == [a]
    a.remove({CPU: 5000})
    assert (a.usage[CPU], left.usage[CPU], root.usage[CPU]) == (2000, 0, 0)
    assert not left.over[CPU]


def test_how_far_it_borrows() -> None:
    """The height of the smallest subtree that has so much, and whether there is one above it."""
    found = tree()
    a = found.queues["a"]
    assert level_that_fits(a, CPU, 4000) == (0, True)
    assert level_that_fits(a, CPU, 7000) == (1, True)
    assert level_that_fits(a, CPU, 8000) == (2, False)
    assert level_that_fits(a, CPU, 80_000) == (2, False)


def test_shares() -> None:
    """Thousandths of what the parent could lend, by weight; weight 0 beats all, none is nothing."""
    found = QuotaTree((queue("a", 2, "t"), queue("b", 8, "t")), ())
    a, b = found.queues["a"], found.queues["b"]
    assert share_of(a) == share_of(found.cohorts["t"]) == Share(False, 0.0)
    a.add({CPU: 4000})
    assert share_of(a) == Share(False, 200.0)
    a.weight = 4.0
    assert share_of(a) == Share(False, 50.0)
    a.weight = 0.0
    assert share_of(a) == Share(True, 200.0)
    b.add({CPU: 18_000})
    assert share_of(b) == Share(False, 1000.0)
    assert share_of(a) > share_of(b)


def test_never_and_not_now_are_told_apart() -> None:
    """Beyond the borrowing limit is blocked, with what could be had; within it, it waits."""
    world = objects(queue("a", Quota(2000, 3000), "t"), queue("b", 8, "t"))
    queues = Queues(world, now_ms=NOW_MS)
    queues.hold(holds("r", "a", 4))
    queues.submit(waits("never", "a", 6))
    queues.submit(waits("later", "a", 5))
    found = settle(queues, NOW_MS)
    told = {one.name: one.reason for one in waiting_views(queues, found.waits)}
    assert (told["never"].code, told["never"].params["largest"]) == ("queue_exceeds", "5")
    assert told["later"].code == "queue_quota"
    assert {key: told["later"].params[key] for key in ("wanted", "free", "missing", "where")} == {
        "wanted": "5", "free": "1", "missing": "4", "where": "a",
    }  # fmt: skip


def test_all_else_equal_the_uid_decides() -> None:
    """In one queue and between queues, whatever came in first."""
    for names in (("x", "y"), ("y", "x")):
        queues = Queues(objects(queue("q", 1)), now_ms=NOW_MS)
        for name in names:
            queues.submit(waits(name, "q", 1))
        assert [one.key for one in decide(queues, NOW_MS).admitted] == ["team/x"]
    for order in (("a", "b"), ("b", "a")):
        rivals = [queue(name, 0, "t") for name in order]
        queues = Queues(objects(*rivals, queue("pool", 1, "t")), now_ms=NOW_MS)
        queues.submit(waits("y", "a", 1))
        queues.submit(waits("x", "b", 1))
        assert [one.key for one in decide(queues, NOW_MS).admitted] == ["team/x"]
