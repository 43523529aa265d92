"""How long what is kept: the defaults, what a request changes, and what is due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.config import Settings, load
from stellwerk.server.tidying.rules import (
    DAY_MS,
    KINDS,
    LEAST_MS,
    SPARED_MS,
    Found,
    Kind,
    Rule,
    due,
    rules,
)

NOW = 1_700_000_000_000


def settings(**changed: int) -> Settings:
    """The defaults, with changes as variables give them."""
    env = {f"STELLWERK_{name.upper()}": str(value) for name, value in changed.items()}
    return load({"HOME": "/nowhere", **env})


def test_the_defaults_lose_nobodys_results() -> None:
    """Output goes after a month; results, checkpoints, the lists and the journal stay."""
    found = rules(settings())
    assert list(found) == list(KINDS)
    days = {kind: rule.keep_ms and rule.keep_ms / DAY_MS for kind, rule in found.items()}
    assert days == {
        "runs": 30,
        "outputs": None,
        "checkpoints": None,
        "strays": 1,
        "workloads": None,
        "decisions": 30,
        "commands": 7,
        "blobs": 1,
        "secrets": 1,
        "journal": None,
    }


def test_an_age_that_is_asked_for_is_about_runs_or_what_is_named() -> None:
    """So that nobody loses checkpoints by asking for room."""
    asked = rules(settings(), older_than_ms=DAY_MS)
    assert asked["runs"].keep_ms == DAY_MS
    assert asked["checkpoints"].keep_ms is None
    assert asked["decisions"].keep_ms == 30 * DAY_MS
    named = rules(settings(), older_than_ms=DAY_MS, only=("checkpoints", "journal"))
    assert {kind: rule.keep_ms for kind, rule in named.items()} == {
        "checkpoints": DAY_MS,
        "journal": None,
    }


@pytest.mark.parametrize("kind", ["blobs", "secrets", "strays", "commands"])
def test_what_is_on_its_way_is_given_an_hour(kind: Kind) -> None:
    """Content that was sent a moment ago is referred to by a submission that still comes."""
    found = rules(settings(keep_unused_days=0), older_than_ms=0, only=(kind,))
    assert [rule.keep_ms for rule in found.values()] == [LEAST_MS]


def test_size_takes_the_oldest_but_not_what_ended_only_just() -> None:
    """Until the rest fits."""
    found = [Found(str(n), NOW - n * 4 * DAY_MS, 10) for n in (0, 1, 2, 3, 4)]
    assert [one.name for one in due(found, Rule(None, 35), NOW)] == ["4", "3"]
    assert [one.name for one in due(found, Rule(None, 1), NOW)] == ["4", "3", "2"]
    assert due(found, Rule(None, 50), NOW) == []
    assert due(found, Rule(None, 0), NOW) == []


@given(
    ends=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12),
    keep_days=st.one_of(st.none(), st.integers(1, 60)),
    most=st.integers(0, 40),
)
def test_what_is_due(ends: list[tuple[int, int]], keep_days: int | None, most: int) -> None:
    """All that is too old and nothing younger, unless it is too much: then the oldest, until the
    rest fits or only the newest is left.
    """
    found = [Found(f"w{i}", NOW - days * DAY_MS, size) for i, (days, size) in enumerate(ends)]
    rule = Rule(None if keep_days is None else keep_days * DAY_MS, most)
    going = due(found, rule, NOW)
    stays = [one for one in found if one not in going]
    if rule.keep_ms is not None:
        limit_ms = NOW - rule.keep_ms
        assert all(one.ended_ms >= limit_ms for one in stays)
    if not most:
        assert all(rule.keep_ms and one.ended_ms < NOW - rule.keep_ms for one in going)
    else:
        fits = sum(one.bytes for one in stays) <= most
        assert fits or all(one.ended_ms >= NOW - SPARED_MS for one in stays)
        oldest_kept = min((one.ended_ms for one in stays), default=NOW)
        assert all(one.ended_ms <= oldest_kept for one in going)
