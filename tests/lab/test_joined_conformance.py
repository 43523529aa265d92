"""Machines that dial in keep what every driver promises."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.testing.driver_suite import DriverSuite
from tests.drivers.far_place import now_ms
from tests.drivers.joined_place import CLUSTER, JoinedPlace


class TestJoinedDriver(DriverSuite):
    """Every test of the suite on a machine that dials in; each has an agent of its own."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[JoinedPlace]:
        place = JoinedPlace(tmp_path)
        _, token = asyncio.run(place.tokens.make(CLUSTER, 60_000, now_ms(), "ada"))
        place.join(token)
        yield place
        place.clear()
