"""`stw calendar import|show|test|override|rm`: when clusters may be used."""

import sys
from datetime import datetime
from pathlib import Path

import click

from stellwerk.cli.commands.cluster_course import read_time
from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.errors import usage
from stellwerk.cli.output import Output, list_options, narrate, one_options, write_list, write_one
from stellwerk.cli.render.calendar import timeline
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect, now_ms
from stellwerk.core.model.calendars import (
    FOREVER_MS,
    CalendarNow,
    Means,
    OverrideWish,
    SourceWish,
    Window,
)
from stellwerk.core.model.draining import moment

DAYS = 7
NODES = "Of some nodes alone: pc-01,pc-02 or pc-0* or row=window."


@click.group(
    "calendar", epilog="Example: stw calendar import lectures.ics --on k017 --zone Europe/Berlin"
)
def command() -> None:
    """Say when a cluster may be used: lecture calendars, weekly rules, exceptions.

    Work starts there only where it is over before the window closes, by its time limit or by what
    work like it took, or where it goes on from its checkpoints and can be stopped in time. What
    still runs gets notice so early that its grace and copying end before. On a server of several
    people administrators change calendars, and everybody sees them.
    """


@command.command(
    "import",
    epilog="Example: stw calendar import lectures.ics --on k017   "
    "stw calendar import --rules 'sun-fri 18:00-08:00, sat-sun' --on k017",
)
@click.argument("source", required=False)
@click.option(
    "--on", "cluster", required=True, metavar="CLUSTER", help="The cluster or room that it is of.",
    shell_complete=complete_clusters,
)  # fmt: skip
@click.option("--rules", default="", metavar="RULES", help="When it is open each week, as rules.")
@click.option("--open", "opens", is_flag=True, help="Events say when it is open, not when closed.")
@click.option("--closed", is_flag=True, help="Rules say when it is closed, not when open.")
@click.option("--zone", default="UTC", metavar="Europe/Berlin", help="Of times that name none.")
@click.option("--nodes", default="", metavar="NODES", help=NODES)
@click.option("--name", default="", help="Of several sources; the same name replaces one.")
@click.option("--only", is_flag=True, help="Replace all sources that there are.")
@click.option("--private", is_flag=True, help="Allow addresses that aren't on the internet.")
@one_options
def import_(
    source: str | None,
    cluster: str,
    rules: str,
    opens: bool,
    closed: bool,
    zone: str,
    nodes: str,
    name: str,
    only: bool,
    private: bool,
    output: Output,
) -> None:
    """Import an iCalendar file, or an address (read again later on), or weekly rules.

    Several sources add up: open in all times of rules, less all lectures. If an address can't be
    read later, the last good calendar holds, and `stw calendar show` says how old it is.
    """
    if bool(source) == bool(rules):
        message = "a calendar comes from a file, an address, or --rules: one of them"
        raise usage("usage/calendar", message, "stw calendar import FILE --on CLUSTER")
    means: Means = "open" if (opens or rules) and not closed else "closed"
    address = source if source and "://" in source else ""
    text = _text(source) if source and not address else ""
    name = name or (Path(source).name if source and not address else "")
    wish = SourceWish(rules, text, address, name, means, zone, private, only, nodes)
    found = connect().import_calendar(cluster, wish)
    write_one(found, _lines(found, DAYS, output), output, name=cluster)
    if output.for_people:
        narrate(f"next: stw calendar show {cluster}, or: stw calendar override {cluster} closed")


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read()
        return Path(file).read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise usage("usage/file", f"{file}: {error.strerror}", "name an .ics file") from error


@command.command("show", epilog="Example: stw calendar show k017 --days 14")
@click.argument("cluster", required=False, shell_complete=complete_clusters)
@click.option("--days", type=click.IntRange(1, 14), default=DAYS, show_default=True)
@list_options
def show(cluster: str | None, days: int, output: Output) -> None:
    """Show when a cluster may be used in the next days, as a timeline; without one, list all."""
    if cluster:
        found = connect().calendar(cluster)
        write_one(found, _lines(found, days, output), output, name=cluster)
        return
    columns = [
        Column[CalendarNow]("cluster", "CLUSTER", lambda one: one.calendar.cluster),
        Column[CalendarNow]("state", "STATE", lambda one: "open" if one.open else "closed"),
        Column[CalendarNow]("next", "NEXT", _next),
        Column[CalendarNow]("sources", "FROM", _sources),
    ]
    write_list(
        list(connect().calendars()), columns, output,
        name=lambda one: one.calendar.cluster,
        empty="every cluster is always open: stw calendar import --help",
    )  # fmt: skip


def _sources(one: CalendarNow) -> str:
    return ", ".join(source.name for source in one.calendar.sources) or "exceptions alone"


def _next(one: CalendarNow) -> str:
    if one.open:
        return f"closes {moment(one.closes_ms)}" if 0 < one.closes_ms < FOREVER_MS else "stays open"
    return f"opens {moment(one.opens_ms)}" if one.opens_ms < FOREVER_MS else "doesn't open"


def _lines(one: CalendarNow, days: int, output: Output) -> list[str]:
    state = "open" if one.open else "closed"
    lines = [f"{one.calendar.cluster} is {state}; it {_next(one)}"]
    lines += timeline(one.calendar.windows, now_ms(), days, None, ascii_only=output.ascii_only)
    for part in one.calendar.parts:
        lines.append(f"nodes {part.nodes}")
        lines += timeline(part.windows, now_ms(), days, None, ascii_only=output.ascii_only)
    for source in one.calendar.sources:
        what = source.text if source.kind == "weekly" else "calendar"
        lines.append(f"{source.means}{_on(source.nodes)}: {source.name} ({what}, {source.zone})")
    for each in one.calendar.overrides:
        why = f": {each.why}" if each.why else ""
        span = f"{moment(each.from_ms)} until {moment(each.until_ms)}"
        lines.append(f"{each.means}{_on(each.nodes)} for once: {span}, by {each.actor}{why}")
    return [*lines, *(f"stale: {each}" for each in one.stale)]


def _on(nodes: str) -> str:
    return f" on {nodes}" if nodes else ""


@command.command("test", epilog="Example: stw calendar test lectures.ics --zone Europe/Berlin")
@click.argument("file")
@click.option("--zone", default="UTC", metavar="Europe/Berlin", help="Of times that name none.")
@click.option("--days", type=click.IntRange(1, 14), default=DAYS, show_default=True)
@one_options
def test(file: str, zone: str, days: int, output: Output) -> None:
    """Say what a file would be read as, or everything that is wrong with it and where.

    Nothing is changed, and no server is asked.
    """
    from stellwerk.core.data.weekly import horizon_ms
    from stellwerk.engine.ical import read, zone_of

    meant = zone_of(zone)
    found = read(_text(file), file, meant, now_ms(), horizon_ms(now_ms()))
    lines = [f"{file}: {found.events} events that matter in the next two weeks", *found.notes]
    spans: list[Window] = found.spans
    lines += timeline(spans, now_ms(), days, meant, ascii_only=output.ascii_only)
    for one in found.happenings[:20]:
        begin, end = (
            datetime.fromtimestamp(at / 1000, meant) for at in (one.from_ms, one.until_ms)
        )
        lines.append(f"{begin:%a %d %b %H:%M} - {end:%a %H:%M}  {one.what}")
    if len(found.happenings) > 20:
        lines.append(f"and {len(found.happenings) - 20} more")
    write_one(found, lines, output, name=file)


@command.command(
    "override", epilog="Example: stw calendar override k017 open --until 18:00 --why 'no lectures'"
)
@click.argument("cluster", shell_complete=complete_clusters)
@click.argument("means", type=click.Choice(["open", "closed"]))
@click.option("--from", "begins", metavar="TIME", help="When it begins: 14:00 (now, if not said).")
@click.option("--until", metavar="TIME", required=True, help="When it ends: 18:00.")
@click.option("--nodes", default="", metavar="NODES", help=NODES)
@click.option("--why", default="", help="Said beside it.")
@one_options
def override(
    cluster: str,
    means: Means,
    begins: str | None,
    until: str,
    nodes: str,
    why: str,
    output: Output,
) -> None:
    """Open or close a cluster for once; of several that overlap the last one made counts."""
    from_ms = read_time(begins, now_ms()) if begins else now_ms()
    wish = OverrideWish(from_ms, read_time(until, from_ms), means, why, nodes)
    found = connect().override_calendar(cluster, wish)
    write_one(found, _lines(found, DAYS, output), output, name=cluster)


@command.command("rm", epilog="Example: stw calendar rm k017")
@click.argument("cluster", shell_complete=complete_clusters)
@one_options
def rm(cluster: str, output: Output) -> None:
    """Remove a cluster's calendar: it may be used at any time."""
    found = connect().remove_calendar(cluster)
    write_one(found, [f"{cluster} may be used at any time"], output, name=cluster)
