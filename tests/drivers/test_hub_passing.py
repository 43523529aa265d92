"""Content goes straight from machine to machine: to the one that was meant, and to nobody else."""

import asyncio
import time

import pytest

from stellwerk.drivers.agents.hub_copying import Way, copy, look
from stellwerk.drivers.base import DriverError
from stellwerk.runtime import hub_passing
from stellwerk.server.data_way import make_way
from tests.drivers.test_hub_copying import BIG, FOLDER, WORDS, Machine, machines
from tests.runtime.hub import COMMIT, digest, make_repo

__all__ = ["machines"]
HUGE = b"begin" + bytes(8 * 2**20) + BIG * 3 + b"end"


@pytest.fixture(autouse=True)
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the two were elsewhere: a machine never asks itself."""
    monkeypatch.setattr(hub_passing, "own_addresses", list)


def a_way() -> Way:
    """One that leads to this machine."""
    way = make_way(["127.0.0.1"], int(time.time() * 1000))
    assert way is not None
    return way


async def carry(one: Machine, other: Machine, way: Way) -> int:
    wanted = await look(one, WORDS, COMMIT)
    return await copy(one, other, wanted, 0, lambda _done, _all: None, way)


def test_large_files_go_straight(machines: tuple[Machine, Machine]) -> None:
    """Holes stay holes; what was begun is gone on from; the port is closed afterwards."""
    one, other = machines
    make_repo(one.cache, {"huge.bin": HUGE, "small": b"x"}, name=FOLDER)
    blobs = other.cache / FOLDER / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{digest(HUGE)}.stellwerk-part").write_bytes(HUGE[:100])
    way = a_way()
    asyncio.run(carry(one, other, way))
    assert way.is_open
    arrived = blobs / digest(HUGE)
    assert arrived.read_bytes() == HUGE
    assert arrived.stat().st_blocks * 512 < len(HUGE) - 5 * 2**20
    assert other.asked.count("hub_take") == 1
    assert one.asked.count("hub_unlend") == 1
    assert not hub_passing._LENT
    assert other.told()["whole"] == "proved"


def test_another_machine_at_that_address_is_not_taken(machines: tuple[Machine, Machine]) -> None:
    """Without its certificate it goes through the server; without the word nobody gets anything."""
    one, other = machines
    make_repo(one.cache, {"huge.bin": HUGE}, name=FOLDER)
    way = a_way()
    lent = asyncio.run(one.ask("hub_lend", name=WORDS, certificate=way.certificate, key=way.key,
                               word=way.word))  # fmt: skip
    asked = {"name": WORDS, "blob": digest(HUGE), "offset": 0, "size": len(HUGE),
             "addresses": way.addresses, "port": lent["port"]}  # fmt: skip

    async def take(certificate: str, word: str) -> str:
        await other.ask("hub_begin", name=WORDS)
        try:
            await other.ask("hub_take", certificate=certificate, word=word, **asked)
        except DriverError as error:
            return error.code
        finally:
            await other.ask("hub_end", name=WORDS)
        return ""

    stranger = a_way()
    assert asyncio.run(take(stranger.certificate, way.word)) == "runtime/no_way_there"
    assert asyncio.run(take(way.certificate, stranger.word)) == "runtime/cut"
    assert asyncio.run(take(way.certificate, way.word)) == ""
    asyncio.run(one.ask("hub_unlend", word=way.word))
    assert asyncio.run(take(way.certificate, way.word)) == "runtime/no_way_there"


def test_no_way_there_is_no_failure(machines: tuple[Machine, Machine]) -> None:
    """Then it goes through the server, and that is known."""
    one, other = machines
    make_repo(one.cache, {"huge.bin": HUGE}, name=FOLDER)
    way = a_way()
    way.addresses = []
    asyncio.run(carry(one, other, way))
    assert not way.is_open
    assert other.told()["whole"] == "proved"
    assert "hub_write" in other.asked
