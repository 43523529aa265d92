"""Who used least before comes first: past use as a fact that decays, and the order by it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.in_line import in_line, quota_in
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.queueing import LocalQueue, PastUse, QueueSettings
from stellwerk.core.state import State
from stellwerk.core.state.past_use import PastUses
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

HOUR = 3_600_000
RULES = PastUse(HOUR, sampling_ms=300_000)
ONE = a_shape(a_request(cpus=1))


def a_hall(
    cpus: int = 1, rules: PastUse | None = RULES, weights: tuple[float, float] = (1, 1)
) -> Hall:
    """One queue, in which the LocalQueues `ann` and `bob` share so many CPUs."""
    hall = Hall(a_cluster("lab", a_node(cpus=cpus, memory_gib=64)))
    objects = queueing(
        replace(a_queue("team", cpus), usage_based=True), settings=QueueSettings(past_use=rules)
    )
    doors = tuple(
        LocalQueue("p", name, "team", weight=weight)
        for name, weight in zip(("ann", "bob"), weights, strict=True)
    )
    hall.apply(replace(objects, local_queues=doors))
    return hall


def work(hall: Hall, queue: str, hours: float) -> None:
    """Lets somebody's job run for a while, alone."""
    key = hall.submit(ONE, queue=queue)
    assert hall.settle() == [key]
    hall.now_ms += round(hours * HOUR)
    hall.end(key)


def test_who_used_less_comes_first_whatever_the_priority() -> None:
    """Without the rule the priority decides; a half-life later half of it is forgotten."""
    for rules, first in ((RULES, "bob"), (None, "ann")):
        hall = a_hall(rules=rules)
        work(hall, "ann", 2)
        waiting = {
            "ann": hall.submit(ONE, queue="ann", priority=9),
            "bob": hall.submit(ONE, queue="bob"),
        }
        view = hall.view()
        found = in_line(view, waiting[first], quota_in(view))
        assert found is not None
        assert found.place == 1
        assert hall.settle() == [waiting[first]]


def test_a_heavier_queue_may_use_more() -> None:
    """Two hours at weight 3 are less than one hour at weight 1."""
    hall = a_hall(weights=(3, 1))
    work(hall, "ann", 2)
    work(hall, "bob", 1)
    hall.submit(ONE, queue="bob")
    ann = hall.submit(ONE, queue="ann")
    assert hall.settle() == [ann]


def test_what_begins_counts_at_once_so_that_they_take_turns() -> None:
    """Four places in one cycle: two for each, though one of them asked first for all four."""
    hall = a_hall(cpus=4)
    ann = [hall.submit(ONE, queue="ann") for _ in range(4)]
    bob = [hall.submit(ONE, queue="bob") for _ in range(4)]
    started = hall.cycle()
    assert sorted(started) == sorted([*ann[:2], *bob[:2]])


def test_past_use_survives_a_restart_and_is_forgotten_with_the_rules() -> None:
    """The image has it; a Configuration without them ends it."""
    hall = a_hall()
    work(hall, "ann", 1)
    key = hall.submit(ONE, queue="bob")
    hall.settle()
    again = State.from_image(hall.state.image())
    assert again.past_use.at(hall.now_ms + HOUR, RULES) == hall.state.past_use.at(
        hall.now_ms + HOUR, RULES
    )
    assert hall.view().past_use["p/ann"]["cpu"] == pytest.approx(500 + 56, abs=40)
    hall.apply(queueing(settings=QueueSettings()))
    assert hall.view().past_use == {}
    hall.end(key)
    assert hall.state.past_use.kept == {}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 4)), max_size=12),
    st.integers(1, 6),
)
def test_it_is_what_sampling_all_the_time_comes_to(
    runs: list[tuple[int, int, int]], half_life: int
) -> None:
    """Against a sum over runs, each of which counts half after each half-life."""
    rules = PastUse(half_life, sampling_ms=0)
    facts = [(start, 1, amount) for start, _, amount in runs]
    facts += [(start + length, 0, amount) for start, length, amount in runs]
    past = PastUses()
    for at_ms, begins, amount in sorted(facts):
        holding = Holding("team", {"cpu": "std"}, {"cpu": amount})
        if begins:
            past.started("q", holding, at_ms, rules)
        else:
            past.ended("q", holding, at_ms, rules)
    now = 15
    expected = sum(
        amount * (0.5 ** ((now - start - length) / half_life) - 0.5 ** ((now - start) / half_life))
        for start, length, amount in runs
    )
    found = past.at(now, rules).get("q", {}).get("cpu", 0.0)
    assert found == pytest.approx(expected, abs=1e-9)
