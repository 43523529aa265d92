"""What is kept of a quota for a blocked head isn't told to that head as used by others."""

from tests.core.queued import a_queue, limited
from tests.core.test_preemption import TWO, a_hall


def test_a_strict_head_that_lacks_room_is_not_told_that_its_quota_is_used() -> None:
    """What is kept for it of its own quota is in nobody's way but the others'."""
    hall = a_hall(a_queue("team", 4, strategy="StrictFIFO"), cpus=2)
    for _ in range(2):
        last = hall.submit(TWO, queue="team")
    hall.settle()
    assert hall.told(last) == ["no_room"]


def test_the_way_of_its_quota_is_told_without_what_is_kept_for_it() -> None:
    """Its own queue has all that it has; the cohort's is used by those who borrow."""
    borrows = a_queue("vision", limited(2, 2), cohort="lab")
    hall = a_hall(borrows, a_queue("speech", 2, cohort="lab", strategy="StrictFIFO"))
    for _ in range(2):
        hall.submit(TWO, queue="vision")
    hall.settle()
    last = hall.submit(TWO, queue="speech")
    [decision] = [one for one in hall.plan().decisions if one.reasons]
    assert decision.quota is not None
    [flavor] = decision.quota.flavors
    assert [level.used for level in flavor.path] == [0, 4000]
    hall.settle()
    assert hall.told(last) == ["queue_quota"]
