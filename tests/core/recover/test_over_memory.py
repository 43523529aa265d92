"""Who holds more of a shared card than it asked for, and who is stopped for it."""

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.quantity import GIB
from stellwerk.core.recover.over_memory import Holder, SharedCard, judged, over


def holder(run: str, asked: float, used: float | None) -> Holder:
    held = None if used is None else round(used * GIB)
    return Holder(run, f"job-{run}", round(asked * GIB), held)


def card(*holders: Holder, free: float | None = 0, label: str = "0") -> SharedCard:
    return SharedCard(label, holders, None if free is None else round(free * GIB))


def test_who_takes_more_is_told_and_goes_on_while_there_is_enough() -> None:
    """With the numbers; a little more than asked is nothing."""
    (found,) = over(card(holder("a", 10, 14), holder("b", 10, 6), free=4))
    assert (found.run, found.reason.code, found.harms) == ("a", "gpu_over_asked", False)
    assert render(found.reason).sentence == "it holds 14 GiB of GPU 0 and asked for 10 GiB"
    assert over(card(holder("a", 10, 10.5), holder("b", 10, 9))) == []


def test_who_keeps_another_from_its_own_must_stop() -> None:
    """The reason names who could not get how much."""
    (found,) = over(card(holder("a", 10, 16), holder("b", 10, 6), free=2))
    assert (found.reason.code, found.harms) == ("gpu_over_harms", True)
    assert render(found.reason).sentence == (
        "it held 16 GiB of GPU 0, of which it had asked for 10 GiB, and job-b could get only 8 GiB "
        "of its 10 GiB"
    )


def test_what_is_not_known_harms_nobody() -> None:
    """Neither where nothing is told of what is free nor of what another holds."""
    for one in (
        card(holder("a", 10, 20), holder("b", 10, 2), free=None),
        card(holder("a", 10, 20), holder("b", 10, None)),
    ):
        assert [found.harms for found in over(one)] == [False]
    assert over(card(holder("a", 10, None))) == []


def test_of_several_the_greediest_stops() -> None:
    """One at a time; then it is looked at again. On several cards what is worst counts."""
    found = over(card(holder("a", 4, 9), holder("b", 4, 10), holder("c", 4, 1)))
    assert [(one.run, one.harms) for one in found] == [("b", True), ("a", False)]
    harmless = card(holder("a", 4, 9), free=8)
    harming = card(holder("a", 4, 9), holder("c", 4, 1), label="1")
    (worst,) = judged([harmless, harming])
    assert (worst.harms, worst.reason.params["gpu"]) == (True, "1")


@given(
    st.lists(st.tuples(st.integers(1, 20), st.none() | st.integers(0, 40)), min_size=1, max_size=4),
    st.none() | st.integers(0, 10),
)
def test_nobody_who_keeps_to_its_own_is_told_anything(
    held: list[tuple[int, int | None]], free: int | None
) -> None:
    """And at most one must stop, only where another lacks what it asked for."""
    holders = [holder(str(n), asked, used) for n, (asked, used) in enumerate(held)]
    found = over(card(*holders, free=free))
    modest = {one.run for one in holders if (one.used_bytes or 0) <= one.asked_bytes}
    assert not modest & {one.run for one in found}
    stopped = [one.run for one in found if one.harms]
    assert len(stopped) <= 1
    if stopped:
        assert free is not None
        assert any(
            one.used_bytes is not None and one.asked_bytes - one.used_bytes > free * GIB
            for one in holders
            if one.run != stopped[0]
        )
