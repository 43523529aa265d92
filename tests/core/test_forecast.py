"""Start forecasts: right where lengths are known, unknown where they aren't, never invented."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.forecast import NO_ARRIVALS, Forecast, forecast
from stellwerk.core.future import MANY, Knowledge
from stellwerk.core.lengths import History
from stellwerk.core.model.ids import WorkloadId, workload_of
from stellwerk.core.model.lengths import Basis, Length
from stellwerk.core.model.resources import Shape
from stellwerk.core.plan import OVERTAKEN_MS, plan
from stellwerk.core.view import HEADS
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.arbitrary import shapes
from tests.core.hall import Hall

MINUTE = 60_000


def exactly(length_ms: int) -> Length:
    """A length that is as good as certain."""
    return Length((length_ms,), length_ms, "task", MANY)


def asked(
    hall: Hall, lengths: Mapping[WorkloadId, Length], *wanted: WorkloadId
) -> dict[WorkloadId, Forecast]:
    """Forecasts with what is known of each workload, whether it runs or waits."""
    live = {
        run: (hall.workload(workload_of(run)).runs[-1].planned_ms, lengths[workload_of(run)])
        for run in hall.state.running.values()
        if workload_of(run) in lengths
    }
    return forecast(hall.view(), Knowledge(live, lengths), wanted)


def play(hall: Hall, lasts_ms: Mapping[WorkloadId, int]) -> dict[WorkloadId, int]:
    """Lets time pass and everything run as long as it does; gives when each started."""
    started: dict[WorkloadId, int] = {}
    ends = {key: hall.workload(key).runs[-1].planned_ms + lasts_ms[key] for key in hall.running()}
    for _ in range(500):
        for key in hall.settle():
            started[key] = hall.now_ms
            ends[key] = hall.now_ms + lasts_ms[key]
        times = list(ends.values())
        if wake := hall.plan().wake_at_ms:
            times.append(wake)
        if not times:
            break
        hall.now_ms = min(times)
        for key in [key for key, end in ends.items() if end <= hall.now_ms]:
            del ends[key]
            hall.end(key)
            hall.state.lengths = History()  # a forecast learns nothing on its way
    return started


QUEUES = st.lists(st.tuples(shapes(), st.integers(0, 2), st.integers(1, 30)), min_size=1)


@settings(max_examples=30)
@given(QUEUES, st.integers(0, 1 << 16))
def test_with_known_lengths_it_comes_as_it_was_told(
    queue: list[tuple[Shape, int, int]], seed: int
) -> None:
    """Every start is forecast to the millisecond, also of those for which room will be kept."""
    room = a_cluster("room", *(a_node(f"pc{n}", cpus=2, gpus=n) for n in range(3)), kind="room")
    hall = Hall(a_cluster("lab", a_node(cpus=3, memory_gib=4, gpus=2, gpu_gib=4)), room)
    dice = random.Random(seed)
    lasts_ms = {}
    for shape, priority, minutes in queue[:12]:
        lasts_ms[hall.submit(shape, priority=priority)] = minutes * MINUTE
        if dice.random() < 0.3:
            hall.cycle()
    hall.now_ms += 30_000
    lengths = {key: exactly(length) for key, length in lasts_ms.items()}
    waiting = [key for key in lasts_ms if key not in hall.running()]
    told = asked(hall, lengths, *waiting)
    came = play(hall, lasts_ms)
    for key in waiting:
        known = told[key]
        assert known.likely_ms == came.get(key)
        assert known.earliest_ms == known.latest_ms == known.likely_ms
        assert known.confidence == ("high" if key in came else "none")


@settings(max_examples=30)
@given(QUEUES, st.integers(0, 1 << 16))
def test_the_three_times_are_in_order(queue: list[tuple[Shape, int, int]], seed: int) -> None:
    """Earliest, likely, latest, as far as they are known; nothing lies in the past."""
    hall = Hall(a_cluster("lab", a_node(cpus=3, memory_gib=4, gpus=2, gpu_gib=4)))
    dice = random.Random(seed)
    lengths: dict[WorkloadId, Length] = {}
    for shape, priority, minutes in queue[:10]:
        key = hall.submit(shape, priority=priority)
        likely = sorted(dice.randint(1, minutes) * MINUTE for _ in range(dice.randrange(4)))
        lengths[key] = Length(tuple(likely), dice.choice((0, 40 * MINUTE)), "task", len(likely))
        hall.cycle()
    hall.now_ms += dice.randrange(20) * MINUTE
    waiting = [key for key in lengths if key not in hall.running()]
    for told in asked(hall, lengths, *waiting).values():
        times = [told.earliest_ms, told.likely_ms, told.p90_ms, told.latest_ms]
        known = [time for time in times if time is not None]
        assert known == sorted(known)
        assert all(time >= hall.now_ms for time in known)
        assert (told.confidence == "none") == (told.likely_ms is None)


def a_busy_hall() -> tuple[Hall, WorkloadId, WorkloadId]:
    """One that runs for ten minutes already, and one that waits for it."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    runs, waits = hall.submit(), hall.submit()
    hall.settle()
    hall.now_ms += 10 * MINUTE
    return hall, runs, waits


def test_what_has_room_starts_now() -> None:
    """Whatever is known of the rest."""
    hall = Hall(a_cluster())
    key = hall.submit()
    told = asked(hall, {}, key)[key]
    assert told.earliest_ms == told.likely_ms == told.latest_ms == told.at_ms == hall.now_ms
    assert told.confidence == "high"
    assert told.seq == hall.state.seq


def test_unknown_lengths_give_an_unknown_start() -> None:
    """It may be now, it may be never; how many nobody knows is told."""
    hall, _, waits = a_busy_hall()
    told = asked(hall, {}, waits)[waits]
    assert (told.likely_ms, told.latest_ms, told.confidence) == (None, None, "none")
    assert told.earliest_ms == hall.now_ms
    assert told.unknown == 1


def test_a_limit_is_a_latest_and_no_likely_time() -> None:
    """Most work ends long before its limit."""
    hall, runs, waits = a_busy_hall()
    began = hall.workload(runs).runs[0].planned_ms
    told = asked(hall, {runs: Length(limit_ms=60 * MINUTE)}, waits)[waits]
    assert (told.likely_ms, told.confidence) == (None, "none")
    assert told.latest_ms == began + 60 * MINUTE


@pytest.mark.parametrize(
    ("basis", "seen", "limit", "confidence"),
    [
        ("task", 3, 0, "low"),
        ("name", 3, 60, "fair"),
        ("script", 5, 0, "fair"),
        ("task", 5, 60, "high"),
        ("owner", 50, 0, "low"),
        ("anybody", 50, 60, "fair"),
    ],
)
def test_likely_lengths_give_likely_times(
    basis: Basis, seen: int, limit: int, confidence: str
) -> None:
    """Median and p90 of the futures; how sure that is hangs on what they rest on, and a limit."""
    hall, runs, waits = a_busy_hall()
    began = hall.workload(runs).runs[0].planned_ms
    likely = tuple((30 + n) * MINUTE for n in range(16))
    length = Length(likely, limit * MINUTE, basis, seen)
    told = asked(hall, {runs: length}, waits)[waits]
    assert told.futures == 16
    assert told.earliest_ms == began + 30 * MINUTE
    assert told.likely_ms == began + 37 * MINUTE
    assert told.p90_ms == began + 44 * MINUTE
    assert told.latest_ms == (began + limit * MINUTE if limit else None)
    assert told.confidence == confidence


def test_two_that_vary_are_not_both_at_their_worst() -> None:
    """What waits for either of two starts earlier than each of them is likely to end."""
    hall = Hall(a_cluster("lab", a_node(cpus=2)))
    first, second = hall.submit(), hall.submit()
    hall.settle()
    waits = hall.submit()
    likely = tuple(n * MINUTE for n in range(1, 17))
    lengths = {key: Length(likely, 0, "task", 9) for key in (first, second)}
    told = asked(hall, lengths, waits)[waits]
    assert told.likely_ms is not None
    assert told.likely_ms < hall.now_ms + 8 * MINUTE


def test_who_is_before_it_counts() -> None:
    """Third in the queue: two whole runs later."""
    hall, runs, first = a_busy_hall()
    second = hall.submit(priority=1)
    began = hall.workload(runs).runs[0].planned_ms
    lengths = {key: exactly(15 * MINUTE) for key in (runs, first, second)}
    told = asked(hall, lengths, first, second)
    assert told[second].likely_ms == began + 15 * MINUTE
    assert told[first].likely_ms == began + 30 * MINUTE
    del lengths[second]
    told = asked(hall, lengths, first, second)
    assert told[second].likely_ms == began + 15 * MINUTE
    assert (told[first].likely_ms, told[first].unknown) == (None, 1)


def test_unknown_work_elsewhere_does_not_matter() -> None:
    """Only what it must wait for."""
    hall = Hall(a_cluster("a", a_node("a1", cpus=1)), a_cluster("b", a_node("b1", cpus=4)))
    large, runs = hall.submit(a_shape(a_request(cpus=4))), hall.submit()
    hall.settle()
    waits = hall.submit()
    hall.settle()
    assert set(hall.running()) == {large, runs}
    told = asked(hall, {runs: exactly(15 * MINUTE)}, waits)[waits]
    assert told.likely_ms == hall.now_ms + 15 * MINUTE
    assert told.unknown == 0


def test_room_that_will_be_kept_is_counted_on() -> None:
    """A large job is passed for ten minutes by small ones that wait already, and no longer."""
    hall = Hall(a_cluster("lab", a_node(cpus=2)))
    lasts_ms = {}
    small = a_shape(a_request(cpus=1))
    for number in range(40):
        if number == 2:
            large = hall.submit(a_shape(a_request(cpus=2)))
        lasts_ms[hall.submit(small)] = (90 if number % 2 else 60) * 1000
        hall.cycle()
    lasts_ms[large] = MINUTE
    told = asked(hall, {key: exactly(length) for key, length in lasts_ms.items()}, large)[large]
    queued = hall.workload(large).queued_ms
    came = play(hall, lasts_ms)
    assert told.likely_ms == came[large]
    assert queued + 2 * MINUTE < came[large] <= queued + OVERTAKEN_MS + 2 * MINUTE


def test_beyond_what_a_view_shows_nothing_is_told() -> None:
    """The first of each shape are there; when their turn is over, others would come."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    keys = [hall.submit() for _ in range(HEADS + 3)]
    small = hall.submit(a_shape(a_request(cpus=0.5)), priority=-1)
    hall.settle()
    lengths = {key: exactly(MINUTE) for key in (*keys, small)}
    told = asked(hall, lengths, keys[1], keys[-1], small)
    assert told[keys[1]].likely_ms == hall.now_ms + MINUTE
    assert keys[-1] not in told
    assert told[small].likely_ms is None


def test_what_fits_nowhere_has_no_time_at_all() -> None:
    """Not even an earliest."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    key = hall.submit(a_shape(a_request(cpus=2)))
    hall.settle()
    told = asked(hall, {}, key)[key]
    assert (told.earliest_ms, told.likely_ms, told.latest_ms) == (None, None, None)
    assert told.confidence == "none"


def test_of_what_does_not_wait_nothing_is_said() -> None:
    """Running, held and unknown workloads have no start to come."""
    hall, runs, _ = a_busy_hall()
    held = hall.submit(held=True)
    assert asked(hall, {}, runs, held, WorkloadId("w-99999")) == {}


def test_it_says_what_it_assumes() -> None:
    """Somebody may submit something urgent the next minute."""
    hall, _, waits = a_busy_hall()
    assert NO_ARRIVALS in asked(hall, {}, waits)[waits].assumes


def test_asking_changes_nothing() -> None:
    """The view plans the same before and after."""
    hall, _, waits = a_busy_hall()
    view = hall.view()
    before = plan(view)
    forecast(view, Knowledge(), [waits])
    assert plan(view) == before
