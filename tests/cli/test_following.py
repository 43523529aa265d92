"""Following a job: what is said while it runs, its own exit code, and Ctrl-C."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from tests.cli.conftest import Stw
from tests.cli.jobs import Job, ended
from tests.client.fake_server import Says, reason, refuses, run, show

STW = [sys.executable, "-m", "stellwerk.cli"]


def test_phases_are_told_once_each(job: Job, stw: Stw, task: str) -> None:
    """Without a terminal there is one line for each change, and none for none."""
    why = [reason("no_room", "capacity", "2 CPUs asked, 1 free on laptop")]
    pages = [
        show("digits", "Pending", reasons=why),
        show("digits", "Pending", reasons=why),
        show("digits", "Running", runs=[run(2)]),
        ended(),
    ]
    assert told_of(job, stw, task, pages)[1:3] == [
        "waiting: capacity: 2 CPUs asked, 1 free on laptop",
        "running on laptop (run 2)",
    ]


def told_of(job: Job, stw: Stw, task: str, shown: list[dict[str, Any]]) -> list[str]:
    """What is said while one look after the other gives these pages."""
    pages = iter(shown)
    last = [ended()]

    def page(_: object) -> dict[str, Any]:
        last[0] = next(pages, last[0])
        return last[0]

    def output() -> Any:
        yield b"hi\n"
        time.sleep(0.5)

    event = b'data: {"seq": %d, "at_ms": 1, "event": {"type": "x"}}\n\n'

    def events() -> Any:
        for number in range(1, 9):
            time.sleep(0.03)
            yield event % number

    job.server.on("GET", "/v1/workloads/w-1", page)
    job.server.on("GET", "/v1/events", lambda _: Says(events(), cut=True))
    job.server.on("GET", "/v1/workloads/w-1/logs", lambda _: Says(output()))
    return stw("run", task).err.splitlines()


def test_a_lost_server_is_125_once_there_is_a_job(
    job: Job, stw: Stw, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code of ours can't be mistaken for the job's."""
    job.server.on("GET", "/v1/workloads/w-1/logs", refuses("internal", "oops", 500, 1))
    result = stw("run", task)
    assert result.code == 125
    assert "error[internal]  oops" in result.err
    assert "the job itself is not affected" in result.err


def start_following(job: Job, over: threading.Event, **how: Any) -> "subprocess.Popen[bytes]":
    """Runs `stw` on a job that prints once and then takes its time."""

    def output() -> Any:
        yield b"begun\n"
        over.wait(50)

    job.page = {**show("digits", "Running", runs=[run(1)]), "id": "w-1"}
    job.server.on("GET", "/v1/workloads/w-1/logs", lambda _: Says(output()))
    return subprocess.Popen([*STW, "run", "task.yaml"], **how)


def test_ctrl_c_without_a_terminal_detaches(job: Job, task: str) -> None:
    """The job goes on, and the sentence says how to come back."""
    over = threading.Event()
    with start_following(job, over, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=40)
    over.set()
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == (
        "digits goes on; to follow it again: stw logs -f digits"
    )
    assert "cancel" not in [asked.path.rsplit("/", 1)[1] for asked in job.server.asked]


@pytest.mark.parametrize(
    ("answer", "code", "cancelled"), [(b"d\n", 130, False), (b"f\n", 0, False), (b"c\n", 130, True)]
)
def test_ctrl_c_on_a_terminal_asks(
    job: Job, task: str, answer: bytes, code: int, cancelled: bool
) -> None:
    """Detach, keep following, or cancel: nothing happens by accident."""
    job.server.on(
        "POST", "/v1/workloads/w-1/cancel", {"id": "w-1", "name": "d", "phase": "Running"}
    )
    ours, theirs = pty.openpty()
    over = threading.Event()
    with start_following(job, over, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        screen = read_until(ours, b"begun")
        process.send_signal(signal.SIGINT)
        screen += read_until(ours, b"then Enter: ")
        job.page = ended("Cancelled" if cancelled else "Succeeded", None if cancelled else 0)
        os.write(ours, answer)
        if answer != b"d\n":
            over.set()
        screen += read_until(ours, b"stw logs -f" if answer == b"d\n" else b"details: ")
        assert process.wait(timeout=40) == code
    over.set()
    os.close(theirs)
    os.close(ours)
    assert b"digits goes on.  [d] detach, [c] cancel it, [f] keep following, then Enter: " in screen
    paths = [asked.path.rsplit("/", 1)[1] for asked in job.server.asked]
    assert ("cancel" in paths) == cancelled


def read_until(descriptor: int, mark: bytes, seconds: float = 40) -> bytes:
    """Reads a terminal until something stands there."""
    seen = b""
    deadline = time.monotonic() + seconds
    while mark not in seen:
        ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
        assert ready, seen
        seen += os.read(descriptor, 4096)
    return seen


def test_silence_is_explained_once(job: Job, stw: Stw, task: str) -> None:
    """Since when nothing is heard and why, beside the phase; not again for each second more."""

    def silent(seconds: int) -> dict[str, Any]:
        told = reason("out_of_reach", "unknown", f"laptop is out of reach for {seconds} s")
        told["params"] = {"since_ms": 1_700_000_000_000, "note": "no route"}
        return show("digits", "Starting", runs=[run(phase="Starting")], reasons=[told])

    heard = show("digits", "Running", runs=[run()])
    lines = told_of(job, stw, task, [silent(1), silent(2), silent(3), heard, ended()])
    assert re.fullmatch(
        r"starting on laptop, which has been out of reach since 2023-11-1\d [\d:]{8}: no route",
        lines[1],
    )
    assert lines[2] == "running on laptop"
