"""One agent per test module, for the tests that don't end it."""

from collections.abc import Iterator

import pytest

from tests.runtime.rig import Rig, a_rig


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A running agent."""
    with a_rig() as made:
        made.start_agent()
        yield made


@pytest.fixture
def own_rig() -> Iterator[Rig]:
    """A rig whose agent the test starts and may kill."""
    with a_rig() as made:
        yield made
