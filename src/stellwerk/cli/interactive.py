"""`stw run --shell`: waits for the place, opens a shell in it, and gives it back at its end.

While it waits, whoever waits may go: the place is given up with them. Once the shell was open, only
its end gives the place back; a connection that breaks doesn't.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from stellwerk.cli.errors import INTERRUPTED, OURS, lines_of
from stellwerk.cli.follow import job_code, phase_line
from stellwerk.cli.inside import carry, window
from stellwerk.cli.render.ahead import start_line
from stellwerk.cli.render.ending import ending
from stellwerk.cli.render.phases import doing
from stellwerk.cli.render.units import duration
from stellwerk.cli.session import forecasts, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.execs import ExecError
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Show
from stellwerk.core.model.errors import StellwerkError

TEXT = "run: echo the place of a shell\n"
"""The task of a shell that nobody wrote a file for."""

SHELL = """\
trap : INT QUIT
echo "$$" > "$STELLWERK_DONE_FILE.shell"
cd "$1" 2>/dev/null
"$(command -v "${SHELL:-bash}" || command -v bash || echo sh)"
code=$?
: > "$STELLWERK_DONE_FILE"
exit "$code"
"""
"""The shell, and the word that the job is done; who is hung up on has no time for that word."""

LOOK_AGAIN_S = 0.25
FORECAST_S = 20.0
END_WITHIN_S = 20.0
OWN_MACHINE = "local"


def attend(client: Client, id: str, narrator: Narrator, folder: str) -> int:
    """Until the shell has ended, and then its exit code; `folder` is where it begins, if that is on
    this machine ("" for the job's own).
    """
    while True:
        try:
            show = _wait(client, id, narrator)
        except KeyboardInterrupt:
            return _give_up(client, id, narrator)
        if show.ended:
            return _tell_end(show, narrator)
        try:
            code = _enter(client, show, folder)
        except (ApiError, ExecError) as error:
            if _is_asked_again(client, id, error, narrator):
                continue
            return OURS
        return _left(client, id, narrator, code)


def _wait(client: Client, id: str, narrator: Narrator) -> Show:
    """Says what it waits for, each time that changes, until the job runs or has ended."""
    told, since = "", time.monotonic() - FORECAST_S
    forecast, was_told = "", False
    with _closing_interrupts():
        while True:
            show = client.get(id)
            line = phase_line(show)
            if show.ended or show.phase == "Running":
                narrator.end()
                if not show.ended:
                    narrator.say(line)
                return show
            waits = show.phase in {"Pending", "Held"} and now_ms() - show.submitted_ms >= 1000
            if waits and time.monotonic() - since >= FORECAST_S:
                since = time.monotonic()
                expected = forecasts(client, id).get(id)
                forecast = f"; {start_line(expected, now_ms())}" if expected else ""
            if line != told and (waits or show.phase not in {"Pending", "Held"}):
                told = line
                narrator.say(line + (forecast if waits else ""))
                if waits and not was_told:
                    was_told = True
                    narrator.say("  Ctrl-C gives it up")
            elapsed = duration(now_ms() - show.submitted_ms)
            narrator.progress(f"{doing(show.phase)} for {elapsed}{forecast if waits else ''}")
            time.sleep(LOOK_AGAIN_S)


def _enter(client: Client, show: Show, folder: str) -> int:
    terminal = sys.stdin.isatty()
    cluster = show.runs[-1].cluster if show.runs else ""
    is_here = any(c.name == cluster and c.driver == OWN_MACHINE for c in client.clusters())
    argv = ("sh", "-c", SHELL, "sh", folder if folder and is_here else ".")
    session = client.exec_session(
        show.id,
        argv,
        stdin=True,
        terminal=terminal,
        size=window() if terminal else (0, 0),
        env={"TERM": os.environ.get("TERM") or "xterm"} if terminal else {},
    )
    return carry(session, stdin=True, terminal=terminal)


def _left(client: Client, id: str, narrator: Narrator, code: int) -> int:
    """The command has ended: with the job, or because somebody has hung up."""
    give_up = time.monotonic() + END_WITHIN_S
    while time.monotonic() < give_up:
        show = client.get(id)
        if show.ended:
            for line in ending(show):
                narrator.say(line)
            return code
        time.sleep(LOOK_AGAIN_S)
    _tell_way_back(client, id, narrator)
    return code


def _is_asked_again(client: Client, id: str, error: StellwerkError, narrator: Narrator) -> bool:
    """Whether the job waits for a place again, so that the shell may be opened anew there."""
    show = client.get(id)
    if error.problems[0].code == "exec/run-ended":
        # What ended the run is known a moment later than that nothing of it is left.
        give_up = time.monotonic() + END_WITHIN_S
        while show.phase in {"Running", "Stopping"} and time.monotonic() < give_up:
            time.sleep(LOOK_AGAIN_S)
            show = client.get(id)
    if show.ended:
        return True
    if show.phase != "Running" and sys.stdin.isatty():
        narrator.insist("the shell has ended with its run; one is opened anew when it runs again")
        return True
    for line in lines_of(error):
        narrator.insist(line.replace("NAME", show.name))
    _tell_way_back(client, id, narrator)
    return False


def _tell_way_back(client: Client, id: str, narrator: Narrator) -> None:
    name = client.get(id).name
    narrator.insist(f"{name} goes on: `stw shell {name}` goes back in, `stw cancel {name}` ends it")


def _give_up(client: Client, id: str, narrator: Narrator) -> int:
    """Nobody waits for the shell any more."""
    client.cancel(id)
    narrator.insist(f"{client.get(id).name} was given up, and cancelled")
    return INTERRUPTED


def _tell_end(show: Show, narrator: Narrator) -> int:
    """It ended without its shell having ended: what has happened."""
    for line in ending(show):
        narrator.insist(line)
    return job_code(show)


@contextmanager
def _closing_interrupts() -> Iterator[None]:
    """A terminal that is closed, or a request to end, counts as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ends = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
