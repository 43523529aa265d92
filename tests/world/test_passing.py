"""Faults by seed where work passes what room is kept for."""

import pytest

from tests.world.passing import PassingWorld

SEEDS = (400, 403, 404, 412, 415)


def test_nothing_is_lost_where_much_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All comes to an end, and each cycle finds nothing more to do after its own plan."""
    monkeypatch.setattr("stellwerk.core.place.cycle.OVERTAKEN_MS", 30_000)
    passed = 0
    for seed in SEEDS:
        world = PassingWorld(seed)
        for _ in range(200):
            world.step()
        passed += world.passed
        world.settle()
        assert "accepted" not in world.accepted.values()
    assert passed > 3
