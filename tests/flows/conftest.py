"""Gives flows a person with an empty home: one of their own, or one that a whole module shares."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stellwerk.runtime.removing import remove_tree
from tests.flows.person import Person, Quick


@contextmanager
def somebody() -> Iterator[Person]:
    """A new user; whatever they started is over afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="stw-"))
    someone = Quick(folder)
    try:
        yield someone
    finally:
        someone.leave()
        remove_tree(str(folder))


@pytest.fixture
def person() -> Iterator[Person]:
    """A user of their own, for a test that kills, stops or fills things."""
    with somebody() as someone:
        yield someone


@pytest.fixture(scope="module")
def colleague() -> Iterator[Person]:
    """A user with one server for a whole module: its tests name their workloads differently."""
    with somebody() as someone:
        yield someone
