"""A commit goes from one cache to another: checked, gone on from, by one writer, whole or not."""

import asyncio
import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stellwerk.drivers.agents import hub_copying
from stellwerk.drivers.agents.hub_copying import OwnHub, copy, look
from stellwerk.drivers.base import DriverError
from stellwerk.runtime import hub_cache
from stellwerk.runtime.hub_cache import HubCache
from stellwerk.runtime.messages import PIECE
from stellwerk.server.data_copies import problem_of
from tests.runtime.hub import COMMIT, OTHER, digest, make_repo

WORDS = "hf://datasets/lab/words"
FOLDER = "datasets--lab--words"
BIG = os.urandom(1000) * 1500
FILES = {"README.md": b"# words", "data/train.bin": BIG, "data/same.bin": BIG, "empty": b""}


class Machine(OwnHub):
    """One with a cache of its own; `lost` requests are answered as by a connection that broke."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder.name, str(folder))
        self.cache = folder / "hub"
        self.asked: list[str] = []
        self.loses: Callable[[str, dict[str, Any]], bool] = lambda _op, _fields: False

    async def ask(
        self, op: str, data: bytes = b"", timeout_s: float = 0.0, **fields: Any
    ) -> dict[str, Any]:
        """Looks at this machine's cache alone."""
        self.asked.append(op)
        if self.loses(op, fields):
            raise DriverError("driver/connection-lost", "it was cut", final=False)
        return await super().ask(op, data, timeout_s, **fields)

    def told(self) -> dict[str, Any]:
        """What a look at it tells of the commit."""
        (repo,) = HubCache().look(str(self.cache))["repos"]
        found: dict[str, Any] = repo["commits"][COMMIT]
        return found


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Machine]:
    """Two of them, of which the first has a commit of mixed files."""
    monkeypatch.setattr(
        hub_cache, "environment_of",
        lambda root: {"HF_HUB_CACHE": str(Path(root).parent / "hub")},
    )  # fmt: skip
    one, other = Machine(tmp_path / "pc1"), Machine(tmp_path / "pc2")
    make_repo(one.cache, FILES)
    return one, other


def carry(one: Machine, other: Machine, keep_free: int = 0) -> tuple[int, list[tuple[int, int]]]:
    """Copies the commit; the bytes that were moved, and what was told meanwhile."""
    told: list[tuple[int, int]] = []

    async def go() -> int:
        wanted = await look(one, WORDS, COMMIT)
        return await copy(one, other, wanted, keep_free, lambda *now: told.append(now))

    return asyncio.run(go()), told


def test_what_arrives_is_the_same(machines: tuple[Machine, Machine]) -> None:
    """Content that two files share moves once; links, list and names are as they were there."""
    one, other = machines
    moved, told = carry(one, other)
    size = len(BIG) + 7
    assert (moved, told[0], told[-1]) == (size, (0, size), (size, size))
    assert sorted(told) == told
    assert other.told() == one.told()
    assert other.told()["whole"] == "proved"
    snapshot = other.cache / FOLDER / "snapshots" / COMMIT
    for path, content in FILES.items():
        assert (snapshot / path).is_symlink()
        assert (snapshot / path).read_bytes() == content
    assert (other.cache / FOLDER / "refs" / "main").read_text() == COMMIT
    assert not list(other.cache.rglob("*part*"))
    assert carry(one, other)[0] == 0
    assert one.asked.count("hub_read") == -(-len(BIG) // PIECE) + 3  # and the list of files, twice


def test_a_cut_is_gone_on_from(machines: tuple[Machine, Machine]) -> None:
    """What has come stays; until the rest is there the commit isn't whole, and no lock is left."""
    one, other = machines
    other.loses = lambda op, fields: op == "hub_write" and fields["offset"] >= 2 * PIECE
    with pytest.raises(DriverError, match="it was cut"):
        carry(one, other)
    assert not (other.cache / FOLDER / "snapshots").exists()
    other.loses = lambda _op, _fields: False
    moved, told = carry(one, other)
    begun = told[0][0]
    assert begun >= 2 * PIECE
    assert moved == len(BIG) + 7 - begun
    assert other.told()["whole"] == "proved"


def test_damage_is_found_where_it_arrives(machines: tuple[Machine, Machine]) -> None:
    """A file of the right size with other bytes: nothing of it is kept, and no links come."""
    one, other = machines
    blob = one.cache / FOLDER / "blobs" / digest(BIG)
    blob.write_bytes(b"x" + BIG[1:])
    with pytest.raises(DriverError, match="isn't what its name says") as found:
        carry(one, other)
    assert found.value.code == "runtime/content_damaged"
    assert not (other.cache / FOLDER / "snapshots").exists()
    assert not list(other.cache.rglob(f"{digest(BIG)}*"))


def test_holes_stay_holes(machines: tuple[Machine, Machine]) -> None:
    """A file that is mostly nothing is neither read nor written where it has nothing."""
    one, other = machines
    content = b"begin" + bytes(30 * PIECE) + b"end"
    make_repo(one.cache, {"sparse.bin": content}, commit=OTHER)
    blob = one.cache / FOLDER / "blobs" / digest(content)
    with open(blob, "r+b") as file:
        file.truncate(5)
        file.seek(5 + 30 * PIECE)
        file.write(b"end")

    async def go() -> int:
        wanted = await look(one, WORDS, OTHER)
        return await copy(one, other, wanted, 0, lambda _done, _all: None)

    assert asyncio.run(go()) == len(content)
    arrived = other.cache / FOLDER / "blobs" / digest(content)
    assert arrived.read_bytes() == content
    assert arrived.stat().st_blocks * 512 < 4 * PIECE
    assert one.asked.count("hub_read") < 24


def test_one_writer_and_room_for_it(machines: tuple[Machine, Machine]) -> None:
    """Another one is refused while the first writes; so is what would leave too little free."""
    one, other = machines
    with pytest.raises(DriverError, match="stay free") as full:
        carry(one, other, keep_free=2**62)
    assert full.value.code == "runtime/no_room"

    async def twice() -> None:
        await other.ask("hub_begin", name=WORDS, bytes=1, keep_free=0)
        wanted = await look(one, WORDS, COMMIT)
        try:
            await copy(one, other, wanted, 0, lambda _done, _all: None)
        finally:
            await other.ask("hub_end", name=WORDS)

    with pytest.raises(DriverError, match="is being written") as busy:
        asyncio.run(twice())
    assert busy.value.code == "runtime/busy"
    with pytest.raises(DriverError, match="nobody has begun"):
        asyncio.run(other.ask("hub_write", b"x", name=WORDS, blob="a" * 40, offset=0))
    assert carry(one, other)[0] > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"files": [["../../out", "a" * 40, 0]]},
        {"files": [["/etc/x", "a" * 40, 0]]},
        {"files": [["x", "../../a", 0]]},
        {"commit": "../../x", "files": []},
        {"name": "hf://../x", "files": []},
    ],
)
def test_nothing_is_written_outside(
    machines: tuple[Machine, Machine], fields: dict[str, Any]
) -> None:
    """Whatever another machine tells its files are called."""
    _, other = machines

    async def go() -> None:
        await other.ask("hub_begin", name=WORDS, bytes=0, keep_free=0)
        try:
            await other.ask("hub_link", **{"name": WORDS, "commit": COMMIT, **fields})
        finally:
            await other.ask("hub_end", name=WORDS)

    with pytest.raises(DriverError) as refused:
        asyncio.run(go())
    assert refused.value.code == "runtime/bad_request"


def test_only_what_no_other_commit_has_is_removed(machines: tuple[Machine, Machine]) -> None:
    """Shared content stays; with the last commit the repository goes; what is open stays whole."""
    one, _ = machines
    make_repo(one.cache, {"README.md": b"# more", "data/train.bin": BIG}, commit=OTHER)
    top = one.cache / FOLDER
    readme = top / "snapshots" / OTHER / "README.md"
    assert _with_reader(readme, one) == "runtime/in_use"
    freed = asyncio.run(one.ask("hub_remove", name=WORDS, commit=OTHER))["freed"]
    assert freed == 6
    assert one.told()["whole"] == "proved"
    assert not (top / "refs" / "main").exists()
    assert asyncio.run(one.ask("hub_remove", name=WORDS, commit=COMMIT))["freed"] == len(BIG) + 7
    assert not top.exists()
    with pytest.raises(DriverError) as gone:
        asyncio.run(one.ask("hub_remove", name=WORDS, commit=COMMIT))
    assert gone.value.code == "runtime/not_found"


def _with_reader(path: Path, machine: Machine) -> str:
    """How a removal ends while another process has a file open."""
    with open(path, "rb") as file:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(file.fileno(),))
    try:
        asyncio.run(machine.ask("hub_remove", name=WORDS, commit=OTHER))
    except DriverError as error:
        return error.code
    finally:
        process.communicate()
    return ""


def test_a_full_disk_is_a_cause_of_its_own(
    machines: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of a copy too: what has come stays, and the lock is free again."""
    one, other = machines

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "blobs")

    with monkeypatch.context() as now:
        now.setitem(hub_copying._OPERATIONS, "hub_write", full)
        with pytest.raises(DriverError, match="No space left") as found:
            carry(one, other)
    assert problem_of(found.value).code == "data/disk-full"
    assert "stw data rm" in problem_of(found.value).help
    assert carry(one, other)[0] > 0
