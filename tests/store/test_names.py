"""Names that are unique in a project."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from stellwerk.store import schema
from stellwerk.store.names import NameBook, numbered

BASES = st.builds(
    lambda stem, tails: "-".join([stem, *tails]),
    st.sampled_from(["a", "a", "a", "a.b", "A"]),
    st.lists(st.sampled_from(["2", "2", "3", "1", "02", "x"]), max_size=2),
)


@pytest.fixture(scope="module")
def database() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as conn:
        schema.metadata.create_all(conn)
        yield conn
    engine.dispose()


TRANSACTION = st.lists(st.tuples(st.sampled_from("pppq"), BASES), max_size=8)


@example(transactions=[[("p", "a"), ("p", "a")], [("p", "a-2"), ("p", "a")]])
@given(transactions=st.lists(TRANSACTION, max_size=5))
def test_names_are_unique_and_keep_their_base(
    database: sa.Connection, transactions: list[list[tuple[str, str]]]
) -> None:
    """A free base is given as it is, a taken one with the next free number, across transactions."""
    database.execute(sa.delete(schema.names))
    used: set[tuple[str, str]] = set()
    last: dict[tuple[str, str], int] = {}
    for transaction in transactions:
        book = NameBook(database)
        for project, base in transaction:
            expected, number = base, 1
            if (project, base) in used:
                number = max(last.get((project, base), 1), 1) + 1
                while (project, f"{base}-{number}") in used:
                    number += 1
                expected = f"{base}-{number}"
            last[project, base] = number
            assert book.give(project, base) == expected
            used.add((project, expected))
        book.save()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("digits-2", ("digits", 2)),
        ("digits-10", ("digits", 10)),
        ("digits-1", None),
        ("digits-0", None),
        ("digits-02", None),
        ("digits", None),
        ("-2", None),
        ("digits-", None),
        ("digits-²", None),
        ("a-2-3", ("a-2", 3)),
        ("day-20261130", ("day", 20261130)),
        ("day-" + "9" * 40, None),
    ],
)
def test_which_names_are_numbered(name: str, parts: tuple[str, int] | None) -> None:
    """Only what numbering could have made is read as a number; all else is a base of its own."""
    assert numbered(name) == parts
