"""`stw reserve make|list|show|cancel`: room that is promised to somebody for times to come."""

from datetime import datetime, timedelta

import click

from stellwerk.cli.commands.cluster_course import read_time
from stellwerk.cli.errors import usage
from stellwerk.cli.output import Output, list_options, narrate, one_options, write_list, write_one
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect, now_ms, remembered
from stellwerk.core.model.draining import moment
from stellwerk.core.model.quantity import BadQuantity, parse_duration
from stellwerk.core.model.reservations import (
    HOLDERS,
    MOST_SPANS,
    Holder,
    ReservationNow,
    Span,
    Wanted,
)

TIMES_SHOWN = 4


def complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of reservations for a shell's completion."""
    known = remembered(
        "reservations", lambda client: [one.reservation.name for one in client.reservations()]
    )
    return [name for name in known if name.startswith(incomplete)]


@click.group(
    "reserve",
    epilog="Example: stw reserve make exam --gpus 8 --for queue:exam --from 09:00 --lasting 2h",
)
def command() -> None:
    """Promise somebody room for a time to come, or look at what is promised.

    Work of others that would still run then isn't started there, unless it goes on from its
    checkpoints and can be stopped in time; the holder's work starts inside. On a server of several
    people administrators make and cancel reservations, and everybody sees them.
    """


@command.command(
    "make",
    epilog="Example: stw reserve make exam --gpus 8 --on k017 --for queue:exam "
    "--from 2026-12-10T09:00 --lasting 2h",
)
@click.argument("name")
@click.option("--gpus", type=click.IntRange(1), help="So many cards, with their part of the node.")
@click.option("--nodes", type=click.IntRange(1), help="So many whole nodes.")
@click.option("--cpus", type=click.IntRange(1), help="So many CPUs, with their part of the memory.")
@click.option("--kind", default="", metavar="A100", help="Cards of this kind, or nodes with them.")
@click.option("--on", "clusters", multiple=True, metavar="CLUSTER", help="There, or there (any).")
@click.option(
    "--for", "holder", required=True, metavar="queue:NAME", help="Or project:NAME, or person:NAME."
)
@click.option(
    "--from", "begins", required=True, metavar="TIME",
    help="When it begins: 14:00, 2026-12-10T09:00 (local), or with a zone: …T09:00+01:00.",
)  # fmt: skip
@click.option("--until", metavar="TIME", help="When it ends.")
@click.option("--lasting", metavar="2h", help="How long it lasts.")
@click.option(
    "--weekly", type=click.IntRange(1, MOST_SPANS), default=1, metavar="N",
    help="So many times, always a week later at the same time of day.",
)  # fmt: skip
@click.option(
    "--release", default="30m", show_default=True, metavar="30m",
    help="Give a time up after so long in which nothing of the holder's started; 0: never.",
)  # fmt: skip
@one_options
def make(
    name: str,
    gpus: int | None,
    nodes: int | None,
    cpus: int | None,
    kind: str,
    clusters: tuple[str, ...],
    holder: str,
    begins: str,
    until: str | None,
    lasting: str | None,
    weekly: int,
    release: str,
    output: Output,
) -> None:
    """Promise room to a queue, a project or a person, from one time until another.

    What can't be kept is refused, with what there is: nodes that can't be used, what is promised to
    others then, runs that are protected for longer. It counts against nobody's quota; work that
    starts inside counts as any work does, and needs its quota.
    """
    wanted = Wanted(nodes or 0, gpus or 0, 1000 * (cpus or 0), kind, clusters)
    from_ms = read_time(begins, now_ms())
    spans = _weekly(from_ms, _ends(from_ms, until, lasting), weekly)
    release_ms = 0 if release == "0" else _duration(release, "--release")
    made = connect().reserve(name, _holder(holder), wanted, spans, release_ms)
    write_one(made, _lines(made), output, name=name)
    if output.for_people:
        narrate(f"next: stw reserve show {name}, or: stw reserve cancel {name}")


def _holder(written: str) -> Holder:
    kind, _, name = written.partition(":")
    found = next((one for one in HOLDERS if one == kind), None)
    if found is None or not name:
        message = f"`{written}` says nobody whose work may use it"
        raise usage("usage/holder", message, "write queue:NAME, project:NAME or person:NAME")
    return Holder(found, name)


def _duration(written: str, option: str) -> int:
    found = parse_duration(written)
    if isinstance(found, BadQuantity):
        raise usage("usage/duration", f"{option}: {found.message}", found.help)
    return found


def _ends(from_ms: int, until: str | None, lasting: str | None) -> int:
    if bool(until) == bool(lasting):
        raise usage("usage/duration", "when it ends isn't said once", "give --until or --lasting")
    if lasting:
        return from_ms + _duration(lasting, "--lasting")
    return read_time(until or "", from_ms)


def _weekly(from_ms: int, until_ms: int, times: int) -> list[Span]:
    """The same time of day each week, also where clocks are put forward or back between."""
    local = [datetime.fromtimestamp(one / 1000) for one in (from_ms, until_ms)]  # noqa: DTZ006
    spans = []
    for week in range(times):
        later = [one + timedelta(days=7 * week) for one in local]
        spans.append(Span(*(int(one.astimezone().timestamp() * 1000) for one in later)))
    return spans


@command.command("list", epilog="Example: stw reserve list")
@list_options
def list_them(output: Output) -> None:
    """List all reservations, those that begin first at the top."""
    columns = [
        Column[ReservationNow]("name", "NAME", lambda one: one.reservation.name),
        Column[ReservationNow]("what", "WHAT", lambda one: str(one.reservation.wanted)),
        Column[ReservationNow]("where", "WHERE", lambda one: one.reservation.cluster),
        Column[ReservationNow]("for", "FOR", lambda one: str(one.reservation.holder)),
        Column[ReservationNow](
            "from", "FROM", lambda one: moment(one.reservation.spans[0].from_ms)
        ),
        Column[ReservationNow](
            "until", "UNTIL", lambda one: moment(one.reservation.spans[0].until_ms)
        ),
        Column[ReservationNow]("times", "TIMES", lambda one: str(len(one.reservation.spans))),
        Column[ReservationNow]("state", "STATE", _state),
    ]
    write_list(
        list(connect().reservations()), columns, output,
        name=lambda one: one.reservation.name, empty="nothing is reserved: stw reserve make --help",
    )  # fmt: skip


def _state(one: ReservationNow) -> str:
    if one.reservation.broken:
        return "can't be kept"
    return "open" if one.open else "to come"


@command.command("show", epilog="Example: stw reserve show exam")
@click.argument("name", shell_complete=complete_names)
@one_options
def show(name: str, output: Output) -> None:
    """Show a reservation: its nodes and times, who runs in it, and who is stopped for it."""
    found = connect().reservation(name)
    write_one(found, _lines(found), output, name=name)


@command.command("cancel", epilog="Example: stw reserve cancel exam")
@click.argument("name", shell_complete=complete_names)
@one_options
def cancel(name: str, output: Output) -> None:
    """Give a reservation up. What runs in it goes on, and its room is anybody's."""
    found = connect().cancel_reservation(name)
    write_one(found, [f"{name} is cancelled"], output, name=name)


def _lines(now: ReservationNow) -> list[str]:
    one = now.reservation
    nodes = ", ".join(part.node for part in one.parts)
    lines = [
        f"{one.name}: {one.wanted} of {one.cluster} ({nodes}) for {one.holder}, by {one.actor}",
        *(f"from {moment(s.from_ms)} until {moment(s.until_ms)}" for s in one.spans[:TIMES_SHOWN]),
    ]
    more = len(one.spans) - TIMES_SHOWN
    if more > 0:
        lines.append(f"and {more} times more, until {moment(one.spans[-1].until_ms)}")
    if now.note:
        lines.append(f"note: {now.note}")
    if one.broken:
        lines.append(f"can't be kept as things are: {one.broken}")
    if now.running:
        what = "running in it" if now.open else "of its holder and there already"
        lines.append(f"{what}: {', '.join(now.running)}")
    if now.leaving:
        lines.append(f"has to go before it begins, and is told in time: {', '.join(now.leaving)}")
    return lines
