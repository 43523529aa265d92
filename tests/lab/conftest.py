"""Keeps these tests out of an ordinary run, and gives them a researcher with an empty home."""

import os
from collections.abc import Iterator

import pytest

from tests.lab.environments import TRAINER
from tests.lab.researcher import Researcher, a_researcher

collect_ignore_glob = [] if os.environ.get("LAB") else ["test_*.py"]


@pytest.fixture
def researcher() -> Iterator[Researcher]:
    """Skips where the frameworks could not be had, and says why."""
    if TRAINER.missing:
        pytest.skip(TRAINER.missing)
    with a_researcher() as someone:
        yield someone
