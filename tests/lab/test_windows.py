"""A room whose window closes under a running job while nobody can tell its machine so."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.lab.room import Computer, Room, a_room, missing
from tests.lab.test_ssh import PATIENCE_S, Person
from tests.processes import wait_gone, wait_until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
SAVES = """\
trap 'date +%s > ~/told; exit 85' TERM
echo ready
while true; do sleep 0.1; done"""
GRACE_S = 2
CLOSES_S = 11


def in_seconds(seconds: float) -> str:
    """A time from now on, as it is written."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with a_room() as room:
        room.trust(room.add())
        yield room


@pytest.fixture
def person(room: Room) -> Iterator[Person]:
    """Somebody whose room is closed but for an exception; a job of theirs runs in it."""
    (computer,) = room.computers
    (computer.home / "told").unlink(missing_ok=True)
    person = Person(room)
    person.stw("cluster", "add", "lab", "--host", str(computer))
    wait_until(
        lambda: [node["state"] for node in person.nodes()] == ["ready"],
        "the machine is ready",
        PATIENCE_S,
    )
    person.stw("calendar", "import", "--on", "lab", "--rules", "daily 00:00-24:00", "--closed")
    person.stw("calendar", "override", "lab", "open", "--until", in_seconds(300))
    limits = ("--time-limit", "3m", "--checkpoint-grace", f"{GRACE_S}s")
    person.task(SAVES, "job", *limits)
    person.prints("job", "ready")
    yield person
    computer.mend()
    person.stw("cancel", "--now", "job", code=None)
    person.stw("server", "stop", code=None)
    computer.end_jobs()


def closes_soon(person: Person) -> float:
    """The window is made shorter, and the machine hears of it; gives when it closes."""
    at = time.time() + CLOSES_S
    person.stw(
        "calendar", "override", "lab", "closed", "--from", in_seconds(CLOSES_S),
        "--until", in_seconds(3600),
    )  # fmt: skip
    assert person.show("job")["phase"] == "Running"
    return at


def is_left_in_time(computer: Computer, closes_s: float) -> None:
    """The job was told one grace before the window's end."""
    told = computer.home / "told"
    wait_until(lambda: told.exists() and told.read_text().strip(), "notice", PATIENCE_S)
    assert closes_s - GRACE_S - 2 <= int(told.read_text()) <= closes_s


def goes_on_when_it_opens(person: Person) -> None:
    """It waits for the window, uncharged, and starts when that opens."""
    found = person.reaches("job", "Pending")
    assert found["runs"][-1]["end"]["how"] == "window"
    assert any(one["code"].startswith("window_") for one in found["reasons"]), found["reasons"]
    person.stw("calendar", "override", "lab", "open", "--until", in_seconds(3600))
    assert len(person.reaches("job", "Running")["runs"]) == 2


def test_the_server_is_killed_while_the_window_closes(person: Person, room: Room) -> None:
    """The machine ends the job by itself, in time."""
    closes_s = closes_soon(person)
    pid = person.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    is_left_in_time(room.computers[0], closes_s)
    goes_on_when_it_opens(person)


def test_the_cable_is_cut_over_the_end_of_the_window(person: Person, room: Room) -> None:
    """The same; when the cable is mended the end is known, and nothing ran twice."""
    closes_s = closes_soon(person)
    room.computers[0].cut()
    is_left_in_time(room.computers[0], closes_s)
    room.computers[0].mend()
    goes_on_when_it_opens(person)
