"""Decides what follows as the windows of clusters close: who is told when, and who counts as over.

A run is told so early that its grace and the copying of what it saves end before the window does.
Its runtime does so by itself; where nobody hears of that, the run counts as over some time after.
"""

from __future__ import annotations

from collections.abc import Iterator

from stellwerk.core.data.node_windows import Closings, is_windowed
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.calendars import FOREVER_MS, Window
from stellwerk.core.model.draining import moment
from stellwerk.core.model.ids import workload_of
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import Run, RunEnd, Workload
from stellwerk.core.recover.outcome import outcome
from stellwerk.core.state import State
from stellwerk.core.state.quiet import Quiet

MARGIN_MS = 5_000
"""So much earlier than grace and copying ask for is a run told."""

OVER_MARGIN_MS = 120_000
"""So long after the end of its window, and its grace, a run counts as over that nobody hears of."""


def on_calendar(state: State, command: cmd.SetCalendar) -> list[ev.Event]:
    """Takes over when a cluster may be used, if that is something new."""
    calendar = command.calendar
    known = state.calendars.get(calendar.cluster)
    if known == calendar or calendar.cluster not in state.observed:
        return []
    return [ev.CalendarSet(calendar)]


def on_no_calendar(state: State, command: cmd.RemoveCalendar) -> list[ev.Event]:
    """Lets a cluster be used at any time, also by what runs there."""
    name = command.cluster
    if name not in state.calendars:
        return []
    live = (state.workloads[workload_of(id)].live_run for id in sorted(state.allocations[name]))
    bounded = [
        one for one in live if one is not None and (one.allocation.closes_ms or one.closes_ms)
    ]
    return [ev.CalendarRemoved(name), *(ev.WindowMoved(one.id, FOREVER_MS) for one in bounded)]


def told_at_ms(workload: Workload, run: Run, close_ms: int) -> int:
    """When a run is told that its window closes."""
    return close_ms - workload.policies.grace_ms - copying_ms(workload, run) - MARGIN_MS


def copying_ms(workload: Workload, run: Run) -> int:
    """What copying takes after a run's end: as it told, or else as its last runs did."""
    if run.copy_ms:
        return run.copy_ms
    before = (one.copy_ms for one in reversed(workload.runs) if one.number < run.number)
    return next((copy_ms for copy_ms in before if copy_ms), 0)


def gone_by_ms(workload: Workload, run: Run) -> int:
    """When a run must be gone, so that what it saved is copied before its window closes; 0 = at no
    time that is known.
    """
    closes_ms = run.closes_ms or run.allocation.closes_ms
    if not closes_ms or closes_ms >= FOREVER_MS:
        return 0
    return closes_ms - copying_ms(workload, run)


def _bounded(state: State, now_ms: int) -> Iterator[tuple[Workload, Run, Window | None]]:
    """What runs where windows are, and when the first of its nodes closes, in a fixed order."""
    for name in sorted(state.clusters):
        held = state.allocations.get(name)
        if not held or not is_windowed(state.clusters[name]):
            continue
        closings = Closings(state.clusters[name], now_ms)
        for id in sorted(held):
            workload = state.workloads[workload_of(id)]
            run = workload.live_run
            if run is not None:
                yield workload, run, closings.of(one.node for one in run.allocation.nodes)


def closing(state: State, now_ms: int) -> list[ev.Event]:
    """Notice to those whose window is about to close, and the end of those that must be over."""
    if state.windows_quiet.holds(state.seq, now_ms):
        return []
    found: list[ev.Event] = []
    for workload, run, closed in _bounded(state, now_ms):
        if now_ms >= _over_at_ms(workload, run) > 0:
            found += _over(state, workload, run, now_ms)
            continue
        if run.notice or workload.cancelling:
            continue
        moved_ms = _moved_ms(run, closed, now_ms)
        if moved_ms:
            found.append(ev.WindowMoved(run.id, moved_ms))
        if closed is None or now_ms < told_at_ms(workload, run, closed[0]):
            continue
        params = {"cluster": run.allocation.cluster, "closes": moment(closed[0])}
        copy_ms = copying_ms(workload, run)
        left_ms = max(0, closed[0] - now_ms - copy_ms)
        grace_ms = min(workload.policies.grace_ms, left_ms)
        found.append(
            ev.NoticeGiven(run.id, "window", grace_ms, Reason("window_ends", dict(params)), copy_ms)
        )
    return found


def _moved_ms(run: Run, closed: Window | None, now_ms: int) -> int:
    """When its window closes, if that is another time than its machine was told; else 0."""
    close_ms = FOREVER_MS if closed is None else closed[0]
    told_ms = run.closes_ms or run.allocation.closes_ms or FOREVER_MS
    return close_ms if close_ms > now_ms and close_ms != told_ms else 0


def _over_at_ms(workload: Workload, run: Run) -> int:
    """When a run counts as over that can't be reached; 0 = it doesn't for its window's sake."""
    told_ms = run.allocation.closes_ms
    if run.reachable or not told_ms:
        return 0
    # Whether it heard of another end isn't known: the later one counts.
    return max(told_ms, run.closes_ms) + workload.policies.grace_ms + OVER_MARGIN_MS


def _over(state: State, workload: Workload, run: Run, now_ms: int) -> list[ev.Event]:
    message = "its window closed, and its machine hasn't been heard of since"
    end = RunEnd(how="window", put_back=True, message=message, ended_at_ms=now_ms)
    shape = state.shapes[workload.shape].shape
    clusters = [state.clusters[name] for name in sorted(state.clusters)]
    reason, follows = outcome(workload, run, end, shape, now_ms, clusters)
    return [ev.RunEnded(run.id, end, reason), follows]


def next_closing_ms(state: State, now_ms: int) -> int:
    """When the next run is to be told, or counts as over; 0 = none is.

    Until then, or until something happens, nobody has to be looked at for windows' sake again.
    """
    quiet = state.windows_quiet
    if quiet.holds(state.seq, now_ms):
        return quiet.next_ms
    times: list[int] = []
    edges: list[int] = []
    settled = True
    for workload, run, closed in _bounded(state, now_ms):
        over_ms = _over_at_ms(workload, run)
        if over_ms:
            times.append(over_ms)
        if run.notice or workload.cancelling:
            continue
        settled = settled and not _moved_ms(run, closed, now_ms)
        if closed is not None:
            times.append(told_at_ms(workload, run, closed[0]))
            edges += closed
    next_ms = min((at for at in times if at > now_ms), default=0)
    if settled and next_ms == min(times, default=0):
        until_ms = min((at for at in (next_ms, *edges) if at > now_ms), default=FOREVER_MS)
        state.windows_quiet = Quiet(state.seq, now_ms, until_ms, next_ms)
    return next_ms
