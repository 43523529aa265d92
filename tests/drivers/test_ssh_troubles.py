"""What can be wrong with a machine over SSH: each is told as itself, with what helps."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.drivers.ssh.troubles import SshTrouble
from stellwerk.testing.driver_session import Program, Session
from tests.drivers.far_place import FarPlace, play
from tests.drivers.sshd import Account, Sshd, be_a_person


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
