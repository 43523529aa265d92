"""Gives tests of the client a server that says what they want."""

import sys
from collections.abc import Iterator

import pytest

from stellwerk.client import Client, launch
from stellwerk.config import load
from tests.client.fake_server import STATUS, FakeServer


@pytest.fixture(autouse=True)
def no_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test does to its server, no real one takes its place."""
    refuses = [sys.executable, "-c", "raise SystemExit('no test starts a real server')"]
    monkeypatch.setattr(launch, "server_command", lambda: refuses)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A fake server at the user's own socket."""
    with FakeServer(load().socket) as fake:
        fake.on("GET", "/v1/server", STATUS)
        yield fake


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    """A client of the fake server."""
    with Client() as connected:
        yield connected
