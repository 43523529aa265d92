"""What comes over time comes whole: a cut or a restarted server loses and doubles nothing."""

from collections.abc import Iterator

import pytest

from stellwerk.client import ApiError, Client, UnreachableError, streams
from stellwerk.client.streams import read_events
from tests.client.fake_server import Asked, FakeServer, Says, refuses, run, show


def test_logs_are_bytes(server: FakeServer, client: Client) -> None:
    """Nothing is decoded on the way."""
    server.on("GET", "/v1/workloads/a/logs", Says([b"\xff\x00", b"\n"]))
    assert b"".join(client.logs("a", run=2, rank=1, stream="setup")) == b"\xff\x00\n"
    assert server.asked[0].query == {
        "rank": "1",
        "stream": "setup",
        "follow": "0",
        "run": "2",
        "offset": "0",
    }


def test_a_log_goes_on_where_it_was_cut(server: FakeServer, client: Client) -> None:
    """After a cut the rest is asked for by offset."""
    text = b"one two three four"

    def log(asked: Asked) -> Says:
        offset = int(asked.query["offset"])
        return Says([text[offset : offset + 7]], cut=offset + 7 < len(text))

    server.on("GET", "/v1/workloads/a/logs", log)
    server.on("GET", "/v1/workloads/a", show("a", "Succeeded"))
    assert b"".join(client.logs("a", follow=True)) == text
    offsets = [asked.query["offset"] for asked in server.asked if asked.path.endswith("logs")]
    assert offsets == ["0", "7", "14"]


def test_a_stopped_server_is_not_the_end_of_a_job(server: FakeServer, client: Client) -> None:
    """A server that is stopped ends its streams in order; the job isn't over by that."""
    pieces = iter([[b"a"], [b"b"]])
    phases = iter(["Running", "Succeeded"])
    server.on("GET", "/v1/workloads/a/logs", lambda _: Says(next(pieces)))
    server.on("GET", "/v1/workloads/a", lambda _: show("a", next(phases)))
    assert b"".join(client.logs("a", follow=True)) == b"ab"


def test_following_one_run_ends_with_that_run(server: FakeServer, client: Client) -> None:
    """The workload may go on in its next run."""
    server.on("GET", "/v1/workloads/a/logs", Says([b"x"]))
    runs = [run(1, "Ended"), run(2, "Running")]
    server.on("GET", "/v1/workloads/a", show("a", "Running", runs=runs))
    assert b"".join(client.logs("a", run=1, follow=True)) == b"x"


def test_a_refused_stream_is_an_error(server: FakeServer, client: Client) -> None:
    """A log that can't be had isn't an empty log, and isn't asked for again and again."""
    server.on("GET", "/v1/workloads/a/logs", refuses("find/run", "no run 9", 404, 3))
    with pytest.raises(ApiError, match="no run 9"):
        list(client.logs("a", run=9))
    assert len(server.asked) == 1


def test_a_stream_that_never_comes_is_given_up(
    server: FakeServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retrying is bounded."""
    monkeypatch.setattr(streams, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(streams, "AGAIN_S", 0.02)
    server.on("GET", "/v1/workloads/a/logs", Says([], cut=True))
    with pytest.raises(UnreachableError, match="again and again"):
        list(client.logs("a", follow=True))


def event(seq: int) -> bytes:
    return b'id: %d\nevent: released\ndata: {"seq": %d, "at_ms": 5, "event": {"type": "x"}}\n\n' % (
        seq,
        seq,
    )


def test_events_resume_after_the_last_one(server: FakeServer, client: Client) -> None:
    """None is left out and none comes twice, whatever the server repeats."""

    def stream(asked: Asked) -> Says:
        after = int(asked.query["after"])
        assert asked.headers["Last-Event-ID"] == str(after)
        return Says([b": hello\n\n", *(event(seq) for seq in (after, after + 1, after + 2))])

    server.on("GET", "/v1/events", stream)
    following = client.events(after=10, follow=True)
    assert [next(following).seq for _ in range(5)] == [11, 12, 13, 14, 15]


def test_events_so_far_are_paged(
    server: FakeServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is full is followed by the next one."""
    monkeypatch.setattr("stellwerk.client.api.PAGE", 2)

    def page(asked: Asked) -> object:
        after = int(asked.query["after"])
        seqs = [seq for seq in (1, 2, 3) if seq > after][:2]
        items = [{"seq": seq, "at_ms": 5, "event": {"type": "x"}} for seq in seqs]
        return {"items": items, "seq": 3, "next": seqs[-1]}

    server.on("GET", "/v1/events", page)
    assert [record.seq for record in client.events()] == [1, 2, 3]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_read_from_any_pieces(size: int) -> None:
    """Where the network cuts a stream says nothing about where an event ends."""
    text = b": note\n\nretry: 10\n\n" + event(1).replace(b"\n", b"\r\n") + event(2)

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    assert [record.seq for record in read_events(pieces())] == [1, 2]
