"""The local driver keeps what every driver promises, with a real agent and real processes."""

import pytest

from stellwerk.testing.driver_suite import DriverSuite
from tests.drivers.machine import Machine


class TestLocalDriver(DriverSuite):
    """Every test of the suite on this machine; each has an agent of its own."""

    @pytest.fixture
    def place(self, machine: Machine) -> Machine:
        return machine
