"""Machines that dial in: who is let in, over what, and that work goes through it as through SSH."""

import asyncio
import datetime as dt
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stellwerk.config import load
from stellwerk.core.model.errors import StellwerkError
from stellwerk.runtime.dialing import Refused, Server, fetch, upgrade
from stellwerk.server import joining
from stellwerk.server.join_tokens import JoinTokens
from stellwerk.server.joining import Address
from stellwerk.testing.driver_session import Program, Session
from stellwerk.testing.exec_suite import talk
from tests.drivers.far_place import now_ms
from tests.drivers.joined_place import CLUSTER, NODE, JoinedPlace, Listening

WISH = {"v": 1, "name": NODE, "machine_id": "m-1"}


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of this machine for an hour, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[JoinedPlace]:
    place = JoinedPlace(tmp_path, *certificate(tmp_path))
    yield place
    place.clear()


def test_work_goes_over_one_connection_that_the_machine_makes(place: JoinedPlace) -> None:
    """Over TLS, with a secret of its own after the first time; a cut is followed by a new one."""

    async def scene() -> None:
        token, secret = await place.tokens.make(CLUSTER, 60_000, now_ms(), "ada")
        place.join(secret, "--ca", place.listen.cert)
        session = await Session(place).open()
        driver = session.driver
        assert isinstance(driver, Listening)
        cluster = await driver.probe()
        assert [(one.name, one.state) for one in cluster.nodes] == [(NODE, "ready")]
        assert cluster.kind == "joined machine"
        order = place.order("w-1-1", Program(20_000, prints="hello"), generation=1, epoch=1)
        await driver.start(order)
        await session.until_it_printed("w-1-1")
        said = await talk(driver, order.run, "echo inside")
        assert said.output == b"inside\n"
        joiner = place.joiner
        second = place.join(secret, "--ca", place.listen.cert)
        assert await asyncio.to_thread(second.wait, 15) == 77, "one dials for the folder already"
        place.joiner = joiner  # which goes on, with the secret that the other one was given
        assert await place.tokens.revoke(CLUSTER, token.id) == [token.id]
        first = driver.machines[NODE].hand
        place.vanish(driver)
        await session.until(lambda: driver.machines[NODE].hand not in {None, first})
        await session.until(lambda: driver.machines[NODE].is_connected)
        await driver.kill(order.run)
        await session.ends("w-1-1")
        assert joiner is not None
        await place.tokens.revoke(CLUSTER)
        await driver.drop(NODE)
        assert await asyncio.to_thread(joiner.wait, 15) == 77
        await session.close()

    asyncio.run(scene())
    assert stat.S_IMODE(os.stat(place.home / "join.json").st_mode) == 0o600
    assert "isn't valid" in (place.folder / "join.log").read_text()


def test_nobody_is_let_in_without_a_token_that_holds(tmp_path: Path) -> None:
    """Nor another machine under the name or with the secret of one; anybody gets the runtime."""
    place = JoinedPlace(tmp_path)
    server = Server(place.url)

    def refused(bearer: str, **more: object) -> str:
        with pytest.raises(Refused) as caught:
            upgrade(server, bearer, {**WISH, **more})
        assert caught.value.final
        return caught.value.code

    async def scene() -> None:
        driver = place.driver()
        assert isinstance(driver, Listening)
        opening = asyncio.create_task(driver.open())
        _, old = await place.tokens.make(CLUSTER, -1, now_ms(), "ada")
        _, good = await place.tokens.make(CLUSTER, 60_000, now_ms(), "ada")
        ask = asyncio.to_thread
        assert await ask(fetch, server, "runtime.pyz") == driver.build.content
        for bearer in ("", "stwj-guess", old):
            assert await ask(refused, bearer) == "token"
        assert await ask(lambda: refused(good, name="../x")) == "name"
        stream, said = await ask(upgrade, server, good, WISH)
        stream.close()
        assert (said["node"], said["key"]) == (NODE, driver.key)
        assert await ask(lambda: refused(good, machine_id="m-2")) == "name"
        assert await ask(lambda: refused(said["secret"], machine_id="m-2")) == "another-machine"
        assert await ask(lambda: refused("x", channel="12")) == "token"
        opening.cancel()
        await driver.close()

    asyncio.run(scene())
    kept = (tmp_path / "joins.json").read_text()
    assert "stwj-" not in kept
    assert "stwm-" not in kept
    again = JoinTokens(tmp_path)
    again.load()
    assert [one.node for one in again.members(CLUSTER)] == [NODE]


@pytest.mark.parametrize(
    ("listen", "cert", "key", "good"),
    [
        ("", "", "", True),
        ("127.0.0.1:0", "", "", True),
        ("[::1]:0", "", "", True),
        ("0.0.0.0:7443", "", "", False),
        ("lab.example:7443", "", "", False),
        ("127.0.0.1:0", "cert.pem", "", False),
        ("0.0.0.0:7443", "cert.pem", "key.pem", True),
    ],
)
def test_no_token_travels_in_clear(
    listen: str, cert: str, key: str, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses to listen so, and a machine to send one."""
    for name, value in (("LISTEN", listen), ("CERT", cert), ("KEY", key)):
        monkeypatch.setenv(f"STELLWERK_JOIN_{name}", value)
    if good:
        assert (Address.of(load()) is None) == (not listen)
        return
    with pytest.raises(StellwerkError) as caught:
        Address.of(load())
    assert caught.value.problems[0].code == "config/join"
    with pytest.raises(Refused) as refused:
        upgrade(Server("http://192.0.2.1:7443"), "token", WISH)
    assert refused.value.code == "in-clear"


def test_what_joins_at_once_is_all_kept(tmp_path: Path) -> None:
    """Each machine's secret outlasts the others', of two with one name one is taken in, and what is
    taken back meanwhile stays so.
    """
    tokens = JoinTokens(tmp_path)

    async def scene() -> list[str]:
        gone, _ = await tokens.make(CLUSTER, 60_000, now_ms(), "ada")
        joins = [tokens.join(CLUSTER, f"pc{n}", f"m-{n}", 1) for n in range(20)]
        twins = [tokens.join(CLUSTER, "twin", f"t-{n}", 1) for n in range(2)]
        *secrets, one, other, _ = await asyncio.gather(
            *joins, *twins, tokens.revoke(CLUSTER, gone.id)
        )
        assert [bool(one), bool(other)] == [True, False]
        return [str(secret) for secret in secrets]

    secrets = asyncio.run(scene())
    again = JoinTokens(tmp_path)
    again.load()
    assert all(again.member_of(secret) for secret in secrets)
    assert again.tokens(CLUSTER, now_ms()) == []


def test_strangers_are_hung_up_on_and_known_machines_still_get_in(
    place: JoinedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that say nothing, or what is no TLS, hold no more than their number for a time;
    nonsense is answered or hung up on, and nothing of it reaches the log as a mistake.
    """
    monkeypatch.setattr(joining, "MOST_STRANGERS", 3)
    monkeypatch.setattr(joining, "HEAD_S", 0.5)

    def silent() -> list[socket.socket]:
        return [socket.create_connection(("127.0.0.1", place.port)) for _ in range(8)]

    async def scene() -> None:
        driver = place.driver()
        opening = asyncio.create_task(driver.open())
        _, good = await place.tokens.make(CLUSTER, 60_000, now_ms(), "ada")
        sockets = await asyncio.to_thread(silent)
        server, ask = Server(place.url, str(place.folder / "cert.pem")), asyncio.to_thread
        for _ in range(200):
            try:
                stream, said = await ask(upgrade, server, good, WISH)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            break
        assert said["secret"]
        stream.sendall(b"[" * 100_000 + b"\n")
        assert await ask(stream.recv, 1) == b"", "what it has said of itself isn't taken"
        for one in (stream, *sockets):
            one.close()
        opening.cancel()
        await driver.close()

    asyncio.run(scene())
