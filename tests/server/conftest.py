"""A running server for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.stage import Stage


@pytest.fixture
def stage(home_of_its_own: str) -> Iterator[Stage]:
    """A server of one's own, over a store, an engine and a cluster led by hand."""
    with Stage(Path(home_of_its_own)) as running:
        yield running
