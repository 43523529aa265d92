"""Predicted lengths: what they rest on, what they never do, and how their rightness is counted."""

import random

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.lengths import FULL, MOST_SKETCHES, ONCE, History, keys_of
from stellwerk.core.model.lengths import Keys, Sketch

HOUR_MS = 3_600_000
ages = st.integers(1, 40 * 24 * HOUR_MS)


def keys(name: str = "train", owner: str = "ada", task: str = "t1", shape: str = "s1") -> Keys:
    """Keys of work of one project."""
    return keys_of("default", owner, name, task, shape)


def after(*lengths: int, **of: str) -> History:
    """A history of so many ends of the same work."""
    history = History()
    for one in lengths:
        history.learn(keys(**of), one)
    return history


def test_nothing_known_is_a_guess() -> None:
    """It says so, and is wide."""
    found = History().predict(keys())
    assert (found.basis, found.seen) == ("guess", 0)
    assert found.p50_ms < HOUR_MS < found.p90_ms


def test_the_same_again() -> None:
    """Some runs of the same length say it to a tenth."""
    found = after(*[HOUR_MS] * 12).predict(keys("train-7"))
    assert (found.basis, found.seen) == ("task", 12)
    assert HOUR_MS <= found.p50_ms <= found.p90_ms <= 1.1 * HOUR_MS


def test_the_nearest_that_is_known_weighs_most() -> None:
    """Another script of this name, another name of this owner, somebody else's."""
    history = after(*[HOUR_MS] * 8)
    for _ in range(8):
        history.learn(keys("eval", task="t2", shape="s2"), 60_000)
    assert history.predict(keys(task="t9")).basis == "name"
    assert history.predict(keys(task="t9")).p50_ms >= HOUR_MS
    assert history.predict(keys("other", owner="bob")).basis == "script"
    assert history.predict(keys("other", task="t9")).basis == "shape"
    assert after(60_000).predict(keys("other", owner="bob", task="t9")).basis == "guess"
    assert history.predict(keys("other", task="t9", shape="s9")).basis == "owner"
    assert history.predict(keys("x", "bob", "t9", "s9")).basis == "anybody"


def test_one_run_is_no_certainty() -> None:
    """It moves the median; nine of ten is left to what is known of others."""
    found = after(60_000).predict(keys())
    assert found.p50_ms <= 1.1 * 60_000
    assert found.p90_ms > 5 * 60_000


def test_recent_ones_outweigh_old_ones() -> None:
    """Work that has become longer is believed to be so."""
    history = after(*[60_000] * 300, *[HOUR_MS] * 60)
    assert history.predict(keys()).p50_ms >= HOUR_MS
    for sketch in history.image().sketches.values():
        assert sum(sketch.counts.values()) < FULL


@given(st.lists(ages, max_size=12), ages | st.just(0), ages | st.just(0))
def test_what_always_holds(lengths: list[int], elapsed: int, limit: int) -> None:
    """In order, beyond what it ran already, within its limit, whatever came before."""
    found = after(*lengths).predict(keys(), elapsed, limit)
    assert found.p50_ms <= found.p90_ms
    assert found.p50_ms >= elapsed
    assert not limit or found.p90_ms <= max(limit, elapsed)
    assert after(*reversed(lengths)).predict(keys(), elapsed, limit) == found


@given(st.lists(ages, min_size=1, max_size=12), ages)
def test_longer_work_is_expected_to_go_on_longer(lengths: list[int], elapsed: int) -> None:
    """What has run already never brings the end nearer than it was."""
    history = after(*lengths)
    assert history.predict(keys(), elapsed).p90_ms >= history.predict(keys()).p90_ms


def test_how_right_it_was_is_counted() -> None:
    """On lengths that vary as those of real work do, medians are medians and nine of ten are."""
    dice = random.Random(4)
    history = History()
    for _ in range(600):
        history.learn(keys(), int(dice.lognormvariate(13, 0.8)))
    tally = history.calibration["task"]
    assert tally.ends == 599
    assert 0.4 < tally.within_p50 / tally.ends < 0.65
    assert 0.82 < tally.within_p90 / tally.ends < 0.97


def test_it_is_bounded_and_goes_on_from_its_image() -> None:
    """What nobody added to for longest goes first."""
    history = after(HOUR_MS)
    full = {str(index): Sketch({1: ONCE}) for index in range(MOST_SKETCHES)}
    image = history.image()
    again = History(type(image)({**image.sketches, **full}, image.calibration))
    again.learn(keys("new", "bob", "t9", "s9"), 1000)
    assert len(again.image().sketches) == MOST_SKETCHES
    assert again.predict(keys()).basis == "guess"
    assert again.predict(keys("new", "bob", "t9", "s9")).basis == "task"
