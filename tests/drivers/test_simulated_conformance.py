"""The simulated driver keeps what every driver promises."""

import pytest

from stellwerk.testing.driver_suite import DriverSuite
from stellwerk.testing.simulated import SimulatedCluster


class TestSimulatedDriver(DriverSuite):
    """Every test of the suite, in virtual time."""

    @pytest.fixture
    def place(self) -> SimulatedCluster:
        return SimulatedCluster()
