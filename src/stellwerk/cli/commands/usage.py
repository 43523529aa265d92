"""`stw usage`: what people and projects have used of GPUs, processors and memory."""

import re
import time
from datetime import UTC, datetime

import click

from stellwerk.cli.errors import usage
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import duration
from stellwerk.cli.session import connect
from stellwerk.client.people import UsedLine

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
GIB = 2**30
_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS_MS = {"h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_DATES = ("%Y-%m-%d", "%Y-%m", "%Y")


@click.command("usage", epilog="Example: stw usage --by project --since 2026-11")
@click.option(
    "--by",
    type=click.Choice(("person", "project", "month")),
    default="person",
    help="Add up by person, by project, or by person in each month (UTC).",
)
@click.option("--months", is_flag=True, help="Tell each month (UTC) apart.")
@click.option("--since", metavar="WHEN", help="From then on: 2026-11-01, 2026-11, 30d, 12h.")
@list_options
def command(by: str, months: bool, since: str | None, output: Output) -> None:
    """Say what runs held, and for how long: of those that go on, until now."""
    apart = months or by == "month"
    since_ms = since_when(since, time.time_ns() // 1_000_000) if since else 0
    who = "project" if by == "project" else "person"
    found = connect().usage(by=who, since_ms=since_ms, months=apart)
    write_list(
        found.items,
        _columns(who, apart=apart) if output.for_people else [],
        output,
        name=lambda line: line.who,
        empty="nothing was used",
    )
    live = sum(line.live for line in found.items)
    if output.for_people and live:
        narrate(f"{live} of the runs go on, and are counted until now")


def since_when(text: str, now_ms: int) -> int:
    """A date in UTC, or so long ago, as UTC milliseconds."""
    if age := _AGE.fullmatch(text):
        return max(0, now_ms - int(age[1]) * _UNITS_MS[age[2]])
    for form in _DATES:
        try:
            at = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return max(0, int(at.timestamp() * 1000))
    raise usage("usage/since", f"`{text}` is no time", "write 2026-11-01, 2026-11, 30d or 12h")


def _columns(who: str, *, apart: bool) -> list[Column[UsedLine]]:
    month: Column[UsedLine] = Column("month", "MONTH", lambda one: one.month)
    return [
        *([month] if apart else []),
        Column("who", who.upper(), lambda one: one.who),
        Column("gpu_ms", "GPU HOURS", lambda one: hours(one.gpu_ms), _gpus, right=True),
        Column("cpu_ms", "CPU HOURS", lambda one: hours(one.cpu_ms), _cpus, right=True),
        Column("memory_byte_ms", "GIB HOURS", _memory, lambda one: one.memory_byte_ms, right=True),
        Column("workloads", "WORKLOADS", lambda one: f"{one.workloads:,}", right=True),
        Column("runs", "RUNS", lambda one: f"{one.runs:,}", right=True),
        Column("wait_ms", "WAITED", _waited, right=True),
        Column("live", "LIVE", lambda one: f"{one.live:,}", right=True, wide=True),
    ]


def hours(ms: float) -> str:
    """`0.02`, `3.5`, `1,204`: hours, with as many digits as matter."""
    value = ms / HOUR_MS
    digits = 0 if value >= 100 or value == 0 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f}"


def _gpus(line: UsedLine) -> int:
    return line.gpu_ms


def _cpus(line: UsedLine) -> int:
    return line.cpu_ms


def _memory(line: UsedLine) -> str:
    return hours(line.memory_byte_ms / GIB)


def _waited(line: UsedLine) -> str:
    """On average, of those that have started."""
    return duration(line.wait_ms / line.started) if line.started else "-"
