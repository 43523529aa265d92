"""Reading several ranks together: lines whole, each with its rank, none lost and none twice."""

import pytest

from stellwerk.client.api import Client
from stellwerk.client.gang import GangReader, lines_of
from stellwerk.client.refusals import ApiError
from tests.client.fake_server import Asked, FakeServer, Says, refuses, show


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    """A piece may end inside a line; a bar that draws over itself gives a line for each drawing."""
    pieces = iter([b"on", b"e\ntwo\r", b"three\r\n", b"", b"last"])
    assert [line for line in lines_of(pieces) if line] == [b"one", b"two", b"three", b"last"]
    assert list(lines_of(iter([b"x" * 200_000]))) == [b"x" * 200_000]


def logs(asked: Asked) -> Says:
    """Rank 1 prints something else, and setup comes with `all` alone."""
    setup = [b"setup\n"] if asked.query["stream"] == "all" else []
    return Says([*setup, b"I am %s\n" % asked.query["rank"].encode(), b"bye"])


@pytest.mark.parametrize("follow", [False, True])
def test_each_line_has_its_rank(server: FakeServer, client: Client, follow: bool) -> None:
    """Setup is told once, with the first rank; each rank's lines are in their order."""
    server.on("GET", "/v1/workloads/digits/logs", logs)
    server.on("GET", "/v1/workloads/digits", show("digits", "Succeeded"))
    told = list(GangReader(client, "digits", 3, follow=follow))
    assert [line for line in told if line.startswith(b"(rank 0)")] == [
        b"(rank 0) setup\n", b"(rank 0) I am 0\n", b"(rank 0) bye\n",
    ]  # fmt: skip
    assert [line for line in told if line.startswith(b"(rank 2)")] == [
        b"(rank 2) I am 2\n", b"(rank 2) bye\n",
    ]  # fmt: skip
    assert len(told) == 7


def test_a_refusal_reaches_whoever_reads(server: FakeServer, client: Client) -> None:
    """What the server says to the thread of one rank is raised, not swallowed."""
    server.on("GET", "/v1/workloads/digits/logs", refuses("find/run", "no such run", 404, 3))
    with pytest.raises(ApiError, match="no such run"):
        list(GangReader(client, "digits", 2, follow=True))
