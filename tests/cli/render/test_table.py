"""Columns line up on a terminal; anywhere else nothing is cut."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.cli.render.table import Cell, Column, shorten, table
from stellwerk.cli.terminal import Terminal

SCREEN = Terminal(is_tty=True, colour=False, unicode=True, width=30)
PIPE = Terminal(is_tty=False, colour=False, unicode=True, width=0)


class Job(NamedTuple):
    name: str
    number: int
    why: str


COLUMNS: list[Column[Job]] = [
    Column("name", "NAME", lambda job: job.name),
    Column("count", "N", lambda job: str(job.number), right=True),
    Column("why", "WHY", lambda job: job.why, grows=True),
]
JOBS = [Job("a", 5, "because of this and that, and more"), Job("longer", 12, "no")]


def test_columns_line_up_and_only_the_last_is_cut() -> None:
    """Numbers to the right; the text that grows gets what is left."""
    assert table(COLUMNS, JOBS, SCREEN) == [
        "NAME     N  WHY",
        "a        5  because of this a…",
        "longer  12  no",
    ]


def test_nothing_is_cut_when_all_is_wanted() -> None:
    """`-o wide` shows everything."""
    assert table(COLUMNS, JOBS, SCREEN, cut=False)[1].endswith("and more")


def test_plain_characters_say_that_something_is_cut() -> None:
    """Three dots where the terminal knows no others."""
    assert shorten("abcdefgh", 6, SCREEN._replace(unicode=False)) == "abc..."


def test_a_pipe_gets_tabs() -> None:
    """For cut, awk and read."""
    assert table(COLUMNS, JOBS, PIPE, headers=False) == [
        "a\t5\tbecause of this and that, and more",
        "longer\t12\tno",
    ]


def test_a_style_is_never_counted() -> None:
    """Colours take no room."""
    columns: list[Column[str]] = [
        Column("x", "X", lambda text: Cell(text, "bad")),
        Column("y", "Y", lambda text: text),
    ]
    plain = table(columns, ["aa", "b"], SCREEN)
    coloured = table(columns, ["aa", "b"], SCREEN._replace(colour=True))
    strip = [
        line.replace("\x1b[31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")
        for line in coloured
    ]
    assert strip == plain
    assert coloured != plain


@given(st.lists(st.tuples(st.text(), st.integers(), st.text()), max_size=8), st.integers(10, 200))
def test_a_table_has_one_line_per_row(rows: list[tuple[str, int, str]], width: int) -> None:
    """Whatever is in a cell, it stays in its cell."""
    jobs = [Job(*row) for row in rows]
    for terminal in (SCREEN._replace(width=width), PIPE):
        lines = table(COLUMNS, jobs, terminal)
        assert len(lines) == len(jobs) + 1
        assert all("\n" not in line and "\x1b" not in line for line in lines)


@pytest.mark.parametrize("width", [30, 60])
def test_lines_fit_the_terminal(width: int) -> None:
    """As long as the fixed columns leave room for it."""
    lines = table(COLUMNS, JOBS, SCREEN._replace(width=width))
    assert max(map(len, lines)) <= width
