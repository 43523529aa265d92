"""Faults by seed: whatever is late, doubled or killed, nothing is lost and nothing runs twice."""

import pytest

from stellwerk.core.plan import plan
from stellwerk.core.view import Viewer
from tests.world.queued import QueuedWorld, kept_promises
from tests.world.windowed import WindowedWorld
from tests.world.world import World

SEEDS = range(60)
STEPS = 150


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_loses_or_doubles_work(seed: int) -> None:
    """After every step all invariants hold, and without more faults everything comes to an end."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    unended = {key: phase for key, phase in world.accepted.items() if phase == "accepted"}
    assert unended == {}


@pytest.mark.parametrize("seed", range(100, 120))
def test_planning_a_carried_out_plan_again_gives_nothing(seed: int) -> None:
    """``plan`` after its own plan is empty."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.cycle()
    again = plan(Viewer(world.state).take(max(world.now_ms, world.state.at_ms)))
    assert again.actions == ()


@pytest.mark.parametrize("seed", range(200, 210))
def test_every_waiting_workload_has_a_reason(seed: int) -> None:
    """After a cycle each shape with waiting workloads knows why they wait."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.cycle()
    silent = [
        key for key, queue in world.state.shapes.items() if queue.entries and queue.waits is None
    ]
    assert silent == []


def test_the_faults_reach_what_they_are_meant_for() -> None:
    """A node is quarantined, runs ask for more memory or another node, gates open or never do."""
    worlds = [World(seed) for seed in range(300, 318)]
    for world in worlds:
        for _ in range(STEPS):
            world.step()
    assert sum(world.quarantined for world in worlds) > 3
    assert sum(world.opened for world in worlds) > 30
    assert sum(world.never for world in worlds) > 10
    assert sum(world.reshaped for world in worlds) > 4


@pytest.mark.parametrize("seed", range(400, 408))
def test_no_fault_breaks_quota_or_a_promise(seed: int) -> None:
    """With queues: no start exceeds a quota, nothing is lost, and everything comes to an end."""
    world = QueuedWorld(seed)
    for _ in range(STEPS):
        world.step()
    assert world.rest().actions == ()
    world.settle()
    assert [key for key, phase in world.accepted.items() if phase == "accepted"] == []


def test_the_queues_of_the_world_are_worth_something() -> None:
    """Promises are made, kept and taken back under these seeds."""
    worlds = [QueuedWorld(seed) for seed in (432, 433, 434, 438)]
    for world in worlds:
        for _ in range(STEPS):
            world.step()
    assert sum(world.promises for world in worlds) > 4
    assert sum(world.taken_back for world in worlds) > 0
    assert sum(kept_promises(world) for world in worlds) > 2


def test_nothing_runs_past_its_window_whatever_goes_wrong() -> None:
    """With calendars that change: what runs is told in time, and everything comes to an end."""
    worlds = [WindowedWorld(seed) for seed in range(500, 506)]
    for world in worlds:
        for _ in range(STEPS):
            world.step()
        world.settle()
        assert [key for key, phase in world.accepted.items() if phase == "accepted"] == []
    assert sum(world.told for world in worlds) > 5
    assert sum(world.moved for world in worlds) > 5
