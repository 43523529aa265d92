"""Adds up what people and projects have used, from the read models of all workloads.

Counted is what a run *held*, from its first sign of life to its end (or now): that is what others
could not have. A run that crosses the end of a month counts in both, each its part.
"""

import asyncio
import datetime as dt
from collections.abc import Iterable, Iterator

import msgspec

from stellwerk.core.model.limits import gpus_of
from stellwerk.core.model.workload import Run, Workload
from stellwerk.server.every_run import with_every_run
from stellwerk.server.services import Services
from stellwerk.server.views import began_ms
from stellwerk.store import WorkloadFilter

PAGE = 2_000
NOBODY = "default"


class UsedLine(msgspec.Struct):
    """What somebody used; `month` is "" where months aren't told apart.

    `live` of the `runs` go on. `wait_ms` is how long those `started` waited for their first run.
    """

    who: str
    month: str = ""
    workloads: int = 0
    runs: int = 0
    live: int = 0
    gpu_ms: int = 0
    cpu_ms: int = 0
    memory_byte_ms: int = 0
    wait_ms: int = 0
    started: int = 0


class Used(msgspec.Struct, frozen=True):
    """Lines by who and month; what goes on is counted until `until_ms`."""

    items: list[UsedLine]
    since_ms: int
    until_ms: int
    seq: int


async def used(
    services: Services, by: str, since_ms: int, *, months: bool, owner: str = ""
) -> Used:
    """Reads all workloads, also those that are over, and adds up."""
    now_ms = services.clock.now_ms()
    found = await asyncio.to_thread(
        lambda: add_up(all_workloads(services, owner), by, since_ms, now_ms, months=months)
    )
    return Used(found, since_ms, now_ms, services.store.seq())


def all_workloads(services: Services, owner: str = "") -> Iterator[Workload]:
    """All that there are and were with all their runs, of everybody or of one."""
    after = 0
    while True:
        wanted = WorkloadFilter(live=False, owner=owner, after=after, limit=PAGE)
        rows = services.store.workloads(wanted)
        yield from (with_every_run(row.workload, services.store) for row in rows)
        if len(rows) < PAGE:
            return
        after = rows[-1].workload.order


def add_up(
    workloads: Iterable[Workload], by: str, since_ms: int, now_ms: int, *, months: bool
) -> list[UsedLine]:
    """The lines of these workloads, by who and month; the most GPU time first in each month."""
    lines: dict[tuple[str, str], UsedLine] = {}

    def line(who: str, at_ms: int) -> UsedLine:
        month = month_of(at_ms) if months else ""
        return lines.setdefault((month, who), UsedLine(who, month))

    for workload in workloads:
        who = workload.owner if by == "person" else project_of(workload)
        if workload.submitted_ms >= since_ms:
            line(who, workload.submitted_ms).workloads += 1
        first = next((run for run in workload.runs if began_ms(run)), None)
        began = began_ms(first) if first is not None else None
        if first is not None and first.number == 1 and began and began >= since_ms:
            one = line(who, began)
            one.started += 1
            one.wait_ms += max(0, began - workload.submitted_ms)
        for run in workload.runs:
            for start, end, is_first in _spans(run, since_ms, now_ms, months=months):
                _add(line(who, start), run, end - start, is_first=is_first)
    return sorted(lines.values(), key=lambda one: (one.month, -one.gpu_ms, -one.cpu_ms, one.who))


def _spans(
    run: Run, since_ms: int, now_ms: int, *, months: bool
) -> Iterator[tuple[int, int, bool]]:
    """The spans of time in which a run held something, and which is the first."""
    began = began_ms(run) or 0
    start, end = max(began, since_ms), run.ended_ms or now_ms
    if began and end >= start:
        parts = list(pieces(start, end, months=months)) or [(start, end)]
        yield from ((begin, over, begin == start) for begin, over in parts)


def _add(line: UsedLine, run: Run, held_ms: int, *, is_first: bool) -> None:
    nodes = run.allocation.nodes
    line.runs += is_first
    line.live += is_first and not run.ended_ms
    line.gpu_ms += gpus_of(nodes) * held_ms
    line.cpu_ms += sum(node.cpus_milli for node in nodes) * held_ms // 1000
    line.memory_byte_ms += sum(node.memory_bytes for node in nodes) * held_ms


def project_of(workload: Workload) -> str:
    """The project that a workload's newest run was charged to, or its own."""
    charged = next((run.allocation.project for run in reversed(workload.runs)), "")
    return charged or NOBODY


def pieces(start_ms: int, end_ms: int, *, months: bool) -> Iterator[tuple[int, int]]:
    """A span of time, cut where a month begins."""
    while months and start_ms < end_ms:
        border = min(end_ms, next_month_ms(start_ms))
        yield start_ms, border
        start_ms = border
    if not months:
        yield start_ms, end_ms


def month_of(at_ms: int) -> str:
    """`2026-11`, in UTC."""
    return f"{_date(at_ms):%Y-%m}"


def next_month_ms(at_ms: int) -> int:
    """When the month after this one begins, in UTC."""
    date = _date(at_ms)
    year, month = divmod(date.year * 12 + date.month, 12)
    first = dt.datetime(year, month + 1, 1, tzinfo=dt.UTC)
    return int(first.timestamp() * 1000)


def _date(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC)
