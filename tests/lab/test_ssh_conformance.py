"""The SSH driver keeps what every driver promises, over a real sshd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.drivers.ssh.hosts import read_host
from stellwerk.testing.driver_suite import DriverSuite
from tests.drivers.far_place import FarPlace
from tests.lab.room import Computer, Room, a_room, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with a_room() as room:
        yield room


@pytest.fixture(scope="module")
def computer(room: Room) -> Computer:
    computer = room.add()
    room.trust(computer)
    return computer


class TestSshDriver(DriverSuite):
    """Every test of the suite on a machine over SSH; each has an agent of its own."""

    @pytest.fixture
    def place(
        self, room: Room, computer: Computer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[FarPlace]:
        room.be_at(monkeypatch)
        place = FarPlace(tmp_path, [read_host(str(computer))])
        yield place
        place.clear()
