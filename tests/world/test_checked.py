"""Faults of all kinds while work waits for the answers of checks, by seed."""

from tests.world.checked import CheckedWorld
from tests.world.test_faults import STEPS


def test_no_answer_loses_or_doubles_work() -> None:
    """After every step all invariants hold, a plan follows itself with nothing, and all ends; and
    these seeds are worth something: checks are answered, and work starts when they agree.
    """
    started = 0
    for seed in (700, 701, 703):
        world = CheckedWorld(seed)
        for _ in range(STEPS):
            world.step()
        assert world.rest().actions == ()
        world.settle()
        assert [key for key, phase in world.accepted.items() if phase == "accepted"] == []
        assert world.answers > 5
        started += world.agreed
    assert started > 0
