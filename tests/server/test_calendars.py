"""Calendars over HTTP, from import to removal; and addresses that lead where nobody may get."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from stellwerk.core.model.calendars import FOREVER_MS
from stellwerk.core.model.errors import StellwerkError
from stellwerk.server import calendars
from stellwerk.server.calendar_fetch import fetch
from stellwerk.server.reading import read_item
from tests.server.stage import Stage

NIGHT = {"rules": "daily 00:00-24:00", "means": "closed"}
BROKEN = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:a\nDTSTART:never\nEND:VEVENT\nEND:VCALENDAR\n"


def test_a_calendar_from_its_import_to_its_end(home_of_its_own: str) -> None:
    """Closed by its rules, opened for once, refused with all that is wrong, and removed."""
    with Stage(Path(home_of_its_own), read=read_item) as stage:
        stage.until(lambda: stage.get("/v1/clusters").json["items"], "a cluster")
        assert stage.get("/v1/calendars/lab").status == 404
        assert stage.post("/v1/calendars/nowhere", NIGHT).status == 404
        shut = stage.post("/v1/calendars/lab", NIGHT).json
        assert (shut["open"], shut["opens_ms"]) == (False, FOREVER_MS)
        name = stage.submit("run: x\n", overrides={"time_limit": "1m"})["name"]
        stage.until(lambda: stage.get(f"/v1/workloads/{name}").json["reasons"], "a reason")
        (reason,) = stage.get(f"/v1/workloads/{name}").json["reasons"]
        assert reason["code"] == "window_closed"
        for bad in ({"text": BROKEN}, {"text": "x"}, {"rules": "someday"}, {**NIGHT, "zone": "x"}):
            refused = stage.post("/v1/calendars/lab", bad)
            assert refused.status == 422
            assert refused.json["problems"][0]["code"].startswith("calendar/")
        assert stage.get("/v1/calendars/lab").json == shut, "what is wrong changes nothing"
        now_ms = stage.get("/v1/server").json["started_ms"]
        wish = {"from_ms": now_ms, "until_ms": now_ms + 3_600_000, "means": "open", "why": "exam"}
        assert stage.post("/v1/calendars/lab/override", wish).json["open"]
        late = {**wish, "until_ms": now_ms - 1}
        assert stage.post("/v1/calendars/lab/override", late).status == 422
        stage.until(lambda: stage.driver.started, "its start")
        assert stage.driver.started[0].window_end_ms == wish["until_ms"]
        assert stage.ask("DELETE", "/v1/calendars/lab").status == 200
        assert stage.get("/v1/calendars").json["items"] == []
        stage.until(lambda: stage.driver.stopped, "word of the window that is gone")
        assert stage.driver.stopped[0].window_end_ms == FOREVER_MS


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server of this machine that gives one answer after the other, and then hangs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            for answer in (*answers, b""):
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                connection.recv(4096)
                connection.sendall(answer)
                if answer:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/a.ics"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    for one in held:
        one.close()


def ok(body: bytes) -> bytes:
    """An answer with a body."""
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body


def refusal(url: str, *, private: bool = True, step_s: float = 0.001) -> str:
    """Why an address isn't read; each look at the clock takes so long."""
    clock = count()
    with pytest.raises(StellwerkError) as caught:
        fetch(url, lambda: next(clock) * step_s, private=private)
    return caught.value.problems[0].message


def test_an_address_is_read_and_followed() -> None:
    """Where it was allowed."""
    clock = count()
    with answering(ok(b"\xef\xbb\xbfBEGIN")) as there:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {there}\r\n\r\n".encode()
        with answering(moved) as url:
            assert fetch(url, lambda: next(clock) / 1000, private=True) == "BEGIN"


def test_a_hostile_address_is_refused_in_words() -> None:
    """It hangs, never ends, turns in circles, or answers nonsense; each is bounded."""
    with answering() as url:
        assert "timed out" in refusal(url, step_s=19.95)
    with answering(b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n") as url:
        assert "can't be read" in refusal(url)
    assert "can't be read" in refusal("http://[")
    with answering() as url:
        assert "can't be read" in refusal(url.replace("http", "WEBCAL"), step_s=19.8)
    with answering(ok(b"x" * (5 << 20))) as url:
        assert "more than 4 MiB" in refusal(url)
    with answering(*[b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n"] * 4) as url:
        assert "leads elsewhere more than 3 times" in refusal(url)
    with answering(b"HTTP/1.1 500 Broken\r\n\r\n") as url:
        assert "answers 500" in refusal(url)
    with answering(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n") as url:
        assert "begins with https://" in refusal(url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "169.254.169.254",
        "10.1.2.3",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ],
)
def test_what_is_not_on_the_internet_is_out_of_reach(host: str) -> None:
    """Nothing is connected to, unless an administrator allows it."""
    assert "isn't on the internet" in refusal(f"http://{host}:1/", private=False)
    assert "name or password" in refusal(f"http://a:b@{host}:1/")


GOOD = (
    b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART:20200101T000000Z\r\n"
    b"DURATION:PT8H\r\nRRULE:FREQ=DAILY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


def test_the_last_good_calendar_holds_where_its_address_fails(
    home_of_its_own: str,
) -> None:
    """It is said why, and since when; the next good one takes its place."""
    later = GOOD.replace(b"PT8H", b"PT9H")
    with (
        Stage(Path(home_of_its_own), read=read_item) as stage,
        answering(ok(GOOD), ok(b"<html>"), ok(later)) as url,
    ):
        stage.until(lambda: stage.get("/v1/clusters").json["items"], "a cluster")
        wish = {"address": url, "private": True}
        first = stage.post("/v1/calendars/lab", wish).json["calendar"]
        look_again(stage)
        now = stage.get("/v1/calendars/lab").json
        assert "isn't an iCalendar file" in now["stale"][0]
        assert now["calendar"]["windows"] == first["windows"]
        look_again(stage)
        now = stage.get("/v1/calendars/lab").json
        assert "stale" not in now
        assert now["calendar"]["windows"] != first["windows"]


def look_again(stage: Stage) -> None:
    """What the server does by itself now and then."""
    known = stage.services.engine.state.calendars["lab"]
    asked = asyncio.run_coroutine_threadsafe(
        calendars._look_again(stage.services, known), stage.loop
    )
    asked.result(10)
    stage.until(lambda: stage.services.engine.state.calendars["lab"] != known, "another calendar")
