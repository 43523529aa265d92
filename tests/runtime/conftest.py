"""One agent per test module, for the tests that don't end it."""

from collections.abc import Iterator

import pytest

from tests.runtime.rig import Rig, a_rig
from tests.runtime.stand_in import NO_COMPILER, compiled


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


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The stand-in for the driver's library, compiled here."""
    if NO_COMPILER:
        pytest.skip(NO_COMPILER)
    return compiled(tmp_path_factory.mktemp("nvml"))
