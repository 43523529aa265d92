"""Gives each flow a person with an empty home."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.person import Person


@pytest.fixture
def person() -> Iterator[Person]:
    """A new user; whatever they started is over when the test is."""
    folder = Path(tempfile.mkdtemp(prefix="stw-"))
    someone = Person(folder)
    try:
        yield someone
    finally:
        someone.leave()
        shutil.rmtree(folder, ignore_errors=True)
