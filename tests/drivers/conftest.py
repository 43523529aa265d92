"""Gives tests of drivers a machine with a home of its own, and one that is reached over SSH."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.far_place import FarPlace
from tests.drivers.machine import Machine
from tests.drivers.sshd import Account, Sshd, an_sshd, be_a_person, end_all_in


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """This machine, with an agent as soon as a driver asks for it; all of it ends with the test."""
    machine = Machine(tmp_path)
    yield machine
    machine.clear()


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    """An SSH server on loopback, for the tests of a module."""
    with (
        tempfile.TemporaryDirectory(prefix="stw-sshd-") as folder,
        an_sshd(Path(folder) / "s") as it,
    ):
        yield it


@pytest.fixture
def account(server: Sshd) -> Iterator[Account]:
    """A new user there, whom this process is let in as."""
    be_a_person(Path.home(), server, opens=server)
    account = Account(server)
    yield account
    end_all_in(account.home)


@pytest.fixture
def place(account: Account, tmp_path: Path) -> FarPlace:
    """What a new Stellwerk has as that user."""
    return FarPlace(tmp_path, [account.host])
