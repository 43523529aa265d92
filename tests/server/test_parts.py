"""The small parts of the server by themselves: ids, sockets, lock, log, callers, feed and tails."""

import asyncio
import errno
import json
import logging
import os
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model import events as ev
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.drivers.base import DriverError, Folders, LogChunk, LogStream
from stellwerk.server import feed as feed_module
from stellwerk.server import logbook
from stellwerk.server import tails as tails_module
from stellwerk.server.feed import Feed
from stellwerk.server.ids import Ids
from stellwerk.server.lock import HomeLock, holder_of
from stellwerk.server.logbook import LineFormatter, StderrHandler, write_stderr_to
from stellwerk.server.peer import Access, Peer, authorize, peer_of, user_name
from stellwerk.server.problems import on_driver_error
from stellwerk.server.rules import TABLE, document, rule_of
from stellwerk.server.serving import LoopTrouble
from stellwerk.server.sockets import bind_tcp, bind_unix, read_or_make_token
from stellwerk.server.tails import LogName, Tails


@given(times=st.lists(st.integers(1_700_000_000_000, 2_000_000_000_000), min_size=2, max_size=50))
def test_ids_only_grow(times: list[int]) -> None:
    """Whatever the clock does; text order is the order of making."""
    ids = Ids()
    made = [ids.give(now) for now in times]
    assert made == sorted(set(made))
    assert all(len(one) == 15 and one.startswith("w-") for one in made)


def test_ids_of_two_servers_differ() -> None:
    """In the same millisecond too, as good as always."""
    assert len({Ids().give(1_796_000_000_000) for _ in range(100)}) > 95


def test_a_socket_is_never_open_to_others(tmp_path: Path) -> None:
    """0600 from its first moment, in a folder of 0700; a leftover is replaced."""
    path = str(tmp_path / "new" / "s.sock")
    bound = bind_unix(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o700
    bound.close()
    again = bind_unix(path)
    again.listen()
    with pytest.raises(StellwerkError) as caught:
        bind_unix(path)
    assert caught.value.problems[0].code == "server/running"
    again.close()


def test_sockets_are_refused_where_others_may_write(tmp_path: Path) -> None:
    """A folder that others can write, a file in the way, a path that is too long."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "file").mkdir(mode=0o700)
    (tmp_path / "file" / "s").write_text("")
    for path in (tmp_path / "open" / "s", tmp_path / "file" / "s", tmp_path / ("x" * 120) / "s"):
        with pytest.raises(StellwerkError) as caught:
            bind_unix(str(path))
        assert caught.value.problems[0].code == "server/socket"
        assert caught.value.problems[0].help


def test_a_group_may_open_the_socket(tmp_path: Path) -> None:
    """0660 in a folder of the group."""
    import grp

    group = grp.getgrgid(os.getgid()).gr_name
    bound = bind_unix(str(tmp_path / "g" / "s"), group)
    assert stat.S_IMODE(os.stat(tmp_path / "g" / "s").st_mode) == 0o660
    assert stat.S_IMODE(os.stat(tmp_path / "g").st_mode) == 0o750
    bound.close()
    with pytest.raises(StellwerkError):
        bind_unix(str(tmp_path / "h" / "s"), "no-such-group-here")


@pytest.mark.parametrize("address", ["", "7070", ":7070", "host:", "host:x", "h:99999", "::1"])
def test_addresses_that_are_none(address: str) -> None:
    """Refused in words."""
    with pytest.raises(StellwerkError) as caught:
        bind_tcp(address)
    assert caught.value.problems[0].code == "server/listen"


def test_an_address_in_use_is_named() -> None:
    """With what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StellwerkError) as caught:
            bind_tcp(f"127.0.0.1:{port}")
    assert str(port) in caught.value.problems[0].message
    bind_tcp("[::1]:0" if socket.has_ipv6 else "127.0.0.1:0").close()


def test_a_token_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    """An open or a short one is refused."""
    path = str(tmp_path / "t")
    token = read_or_make_token(path)
    assert len(token) > 40
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert read_or_make_token(path) == token
    os.chmod(path, 0o640)
    with pytest.raises(StellwerkError):
        read_or_make_token(path)
    os.chmod(path, 0o600)
    Path(path).write_text("short")
    with pytest.raises(StellwerkError):
        read_or_make_token(path)


def test_one_lock_for_a_home(tmp_path: Path) -> None:
    """The second one is told whose it is; a released one can be taken."""
    assert holder_of(str(tmp_path)) == 0
    first = HomeLock(str(tmp_path))
    assert holder_of(str(tmp_path)) == os.getpid()
    with pytest.raises(StellwerkError) as caught:
        HomeLock(str(tmp_path))
    assert f"pid {os.getpid()}" in caught.value.problems[0].message
    assert rule_of(caught.value.problems[0].code).exit == 5
    first.release()
    HomeLock(str(tmp_path)).release()


def test_log_lines_are_single_lines() -> None:
    """Newlines and tracebacks too, so that nobody can write lines of their own."""
    record = logging.LogRecord("stellwerk.x", logging.ERROR, "", 1, "a\nb %s", ("c\n",), None)
    try:
        raise ValueError("why\nnot")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = LineFormatter().format(record)
    assert "\n" not in line
    assert "ERROR stellwerk.x a\\nb c\\n trace=" in line
    assert "why\nnot" in json.loads(line.partition("trace=")[2])


@contextmanager
def standard_files_kept() -> Iterator[None]:
    """Puts the standard output and error back that a test has replaced."""
    kept, kept_out = os.dup(2), os.dup(1)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.dup2(kept_out, 1)
        os.close(kept)
        os.close(kept_out)


def log_lines(handler: StderrHandler, count: int) -> None:
    for n in range(count):
        handler.emit(logging.LogRecord("x", logging.INFO, "", 1, f"line {n}", (), None))


def test_the_log_turns_over(tmp_path: Path) -> None:
    """The full file is kept under another name; standard error is the new one."""
    path = str(tmp_path / "server.log")
    with standard_files_kept():
        write_stderr_to(path)
        log_lines(StderrHandler(path, largest=300), 12)
        os.write(2, b"from elsewhere\n")
    old, new = Path(path + ".1").read_text(), Path(path).read_text()
    assert [int(line.split()[-1]) for line in (old + new).splitlines()[:-1]] == list(range(12))
    assert new.endswith("from elsewhere\n")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_log_that_can_not_turn_over_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a free descriptor, say: no line is lost, and it is tried again."""
    path = str(tmp_path / "server.log")

    def no_more(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with standard_files_kept():
        write_stderr_to(path)
        handler = StderrHandler(path, largest=300)
        with monkeypatch.context() as without:
            without.setattr(logbook, "_open", no_more)
            log_lines(handler, 12)
        assert len(Path(path).read_text().splitlines()) == 12
        assert os.listdir(tmp_path) == ["server.log"]
        log_lines(handler, 2)
    assert len(Path(path + ".1").read_text().splitlines()) == 13
    assert len(Path(path).read_text().splitlines()) == 1


def test_connections_that_can_not_be_taken_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Other trouble of the event loop is told as ever."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopTrouble())
        for _ in range(1_000):
            out = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            loop.call_exception_handler({"message": "accept", "exception": out, "socket": None})
        for error in (OSError(errno.EIO, "disk"), ValueError("odd")):
            loop.call_exception_handler({"message": "trouble", "exception": error})

    asyncio.run(scene())
    assert len(caplog.records) == 3
    assert "Too many open files" in caplog.records[0].getMessage()


def connection(peer: Peer | None, access: Access, token: str = "") -> Any:
    """As much of a connection as the guard looks at."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    state = {"peer": peer} if peer else {}
    return SimpleNamespace(
        app=SimpleNamespace(state=SimpleNamespace(access=access)),
        scope={"state": state, "path_template": "/v1/server/stop", "method": "POST"},
        headers=headers,
    )


def test_who_may_do_what() -> None:
    """On a server of one's own the user and root everything, nobody else anything; a token is the
    user.
    """

    async def admit(caller: Any) -> Any:
        await authorize(caller, SimpleNamespace())  # type: ignore[arg-type]
        return caller.scope["state"]["actor"]

    access = Access(uid=4242, token="t" * 43)
    for uid, actor in ((4242, "uid-4242"), (0, user_name(0))):
        assert asyncio.run(admit(connection(Peer(uid, 1), access))) == actor
    with pytest.raises(StellwerkError) as caught:
        asyncio.run(admit(connection(Peer(4343, 1), access)))
    assert caught.value.problems[0].code == "auth/not-yours"
    assert asyncio.run(admit(connection(None, access, "t" * 43))) == "uid-4242"
    for token in ("", "t", "t" * 42, "u" * 43):
        with pytest.raises(StellwerkError):
            asyncio.run(admit(connection(None, access, token)))
    with pytest.raises(StellwerkError):
        asyncio.run(admit(connection(None, Access(uid=1, token=""), "")))


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    """On Unix sockets, and on no others."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    assert peer_of(ours) == Peer(os.geteuid(), os.getpid())
    ours.close()
    theirs.close()
    with socket.socket(socket.AF_INET) as other:
        assert peer_of(other) is None


def test_every_rule_is_a_refusal() -> None:
    """With an HTTP status, an exit code and a title; an unknown code is our own mistake."""
    for rule in TABLE.values():
        assert 400 <= rule.status < 600
        assert rule.exit in {1, 2, 3, 4, 5, 6}
        assert rule.title
    assert rule_of("spec/anything") is TABLE["spec/"]
    assert rule_of("store/ambiguous") is TABLE["store/ambiguous"]
    assert rule_of("who/knows") is TABLE["internal"]
    told = document([Problem("spec/a", "one"), Problem("find/b", "two", "help")])
    assert (told.status, told.code, told.detail) == (422, "spec/a", "one\ntwo")


class Journal:
    """A journal that grows, with its word of that."""

    def __init__(self) -> None:
        self.records: list[ev.Record] = []
        self.grown = asyncio.Event()
        self.reads = 0

    def add(self, count: int, workload: str = "w-1") -> None:
        for _ in range(count):
            self.records.append(
                ev.Record(len(self.records) + 1, 0, 1, "a", "p", ev.Released(WorkloadId(workload)))
            )
        self.grown.set()

    def read(self, after: int, limit: int) -> Sequence[ev.Record]:
        self.reads += 1
        return self.records[after : after + limit]

    async def changed(self, after_seq: int, timeout_s: float) -> int:
        self.grown.clear()
        if len(self.records) <= after_seq:
            await asyncio.wait_for(self.grown.wait(), timeout_s)
        return len(self.records)


def test_the_feed_tells_everybody_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the ring or, for those far behind, from the journal again."""
    monkeypatch.setattr(feed_module, "RING_RECORDS", 50)

    async def story() -> None:
        journal = Journal()
        feed = Feed(journal, journal.read, 0)
        running = asyncio.create_task(feed.run())
        with feed.follow() as grown, feed.watch("w-2") as touched:
            journal.add(700)
            while feed.seq < 700:
                await asyncio.wait_for(grown.wait(), 5)
                grown.clear()
            seen, place = [], 0
            while page := feed.after(place):
                seen += [one.seq for one in page]
                place = page[-1].seq
            assert seen == list(range(1, 701))
            reads = journal.reads
            assert [one.seq for one in feed.after(690)] == list(range(691, 701))
            assert journal.reads == reads, "the newest come from the ring"
            assert not touched.is_set()
            journal.add(1, "w-2")
            await asyncio.wait_for(touched.wait(), 5)
        assert feed.after(701) == feed.after(9999) == ()
        assert not feed._watches
        running.cancel()

    asyncio.run(story())


class Log:
    """A log that can be read; it counts how often."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    async def folders(self, run: RunId) -> Folders:
        return Folders()

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        self.reads.append((offset, limit))
        return LogChunk(self.data[offset : offset + limit], offset, len(self.data))


def test_a_tail_begins_at_the_end_and_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte that was printed before isn't read to follow what comes."""
    monkeypatch.setattr(tails_module, "KEPT_BYTES", 100)

    async def story() -> None:
        log = Log(b"x" * 10_000)
        tails = Tails(lambda _cluster: log)
        wake = asyncio.Event()
        with tails.follow(LogName("lab", RunId("w-1-1"), "run", 0), wake) as tail:
            await asyncio.wait_for(wake.wait(), 5)
            assert all(offset >= 10_000 or limit == 0 for offset, limit in log.reads)
            wake.clear()
            log.data += b"y" * 150
            await asyncio.wait_for(wake.wait(), 5)
            reads = len(log.reads)
            assert await tail.read(10_050) == b"y" * 100
            assert len(log.reads) == reads, "the newest hundred are kept"
            assert await tail.read(9_999) == b"x" + b"y" * 150
            assert await tail.read(10_150) == b""
        assert len(tails) == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("driver/log-unreadable", "driver/log-unreadable"),
        ("runtime/fenced", "driver/runtime/fenced"),
        ("no-driver", "driver/no-driver"),
    ],
)
def test_a_drivers_refusal_is_of_one_family(code: str, told: str) -> None:
    """Whatever the driver calls it, a caller finds it under `driver/`, and only once."""
    error = DriverError(code, "it hangs", final=False)
    answer = on_driver_error(SimpleNamespace(), error)  # type: ignore[arg-type]
    assert json.loads(answer.content)["code"] == told
    assert answer.status_code == 503
