"""The local driver keeps what every driver promises, with a real agent and real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.testing.driver_suite import DriverSuite
from tests.drivers.machine import Machine


class TestLocalDriver(DriverSuite):
    """Every test of the suite on this machine; each has an agent of its own."""

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
        monkeypatch.setenv("HOME", str(tmp_path))
        machine = Machine(tmp_path)
        yield machine
        machine.clear()
