"""Gives tests of drivers a machine with a home of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """This machine, with an agent as soon as a driver asks for it; all of it ends with the test."""
    machine = Machine(tmp_path)
    yield machine
    machine.clear()
