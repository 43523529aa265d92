"""The SSH driver against a server in this process: what travels, what breaks, what is refused."""

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Inventory, Reachability, RunReport
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.driver import SshDriver
from stellwerk.drivers.ssh.hosts import Host, name_nodes
from stellwerk.drivers.ssh.troubles import SshTrouble
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Program, Session
from stellwerk.testing.exec_suite import talk
from tests.drivers.far_place import FarPlace, now_ms, play
from tests.drivers.sshd import Account, Sshd, an_sshd, be_a_person

RUN = RunId("w-1-1")


@pytest.fixture
def room(account: Account, tmp_path: Path) -> Iterator[tuple[FarPlace, Sshd]]:
    """Two machines, and the server of the second."""
    with an_sshd(Path(tempfile.mkdtemp(prefix="stw-sshd-")) / "s") as other:
        (other.keys / "person.pub").write_bytes((account.server.keys / "person.pub").read_bytes())
        other.stop()
        other.start()
        be_a_person(Path.home(), account.server, other, opens=account.server)
        yield FarPlace(tmp_path, [account.host, Account(other).host]), other


def snapshot(place: FarPlace, files: dict[str, bytes]) -> str:
    """Puts files into the store, under their real hashes."""
    entries = []
    for path, content in files.items():
        name = hashlib.sha256(content).hexdigest()
        place.blobs.put(name, content)
        entries.append({"path": path, "mode": 0o644, "size": len(content), "hash": name})
    return place.blobs.manifest(*entries)


def test_code_travels_once_and_results_are_read(place: FarPlace, account: Account) -> None:
    """Small files together, a large one in pieces; a second run of the same code sends nothing."""
    large = os.urandom(1_500_000)
    code = snapshot(place, {"a.txt": b"hello\n", "sub/b.bin": large, "sub/c.txt": b"hello\n"})
    script = 'cat a.txt; sha256sum < sub/b.bin; echo r > "$STELLWERK_OUTPUT_DIR/r"; ln -s / up'

    async def scene(session: Session) -> None:
        driver = session.driver
        assert isinstance(driver, SshDriver)
        await driver.start(an_order("w-1-1", snapshot=code, script=script))
        assert (await session.ends("w-1-1")).code == 0
        said = (await session.log("w-1-1")).decode().split()
        assert said[:2] == ["hello", hashlib.sha256(large).hexdigest()]
        listing = await driver.list_files(RUN, "work", "sub")
        assert [(one.name, one.kind, one.size) for one in listing.files] == [
            ("b.bin", "file", len(large)),
            ("c.txt", "file", 6),
        ]
        piece = await driver.read_file(RUN, "work", "sub/b.bin", 1_000_000, 100)
        assert (piece.data, piece.size) == (large[1_000_000:1_000_100], len(large))
        assert (await driver.read_file(RUN, "outputs", "r", 0, 10)).data == b"r\n"
        for path, error in (("../..", "outside"), ("up/etc", "outside"), ("none", "not_found")):
            with pytest.raises(DriverError) as refused:
                await driver.list_files(RUN, "work", path)
            assert (refused.value.code, refused.value.final) == (f"runtime/{error}", True)
        content = next(account.home.glob(".local/state/stellwerk/*/*/content"))
        before = {one.name: one.stat().st_ino for one in content.iterdir()}
        assert len(before) == 2
        await driver.start(an_order("w-2-1", snapshot=code, script=script))
        await session.ends("w-2-1")
        assert {one.name: one.stat().st_ino for one in content.iterdir()} == before

    play(place, scene)


def test_content_that_is_missing_refuses_the_start(place: FarPlace) -> None:
    """For good, with nothing left of what was made for it."""
    content = b"x"
    name = hashlib.sha256(content).hexdigest()
    code = place.blobs.manifest({"path": "a", "size": 1, "hash": name})

    async def scene(session: Session) -> None:
        with pytest.raises(DriverError) as refused:
            await session.driver.start(an_order("w-1-1", snapshot=code))
        assert (refused.value.code, refused.value.final) == ("snapshot/missing", True)

    play(place, scene)


def test_content_that_arrives_damaged_is_not_kept(place: FarPlace, account: Account) -> None:
    """Neither a small one nor one in parts; nor is anything kept under a name that is none."""

    async def scene(session: Session) -> None:
        assert isinstance(session.driver, SshDriver)
        (machine,) = session.driver.machines.values()
        hand = await machine.handy()
        wrong = "0" * 64
        for fields, code in (
            ({"items": [[wrong, 1]]}, "content_damaged"),
            ({"name": wrong, "offset": 0, "size": 1}, "content_damaged"),
            ({"name": "../x", "offset": 0, "size": 1}, "bad_request"),
        ):
            with pytest.raises(DriverError) as refused:
                await hand.ask("put", b"x", **fields)
            assert (refused.value.code, refused.value.final) == (f"runtime/{code}", True)
        content = next(account.home.glob(".local/state/stellwerk/*/*/content"))
        assert list(content.iterdir()) == []

    play(place, scene)


def test_a_cut_connection_ends_no_run(place: FarPlace, server: Sshd) -> None:
    """Reports break off with a reason; the next connection begins with all that happened."""

    async def scene(session: Session) -> None:
        await session.start("w-1-1", Program(lasts_ms=300, prints="a\n"))
        await session.reaches("w-1-1", "Running")
        server.stop()
        with pytest.raises(DriverError) as refused:
            await read_for_ever(session)
        assert refused.value.code in {"ssh/connection-lost", "ssh/refused"}
        server.start()
        assert (await session.ends("w-1-1")).code == 0
        assert await session.log("w-1-1") == b"a\n"
        assert sum(isinstance(each, Inventory) for each in session.heard) > 1

    play(place, scene)


def test_an_sshd_that_is_restarted_is_met_again_at_once(
    place: FarPlace, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports go on with all that is there, and nobody is told that the machine was away."""
    monkeypatch.setattr("stellwerk.drivers.ssh.driver.LISTENS_AGAIN_S", (0.02,) * 1000 + (0.0,))
    monkeypatch.setattr("stellwerk.drivers.ssh.driver.STEADY_S", 0.0)

    async def scene() -> None:
        driver = place.ssh_driver()
        await driver.open()
        reports = driver.reports()
        async with asyncio.timeout(30):
            while not isinstance(await anext(reports), Inventory):
                pass
            server.stop()
            following = asyncio.ensure_future(anext(reports))
            for machine in driver.machines.values():
                assert machine.talk.link is not None
                await machine.talk.link.closed.wait()
            await asyncio.to_thread(server.start)
            assert isinstance(await following, Inventory)
        await driver.close()

    asyncio.run(scene())


async def read_for_ever(session: Session) -> None:
    async with asyncio.timeout(10):
        while True:
            await session.driver.read_log(RUN, "run", 0, 0, 10)
            await asyncio.sleep(0.01)


def test_a_command_has_a_channel_of_its_own(place: FarPlace) -> None:
    """Its streams and its code come back through the relay."""

    async def scene(session: Session) -> None:
        run = await session.start("w-1-1", Program(lasts_ms=60_000, prints="up\n"))
        await session.until_it_printed(run)
        await session.reaches(run, "Running")
        said = await talk(session.driver, run, "cat; echo no >&2; exit 7", b"in\n" * 100_000)
        assert (said.output, said.errors, said.end) == (b"in\n" * 100_000, b"no\n", {"code": 7})
        await session.driver.kill(run)
        await session.ends(run)

    play(place, scene)


def test_times_are_told_by_our_clock(place: FarPlace) -> None:
    """A machine whose clock is three hours ahead tells so, and its runs end now all the same."""
    hours = 3 * 3_600_000

    async def scene() -> None:
        driver = place.ssh_driver()
        for machine in driver.machines.values():
            machine._now_ms = lambda: now_ms() - hours
        begun_ms = now_ms() - hours
        await driver.open()
        (node,) = (await driver.probe()).nodes
        assert node.note.startswith("its clock is 3 h ahead")
        await driver.start(an_order("w-1-1", script="true"))
        async with asyncio.timeout(10):
            async for report in driver.reports():
                if isinstance(report, RunReport) and report.end is not None:
                    told = (report.at_ms, report.end.started_at_ms, report.end.ended_at_ms)
                    break
        assert all(begun_ms - 1000 <= at_ms <= now_ms() - hours + 1000 for at_ms in told)
        await driver.close()

    asyncio.run(scene())


def test_another_machine_behind_a_name_is_not_worked_with(place: FarPlace) -> None:
    """It has no memory of what runs on the first one."""

    async def scene(session: Session) -> None:
        assert isinstance(session.driver, SshDriver)
        (machine,) = session.driver.machines.values()
        machine.found["machine_id"] = "0" * 32
        with pytest.raises(SshTrouble) as refused:
            machine._check_same({"machine_id": "1" * 32})
        assert refused.value.code == "ssh/another-machine"

    play(place, scene)


def test_a_room_goes_on_without_one_of_its_machines(room: tuple[FarPlace, Sshd]) -> None:
    """Each speaks for itself: what one lists says nothing about the runs of another."""
    place, other = room
    names = [host.node for host in place.hosts]

    async def scene(session: Session) -> None:
        for number, name in enumerate(names, 1):
            order = an_order(f"w-{number}-1", script="echo here; sleep 60")
            ranks = tuple(replace(rank, node=name) for rank in order.ranks)
            await session.driver.start(replace(order, ranks=ranks))
            await session.reaches(f"w-{number}-1", "Running")
        # A machine that was slow to open has been told as silent before.
        before = len(session.heard)
        other.stop()

        def silent() -> list[tuple[str, ...]]:
            told = [one for one in session.heard[before:] if isinstance(one, Reachability)]
            return [one.nodes for one in told if one.state == "unreachable"]

        await session.until(lambda: bool(silent()))
        assert silent()[-1] == (names[1],)
        states = {one.name: one.state for one in (await session.driver.probe()).nodes}
        assert states == {names[0]: "ready", names[1]: "unreachable"}
        assert await session.log("w-1-1") == b"here\n"
        heard = len(session.heard)
        other.start()
        await session.until(
            lambda: any(
                isinstance(one, Inventory) and one.nodes == (names[1],)
                for one in session.heard[heard:]
            )
        )
        for number in (1, 2):
            await session.driver.kill(RunId(f"w-{number}-1"))
            assert (await session.ends(f"w-{number}-1")).how == "killed"

    play(place, scene)


def test_nodes_have_names_of_their_own() -> None:
    """The host's, with the port where that is needed; one machine twice is refused."""
    hosts = [Host("pc1"), Host("pc2"), Host("pc1", port=2201), Host("fe80::1", user="a")]
    assert [one.node for one in name_nodes(hosts)] == ["pc1", "pc2", "pc1-2201", "fe80-1"]
    assert json.dumps([str(one) for one in hosts]) == ('["pc1", "pc2", "pc1:2201", "a@[fe80::1]"]')
