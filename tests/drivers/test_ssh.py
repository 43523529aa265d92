"""The SSH driver against a server in this process: what travels, what breaks, what is refused."""

import asyncio
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
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
from tests.drivers.sshd import Account, Sshd, an_sshd, be_a_person, end_all_in

RUN = RunId("w-1-1")


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with (
        tempfile.TemporaryDirectory(prefix="stw-sshd-") as folder,
        an_sshd(Path(folder) / "s") as it,
    ):
        yield it


@pytest.fixture
def account(server: Sshd) -> Iterator[Account]:
    be_a_person(Path.home(), server, opens=server)
    account = Account(server)
    yield account
    end_all_in(account.home)


@pytest.fixture
def place(account: Account, tmp_path: Path) -> FarPlace:
    return FarPlace(tmp_path, [account.host])


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


def trouble_of(place: FarPlace, accept: Sequence[str] = ()) -> SshTrouble:
    """Why a driver can't be opened."""
    driver = place.ssh_driver()

    async def try_it() -> None:
        try:
            await driver.open(accept)
        finally:
            await driver.close()

    with pytest.raises(SshTrouble) as refused:
        asyncio.run(try_it())
    assert not refused.value.final
    return refused.value


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


def test_a_host_key_is_never_taken_on_trust(place: FarPlace, server: Sshd) -> None:
    """An unknown one is refused and told; one that was named is kept; another one is a change."""
    be_a_person(Path.home(), opens=server)
    trouble = trouble_of(place)
    assert (trouble.code, trouble.more["fingerprint"]) == (
        "ssh/host-key-unknown",
        server.fingerprint,
    )
    assert server.fingerprint in trouble.remedy
    other = trouble_of(place, accept=["SHA256:another"])
    assert (other.code, "--accept-host-key` names" in other.message) == (trouble.code, True)
    assert server.fingerprint not in other.remedy

    async def accept() -> None:
        driver = place.ssh_driver()
        await driver.open([server.fingerprint])
        await driver.close()

    asyncio.run(accept())
    assert place.own_known_hosts.read_text().startswith(f"[127.0.0.1]:{server.port} ssh-ed25519")
    play(place, _nothing)
    server.stop()
    server.new_host_key()
    server.start()
    changed = trouble_of(place)
    assert changed.code == "ssh/host-key-changed"
    assert f"-f {place.own_known_hosts} -R '[127.0.0.1]:{server.port}'" in changed.remedy
    assert (Path.home() / ".ssh" / "known_hosts").read_text() == ""


async def _nothing(_session: Session) -> None:
    pass


@pytest.mark.parametrize(
    ("rc", "code", "words"),
    [
        ("echo sorry; exit 5", "ssh/shell-ends", "ended with 5 before a command"),
        ("exec true", "ssh/shell-ends", "ended with 0 before a command"),
        ("command() { return 1; }; export -f command; PATH=/none", "ssh/shell-ends", "127"),
    ],
)
def test_a_shell_that_gets_nowhere_is_told(
    place: FarPlace, account: Account, rc: str, code: str, words: str
) -> None:
    """With what it said last."""
    (account.home / ".bashrc").write_text(rc + "\n")
    trouble = trouble_of(place)
    assert (trouble.code, words in trouble.message) == (code, True), trouble.message


def test_a_shell_that_asks_is_not_waited_for_long(
    place: FarPlace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is ever sent to it by mistake."""
    monkeypatch.setattr("stellwerk.drivers.ssh.hand.BOOT_S", 0.5)
    (account.home / ".bashrc").write_text("read -p 'proxy? ' answer\n")
    assert trouble_of(place).code == "ssh/shell-asks"


def test_a_shell_that_prints_is_listened_through(place: FarPlace, account: Account) -> None:
    """On both streams, also without the end of a line."""
    (account.home / ".bashrc").write_text("echo hello; echo there >&2; printf '%s' '{\"a\": 1'\n")

    async def scene(session: Session) -> None:
        await session.start("w-1-1", Program(prints="a\n"))
        assert (await session.ends("w-1-1")).code == 0

    play(place, scene)


@pytest.mark.parametrize("says", ["Python 3.8.10", ""])
def test_an_old_python_is_named(account: Account, tmp_path: Path, says: str) -> None:
    """So that whoever installs a newer one knows what was found."""
    old = account.home / "python"
    old.write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo "{says}" && exit\nexit 66\n')
    old.chmod(0o755)
    host = replace(account.host, python=str(old) if says else "/no/such/python")
    trouble = trouble_of(FarPlace(tmp_path, [host]))
    assert trouble.code == "ssh/no-python"
    assert ("3.8.10" in trouble.message) == bool(says)


def test_a_folder_that_can_not_be_made_is_named(account: Account, tmp_path: Path) -> None:
    """With what to do about it."""
    place = FarPlace(tmp_path, [replace(account.host, folder="/proc/nothing")])
    assert trouble_of(place).code == "ssh/folder"


def test_nobody_gets_in_with_another_key(place: FarPlace) -> None:
    """And the remedy says how to make it so."""
    (Path.home() / ".ssh" / "id_ed25519").unlink()
    trouble = trouble_of(place)
    (host,) = place.hosts
    assert trouble.code == "ssh/auth-failed"
    assert f"ssh-copy-id -p {host.port} {host.user}@{host.host}" in trouble.remedy


def test_where_nobody_listens_it_is_refused(account: Account, tmp_path: Path) -> None:
    """As of a machine on which no sshd runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        host = replace(account.host, port=bound.getsockname()[1])
        assert trouble_of(FarPlace(tmp_path, [host])).code == "ssh/refused"


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
