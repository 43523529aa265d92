"""The simulated place does what it was told to, and its record sees what must never happen."""

from collections.abc import Callable, Coroutine

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.reports import (
    ClusterReport,
    Inventory,
    Reachability,
    Report,
    RunReport,
)
from stellwerk.core.model.workload import RunEnd
from stellwerk.drivers.base import DriverError, StartOrder, StopOrder
from stellwerk.drivers.simulated.behaviour import Behaviour, always
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.driver import SimulatedDriver
from stellwerk.drivers.simulated.faults import (
    Faults,
    Outage,
    Rates,
    Reboot,
    faults_by_seed,
)
from stellwerk.drivers.simulated.link import Link
from stellwerk.drivers.simulated.place import SimulatedPlace
from stellwerk.testing.builders import a_cluster, a_node, an_allocation, an_order

SECOND = 1000


def at_once(order: Coroutine[object, object, None]) -> None:
    """Runs what never waits: a simulated driver needs no event loop."""
    with pytest.raises(StopIteration):
        order.send(None)


class World:
    """A place with a driver on it, and all that the driver heard."""

    def __init__(
        self,
        behaviour: Behaviour | Callable[[StartOrder], Behaviour] | None = None,
        faults: Faults | None = None,
    ) -> None:
        script = behaviour if callable(behaviour) else always(behaviour or Behaviour())
        self.clock = VirtualClock(start_ms=0)
        self.place = SimulatedPlace(
            a_cluster("lab", a_node("n1"), a_node("n2")), self.clock, script
        )
        self.link = Link(self.place, faults)
        self.driver = SimulatedDriver(self.link)
        self.heard: list[Report] = []
        at_once(self.driver.open())

    def start(self, order: StartOrder) -> None:
        at_once(self.driver.start(order))

    def pass_ms(self, ms: int) -> None:
        """Lets time pass, second by second, and hears what arrives."""
        end = self.clock.now_ms + ms
        while self.clock.now_ms < end:
            self.clock.advance_to(min(end, self.clock.now_ms + SECOND))
            self.heard += self.driver.take_reports()

    def phases(self) -> list[str]:
        return [report.phase for report in self.heard if isinstance(report, RunReport)]

    def last_end(self) -> RunEnd | None:
        ends = [report.end for report in self.heard if isinstance(report, RunReport) and report.end]
        return ends[-1] if ends else None


def a_stop(run: str = "w-1-1", grace_ms: int = 5_000, epoch: int = 1) -> StopOrder:
    return StopOrder(
        run=an_order(run).run, generation=1, epoch=epoch, why="cancel", grace_ms=grace_ms
    )


def test_a_run_lives_as_its_script_says() -> None:
    """Setup, work, end, each at its time, and the record has one start and one end."""
    world = World(Behaviour(setup_ms=500, run_ms=1500, code=3))
    world.start(an_order())
    world.pass_ms(10_000)
    assert world.phases() == ["SettingUp", "Running", "Ended"]
    end = world.last_end()
    assert end is not None
    assert (end.code, end.started_at_ms, end.ended_at_ms) == (3, 0, 2000)
    key = (an_order().run, 1)
    assert world.place.truth.starts == {key: 1}
    assert world.place.truth.ended_at_ms == {key: 2000}
    assert world.place.truth.running == {}


@pytest.mark.parametrize(
    ("behaviour", "grace_ms", "ended_ms", "code", "signal"),
    [
        (Behaviour(run_ms=60_000, leave_ms=200), 5_000, 200, 143, 15),
        (Behaviour(run_ms=60_000, leave_ms=200, leave_code=85), 5_000, 200, 85, None),
        (Behaviour(run_ms=60_000, notice="ignores"), 5_000, 5_000, 137, 9),
        (Behaviour(run_ms=60_000, leave_ms=9_000), 5_000, 5_000, 137, 9),
        (Behaviour(run_ms=3_000, notice="ignores"), 5_000, 3_000, 0, None),
        (Behaviour(setup_ms=60_000, notice="ignores"), 5_000, 5_000, 137, 9),
    ],
)
def test_a_notice_is_honoured_or_ignored(
    behaviour: Behaviour, grace_ms: int, ended_ms: int, code: int | None, signal: int | None
) -> None:
    """A run leaves in its own time, or is killed at the end of its grace, or ends before that."""
    world = World(behaviour)
    world.start(an_order())
    at_once(world.driver.stop(a_stop(grace_ms=grace_ms)))
    world.pass_ms(20_000)
    end = world.last_end()
    assert end is not None
    assert (end.ended_at_ms, end.code, end.signal) == (ended_ms, code, signal)


def test_a_withdrawn_notice_changes_nothing_else() -> None:
    """A run whose notice is taken back goes on and ends when it would have."""
    world = World(Behaviour(run_ms=4_000, leave_ms=2_000))
    world.start(an_order())
    world.pass_ms(1_000)
    at_once(world.driver.stop(a_stop()))
    world.pass_ms(1_000)
    at_once(world.driver.withdraw(an_order().run))
    world.pass_ms(10_000)
    assert world.phases() == ["Running", "Stopping", "Running", "Ended"]
    end = world.last_end()
    assert end is not None
    assert (end.code, end.ended_at_ms) == (0, 4_000)


def test_the_record_sees_a_workload_that_runs_twice() -> None:
    """Two runs of one workload at once are a violation, two of different workloads aren't."""
    world = World(Behaviour(run_ms=5_000))
    world.start(an_order("w-1-1"))
    world.start(an_order("w-2-1"))
    assert world.place.truth.violations == []
    world.start(an_order("w-1-2"))
    assert len(world.place.truth.violations) == 1
    assert "w-1-2 generation 1 began while run w-1-1" in world.place.truth.violations[0]


def test_the_record_sees_a_run_that_is_started_again() -> None:
    """A place that lost a run's folder starts it anew; the record knows that it ran before."""
    world = World(Behaviour(run_ms=5_000))
    world.start(an_order())
    world.place.loses_memory_of(an_order().run)
    world.start(an_order())
    assert world.place.truth.violations == ["at 0 ms: run w-1-1 generation 1 was started twice"]


def test_the_record_sees_a_node_that_is_overbooked() -> None:
    """What runs hold at the same time is compared with what the node has, per resource."""
    world = World(Behaviour(run_ms=5_000))
    world.start(an_order("w-1-1", allocation=an_allocation(cpus=3)))
    world.pass_ms(6_000)
    world.start(an_order("w-2-1", allocation=an_allocation(cpus=3, memory_gib=10)))
    assert world.place.truth.violations == []
    world.start(an_order("w-3-1", allocation=an_allocation(cpus=1, memory_gib=10)))
    assert [each.split(": ")[1] for each in world.place.truth.violations] == [
        f"node n1 gave {20 << 30} of {16 << 30} memory (bytes)"
    ]
    assert world.place.truth.most_at_once == 2


def test_an_unreachable_place_goes_on_and_tells_later() -> None:
    """During an outage orders fail without a verdict; after it an inventory tells what became."""
    world = World(Behaviour(run_ms=3_000), Faults(outages=(Outage(1_000, 10_000),)))
    world.start(an_order())
    world.pass_ms(5_000)
    with pytest.raises(DriverError) as caught:
        world.start(an_order("w-2-1"))
    assert not caught.value.final
    assert world.phases() == ["Running"]
    world.pass_ms(6_000)
    states = [report.state for report in world.heard if isinstance(report, Reachability)]
    assert states == ["unreachable", "reachable"]
    inventory = world.heard[-1]
    assert isinstance(inventory, Inventory)
    assert [(run.run, run.phase) for run in inventory.runs] == [("w-1-1", "Ended")]


def test_a_dying_machine_takes_its_runs_along() -> None:
    """The node's runs end with it, the others don't, and it is back under another boot id."""
    world = World(Behaviour(run_ms=60_000), Faults(reboots=(Reboot("n1", 1_000, 5_000),)))
    world.start(an_order("w-1-1", node="n1"))
    world.start(an_order("w-2-1", node="n2"))
    world.pass_ms(2_000)
    assert list(world.place.truth.running) == [("w-2-1", 1)]
    facts = [report for report in world.heard if isinstance(report, ClusterReport)][-1].cluster
    assert [node.state for node in facts.nodes] == ["unreachable", "ready"]
    with pytest.raises(DriverError) as caught:
        world.start(an_order("w-3-1", node="n1"))
    assert not caught.value.final
    world.pass_ms(8_000)
    facts = [report for report in world.heard if isinstance(report, ClusterReport)][-1].cluster
    assert [(node.state, node.boot_id) for node in facts.nodes] == [
        ("ready", "boot-1+1"),
        ("ready", "boot-1"),
    ]
    end = world.last_end()
    assert end is not None
    assert (end.how, end.ended_at_ms) == ("reboot", 5_000)


@pytest.mark.parametrize(
    ("rates", "raises", "started_at_once"),
    [
        (Rates(order_lost=1000), True, False),
        (Rates(order_late=1000), True, False),
        (Rates(answer_lost=1000), True, True),
        (Rates(start_vanishes=1000), False, False),
    ],
)
def test_orders_meet_their_fates(rates: Rates, raises: bool, started_at_once: bool) -> None:
    """Lost, late, unanswered or vanished: what the caller learns and what is so are two things."""
    world = World(Behaviour(run_ms=60_000), Faults(rates=rates))
    if raises:
        with pytest.raises(DriverError) as caught:
            world.start(an_order())
        assert not caught.value.final
    else:
        world.start(an_order())
    assert bool(world.place.truth.running) is started_at_once
    world.pass_ms(30_000)
    started_later = started_at_once or rates.order_late == 1000
    assert bool(world.place.truth.running) is started_later
    if rates.start_vanishes:
        assert isinstance(world.heard[-1], Inventory)
        assert world.heard[-1].runs == ()


def test_a_lost_report_is_made_up_by_an_inventory() -> None:
    """A driver that misses every report still learns how its runs are, within a bounded time."""
    world = World(Behaviour(run_ms=2_000), Faults(rates=Rates(report_lost=1000), repair_ms=9_000))
    world.start(an_order())
    world.pass_ms(12_000)
    assert world.phases() == []
    inventories = [report for report in world.heard if isinstance(report, Inventory)]
    assert inventories[-1].runs[0].phase == "Ended"


def test_reports_are_late_doubled_and_out_of_order() -> None:
    """With every report late and doubled each arrives twice, and some seed swaps their order."""
    swapped = False
    for seed in range(20):
        faults = Faults(seed=seed, rates=Rates(report_late=1000, report_doubled=1000))
        world = World(Behaviour(setup_ms=100, run_ms=2_000), faults)
        world.start(an_order())
        world.pass_ms(20_000)
        assert sorted(world.phases()) == sorted(["SettingUp", "Running", "Ended"] * 2)
        swapped = swapped or world.phases().index("Ended") < 4
    assert swapped


def test_the_same_seed_gives_the_same_story() -> None:
    """Two worlds of one seed hear the same, in the same order; another seed gives another story."""

    def story(seed: int) -> list[Report]:
        faults = faults_by_seed(seed, ("n1", "n2"), 0, 60_000)
        faults = replace(faults, outages=())
        world = World(lambda order: Behaviour(run_ms=1_000 + 7 * len(order.run)), faults)
        for number in range(30):
            try:
                world.start(an_order(f"w-{number}-1"))
            except DriverError:
                world.pass_ms(10)
            world.pass_ms(700)
        world.pass_ms(100_000)
        return world.heard

    stories = [story(seed) for seed in (11, 12, 14)]
    assert stories == [story(seed) for seed in (11, 12, 14)]
    assert stories[0] != stories[1]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_repeating_a_start_until_it_is_taken_starts_once(seed: int) -> None:
    """Under any seed a start that is repeated without end happens once, and its end is told."""
    world = World(Behaviour(run_ms=5_000), faults_by_seed(seed, ("n1", "n2"), 0, 30_000))
    refusals: list[DriverError] = []
    for _ in range(150):
        try:
            world.start(an_order())
        except DriverError as error:
            refusals.append(error)
        world.pass_ms(1_000)
    assert not any(error.final for error in refusals)
    assert world.place.truth.starts == {(an_order().run, 1): 1}
    assert world.place.truth.violations == []
    told = [report for report in world.heard if isinstance(report, RunReport)]
    for report in world.heard:
        told += report.runs if isinstance(report, Inventory) else ()
    assert "Ended" in [report.phase for report in told]
