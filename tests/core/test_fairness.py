"""What queues held, borrowed and lent over time; nothing is lent that nobody borrowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.fairness import HeldOver, Span, held_over
from stellwerk.core.model.queueing import Pair
from stellwerk.core.queueing_quota import QuotaOf, quota_of
from tests.core.queued import a_queue, queueing

CPU = Pair("std", "cpu")


def trees() -> list[QuotaOf]:
    """Two queues of two CPUs each in one cohort, and one queue alone."""
    objects = queueing(
        a_queue("a", 2, cohort="lab"), a_queue("b", 2, cohort="lab"), a_queue("c", 1)
    )
    return quota_of(objects, ())


def over(*spans: tuple[str, int, int, int]) -> dict[str, HeldOver]:
    """By queue, in CPUs times milliseconds."""
    told = [Span(by, CPU, cpus * 1000, start, end) for by, cpus, start, end in spans]
    return {name: one for (name, _), one in held_over(trees(), told, 0, 100).items()}


def test_who_uses_more_than_its_own_borrows_it_from_who_does_not() -> None:
    """As long as it does; a cohort held what was held below it; one alone borrows nothing."""
    found = over(("a", 3, 0, 50), ("b", 1, 0, 100), ("c", 2, 90, 200))
    assert found["a"] == HeldOver(150_000, 50_000, 0)
    assert found["b"] == HeldOver(100_000, 0, 50_000)
    assert found["lab"].held == 250_000
    assert found["c"] == HeldOver(20_000, 0, 0)


SPANS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(0, 90), st.integers(0, 120)),
    max_size=8,
)


@given(SPANS)
def test_what_is_lent_is_what_was_borrowed_within_quota(
    spans: list[tuple[str, int, int, int]],
) -> None:
    """Both sides are equal where the cohort's quota wasn't exceeded, and never more is lent."""
    found = over(*spans)
    lent, borrowed = (
        sum(getattr(one, name) for one in found.values()) for name in ("lent", "borrowed")
    )
    assert lent <= borrowed + 1e-6
    most = max((sum(c for _, c, s, e in spans if s <= at < e) for at in range(100)), default=0)
    if most <= 4:
        assert lent == pytest.approx(borrowed)
