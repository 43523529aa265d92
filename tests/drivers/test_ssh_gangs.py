"""Runs over two machines behind real connections: begun together or not at all, ended together."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import RankOrder, StartOrder
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Session
from tests.drivers.far_place import FarPlace, play
from tests.drivers.sshd import Account, Sshd, an_sshd, be_a_person, end_all_in

RUN = RunId("w-1-1")


class TwoMachines:
    """A place of two, each with a server of its own."""

    def __init__(self, folder: Path, one: Account, other: Account) -> None:
        self.accounts = (one, other)
        self.place = FarPlace(folder, [one.host, other.host])

    def order(self, script: str, run: str = RUN, setup: str = "") -> StartOrder:
        """A run with a rank on each."""
        ranks = tuple(
            RankOrder(number, account.name, {"SKYPILOT_NODE_RANK": str(number)})
            for number, account in enumerate(self.accounts)
        )
        env = {"MASTER_ADDR": "127.0.0.1", "PET_NNODES": "2"}
        return replace(an_order(run), ranks=ranks, env=env, script=script, setup=setup)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Sshd, Sshd]]:
    with (
        tempfile.TemporaryDirectory(prefix="stw-sshd-") as one,
        tempfile.TemporaryDirectory(prefix="stw-sshd-") as other,
        an_sshd(Path(one) / "s") as first,
        an_sshd(Path(other) / "s") as second,
    ):
        (second.keys / "person.pub").write_bytes((first.keys / "person.pub").read_bytes())
        second.stop()
        second.start()
        yield first, second


@pytest.fixture
def two(servers: tuple[Sshd, Sshd], tmp_path: Path) -> Iterator[TwoMachines]:
    be_a_person(Path.home(), *servers, opens=servers[0])
    two = TwoMachines(tmp_path, Account(servers[0]), Account(servers[1]))
    yield two
    for account in two.accounts:
        end_all_in(account.home)


def test_both_begin_when_both_are_prepared(two: TwoMachines) -> None:
    """And meet at one port, which the first of them has chosen; each has its own log."""
    slow = two.accounts[1].home / "slow"
    script = f'echo "$SKYPILOT_NODE_RANK $MASTER_PORT $PET_MASTER_PORT"; ls {slow}'
    setup = f"[ ~ != {slow.parent} ] || {{ sleep 0.3; touch ~/slow; }}"

    async def scene(session: Session) -> None:
        await session.driver.start(two.order(script, setup=setup))
        assert (await session.ends(RUN)).code == 0
        logs = [(await session.driver.read_log(RUN, "run", n, 0, 999)).data for n in (0, 1)]
        lines = [data.decode().split() for data in logs]
        assert [line[0] for line in lines] == ["0", "1"]
        assert lines[0][1] == lines[0][2] == lines[1][1] == lines[1][2] != ""
        await session.driver.forget(RUN)

    play(two.place, scene)
