"""Gives tests of the client a server that says what they want."""

from collections.abc import Iterator

import pytest

from stellwerk.client import Client
from stellwerk.config import load
from tests.client.fake_server import STATUS, FakeServer


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
