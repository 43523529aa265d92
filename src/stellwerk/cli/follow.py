"""Follows a workload from its submission to its end, and returns the job's own exit code.

The job's output goes to stdout as raw bytes, across all of its runs; what happens to it is told on
stderr, one line per change. Ctrl-C never ends a job by itself: on a terminal it asks, elsewhere it
detaches and says so.
"""

import contextlib
import sys
import threading
from collections.abc import Iterable
from typing import Literal

from stellwerk.cli.errors import INTERRUPTED, OURS
from stellwerk.cli.render.ending import ending
from stellwerk.cli.render.phases import doing
from stellwerk.cli.render.reasons import in_a_row
from stellwerk.cli.render.units import clock, duration
from stellwerk.cli.session import now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.gang import GangReader, ranks_of
from stellwerk.client.wire import Headline, Show
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.reasons import RenderedReason

LOOK_AGAIN_S = 1.0
OUT_OF_REACH = "out_of_reach"
SIGNAL_BASE = 128


def follow(client: Client, id: str, narrator: Narrator, offset: int = 0) -> int:
    """Follows until the end; returns the job's code, 125 for a failure of ours, 0 if detached.

    The output of a job of one rank comes from an offset on.
    """
    watcher = _Watcher(client.twin(), id, narrator)
    watcher.start()
    try:
        return _follow(client, id, narrator, watcher, offset)
    finally:
        watcher.stop()


def _follow(client: Client, id: str, narrator: Narrator, watcher: "_Watcher", offset: int) -> int:
    ranks = ranks_of(client.get(id))
    output = output_of(client, id, ranks, run="all", follow=True, offset=offset)
    while True:
        try:
            for chunk in output:
                narrator.data(chunk)
            watcher.stop()
            return _tell_end(client, id, narrator)
        except KeyboardInterrupt:
            code = _interrupted(client, id, narrator, watcher)
            if code is not None:
                return code


def output_of(
    client: Client,
    name: str,
    ranks: int,
    *,
    first: int = 0,
    run: int | Literal["all"] | None,
    follow: bool,
    offset: int = 0,
) -> Iterable[bytes]:
    """What a workload prints: raw, or of several ranks line by line with the rank before each.

    Going through it again goes on where the last time stopped.
    """
    if ranks > 1:
        return GangReader(client, name, ranks, first=first, run=run, follow=follow)
    return client.log_reader(name, run=run, stream="all", follow=follow, offset=offset)


def job_code(show: Headline) -> int:
    """The exit code of a finished workload, as a shell tells it."""
    if show.phase == "Succeeded":
        return 0
    if show.phase == "Cancelled":
        return show.exit_code or INTERRUPTED
    return show.exit_code or 1


def _tell_end(client: Client, id: str, narrator: Narrator) -> int:
    show = client.get(id)
    lines = ending(show)
    style = "good" if show.phase == "Succeeded" else "bad"
    for i, line in enumerate(lines):
        (narrator.insist if show.phase == "Failed" else narrator.say)(line, "" if i else style)
    return job_code(show)


def _interrupted(client: Client, id: str, narrator: Narrator, watcher: "_Watcher") -> int | None:
    """What Ctrl-C means: None to go on following, else the exit code."""
    watcher.pause()
    name = id
    try:
        name = client.get(id).name
        if sys.stdin.isatty() and narrator.terminal.is_tty:
            answer = narrator.ask(
                f"{name} goes on.",
                {"d": "detach", "c": "cancel it", "f": "keep following"},
            )
        else:
            answer = "d"
        if answer == "c":
            client.cancel(id)
            narrator.say(f"{name} is asked to end; Ctrl-C again detaches")
        if answer in {"c", "f"}:
            watcher.resume()
            return None
        narrator.insist(f"{name} goes on; to follow it again: stw logs -f {name}")
        return INTERRUPTED
    except KeyboardInterrupt:
        narrator.insist(f"{name} goes on; to follow it again: stw logs -f {name}")
        return INTERRUPTED
    except StellwerkError as error:
        narrator.insist(str(error))
        return OURS


class _Watcher:
    """Tells each change of phase, in a thread of its own with a connection of its own."""

    def __init__(self, client: Client, id: str, narrator: Narrator) -> None:
        self._client = client
        self._id = id
        self._narrator = narrator
        self._events = client.event_reader(workload=id)
        self._changed = threading.Event()
        self._over = False
        self._talks = True
        self._talking = threading.Lock()
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._watch, self._listen)
        ]
        self._told: tuple[str, int, str] = ("", 0, "")

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Says no more, and lets go of its connections."""
        self.pause()
        self._over = True
        self._changed.set()
        self._events.stop()
        for thread in self._threads:
            thread.join(timeout=LOOK_AGAIN_S)
        self._client.close()
        self._narrator.end()

    def pause(self) -> None:
        """Says no more for now; returns once nothing is being said."""
        with self._talking:
            self._talks = False

    def resume(self) -> None:
        """Talks again."""
        self._talks = True

    def _watch(self) -> None:
        """Looks once for each change that the server tells, and now and then for the clock."""
        while not self._over:
            self._changed.clear()
            # Without a server there is nothing to tell; the reader of the log brings it back.
            with contextlib.suppress(StellwerkError):
                show = self._client.get(self._id)
                if show.ended:
                    return
                with self._talking:
                    if self._talks:
                        self._tell(show)
            self._changed.wait(LOOK_AGAIN_S)

    def _listen(self) -> None:
        with contextlib.suppress(StellwerkError):  # then the clock has to do
            for _ in self._events:
                self._changed.set()

    def _tell(self, show: Show) -> None:
        number = show.runs[-1].number if show.runs else 0
        waits = show.phase in {"Pending", "Held"}
        why = in_a_row(show.reasons) if waits else OUT_OF_REACH * (_silence(show) is not None)
        state = (show.phase, number, why)
        waiting_shortly = show.phase == "Pending" and now_ms() - show.submitted_ms < 300
        if state != self._told and not waiting_shortly:
            self._told = state
            self._narrator.say(phase_line(show))
        self._narrator.progress(_progress(show))


def phase_line(show: Show) -> str:
    """`waiting: …`, `running on laptop`, `setting up on laptop (run 2)`; why nothing is heard."""
    if show.phase in {"Pending", "Held"}:
        return f"{doing(show.phase)}: {in_a_row(show.reasons) or 'no reason recorded'}"
    run = show.runs[-1] if show.runs else None
    where = f" on {run.cluster}" if run and run.cluster else ""
    again = f" (run {run.number})" if run and run.number > 1 else ""
    line = f"{doing(show.phase)}{where}{again}"
    silence = _silence(show)
    if silence is None:
        return line
    since_ms = silence.params.get("since_ms")
    since = f" since {clock(since_ms, now_ms())}" if isinstance(since_ms, int) else ""
    note = silence.params.get("note")
    return f"{line}, which has been out of reach{since}{f': {note}' if note else ''}"


def _silence(show: Show) -> RenderedReason | None:
    """Why nothing is heard of its run."""
    return next((reason for reason in show.reasons if reason.code == OUT_OF_REACH), None)


def _progress(show: Show) -> str:
    run = show.runs[-1] if show.runs else None
    since = (run and (run.running_ms or run.started_ms)) or show.submitted_ms
    metrics = [
        f"{name} {metric['last']:.4g}"
        for name, metric in list(show.metrics.items())[:3]
        if isinstance(metric.get("last"), int | float)
    ]
    return "  ".join([f"{doing(show.phase)} for {duration(now_ms() - since)}", *metrics])
