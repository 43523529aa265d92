"""`stw queue`: who waits, in which order, and for what."""

import shlex
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import click

from stellwerk.cli.completing import complete_queues
from stellwerk.cli.errors import NOT_FOUND, CommandError
from stellwerk.cli.output import (
    Output,
    limit_option,
    list_options,
    most_of,
    narrate,
    write_lines,
    write_list,
)
from stellwerk.cli.render.standing import queue_lines
from stellwerk.cli.render.units import plural
from stellwerk.cli.render.workloads import queue_columns
from stellwerk.cli.session import NAMES, connect, forecasts, now_ms, parse_labels
from stellwerk.cli.watching import watched
from stellwerk.client.ahead import Forecast
from stellwerk.client.api import Client
from stellwerk.client.parts import list_query
from stellwerk.client.queueing import LineItem, QueueRow
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Row
from stellwerk.core.model.reasons import RenderedReason

DEFAULT_QUEUE = "default"
WAITING = {"Pending", "Held"}
RUNNING = ("Starting", "Dispatched", "SettingUp", "Running", "Stopping")


@click.command("queue", epilog="Example: stw queue vision -o wide")
@click.argument("queue", required=False, shell_complete=complete_queues)
@click.option(
    "-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="With this label."
)
@click.option("-u", "--user", metavar="USER", help="Of this person.")
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@limit_option
@list_options
def command(
    queue: str | None,
    labels: tuple[str, ...],
    user: str | None,
    watch: bool,
    limit: int | None,
    output: Output,
) -> None:
    """List what waits, first in line first, and why, and who holds what it lacks.

    QUEUE is a LocalQueue, or a ClusterQueue with all that lead to it: then its quota stands above.
    """
    client = connect()
    chosen = parse_labels(labels)
    same = [*([queue] if queue else []), *(part for one in labels for part in ("-l", one))]
    same += ["-u", user] if user else []
    most = most_of(limit, output)

    def show() -> None:
        # A place counts all that wait: those with a label are chosen only when all have theirs.
        doors = doors_of(client, queue) if queue else Doors()
        several = len(doors.names) > 1
        wanted = None if several else queue
        query = list_query(phase=sorted(WAITING), queue=wanted, in_line=True)
        whole = bool(output.sort or chosen or user or several)
        found = client.listing(query, limit=None if whole else most, total=True)
        if queue and not found.items and doors.row is None:
            _check_queue(client, queue)
        lines = numbered(waiting_in_order(found.items, doors.names if several else queue))
        lines = [line for line in lines if chosen.items() <= line[1].labels.items()]
        lines = [line for line in lines if user in {None, line[1].owner}]
        if output.for_people:
            _tell_queue(client, doors, output)
            write_list(
                lines,
                queue_columns(now_ms(), *(_ahead(client) if lines else ({}, {}))),
                output,
                name=lambda line: line[1].name,
                empty=_nothing(queue, labels, user),
                then=_then([row for _, row in lines], _running(client)),
                most=most,
                total=len(lines) if chosen or user or several else found.total,
                rest=shlex.join(["stw", "queue", *same, "--limit", "0"]),
            )
        else:
            write_list(
                _with_all(client, [row for _, row in lines[:most]], output),
                [],
                output,
                name=lambda row: row.name or row.id,
                most=most,
            )

    watched(client, show) if watch else show()


class Doors(NamedTuple):
    """The queues that work names to get to what was asked for, and the ClusterQueue behind them."""

    names: tuple[str, ...] = ()
    row: QueueRow | None = None


class Waits(Row, kw_only=True):
    """A row with all that is known of what it waits for; what lies far back has none of it."""

    reasons: tuple[RenderedReason, ...] = ()
    held_by: tuple[str, ...] = ()
    more_holders: int = 0
    forecast: Forecast | None = None


def _with_all(client: Client, rows: Sequence[Row], output: Output) -> Sequence[Row]:
    """What programs read has every reason, who holds what is lacking, and the forecast too."""
    if output.format == "name" or not rows:
        return rows
    starts, told = _ahead(client)
    found = []
    for row in rows:
        line = told.get(row.id, LineItem(row.id))
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        found.append(
            Waits(
                **fields,
                reasons=tuple(line.reasons),
                held_by=tuple(line.held_by),
                more_holders=line.more_holders,
                forecast=starts.get(row.id),
            )
        )
    return found


def _tell_queue(client: Client, doors: Doors, output: Output) -> None:
    """The queue's own lines: above the list on a terminal, beside it where that is read on."""
    if doors.row is None:
        return
    lines = queue_lines(doors.row, client.quota(doors.row.name))
    if output.terminal().is_tty:
        write_lines(lines)
    else:
        for line in lines:
            narrate(line)


def doors_of(client: Client, queue: str) -> Doors:
    """A ClusterQueue of that name, or the one that a LocalQueue leads to."""
    try:
        rows = client.cluster_queues()
    except ApiError:
        return Doors((queue,))
    row = next((one for one in rows if one.name == queue), None)
    if row is not None:
        short = (key.removeprefix("default/") for key in row.local_queues)
        return Doors(tuple(dict.fromkeys((queue, *short, *row.local_queues))), row)
    keys = {queue, f"default/{queue}"}
    behind = next((one for one in rows if keys & {*one.local_queues}), None)
    return Doors((queue,), behind)


def _ahead(client: Client) -> tuple[dict[str, Forecast], dict[str, LineItem]]:
    """When those in line could start, and all that is told of what they wait for."""
    try:
        told = {one.id: one for one in client.line()}
    except ApiError:
        told = {}
    return forecasts(client), told


def _check_queue(client: Client, queue: str) -> None:
    """Raises if nothing ever was in a queue of this name; says which one may be meant."""
    from difflib import get_close_matches

    ever = list_query(all=True, queue=queue)
    if queue == DEFAULT_QUEUE or client.listing(ever, limit=1).items:
        return
    known = list(dict.fromkeys([DEFAULT_QUEUE, *(row.queue for row in client.list(limit=NAMES))]))
    there_are = f"is only `{known[0]}`" if len(known) == 1 else f"are {', '.join(known)}"
    close = get_close_matches(queue, known, 1)
    raise CommandError(
        "find/queue",
        f"there is no queue `{queue[:80]}`; there {there_are}",
        f"did you mean `{close[0]}`?" if close else "stw queue lists all that waits",
        exit_code=NOT_FOUND,
    )


def _nothing(queue: str | None, labels: Sequence[str], user: str | None) -> str:
    whose = f" of {user}" if user else ""
    where = f" in queue {queue}" if queue else ""
    return f"nothing{whose} waits{where}{' with ' + ', '.join(labels) if labels else ''}"


def _running(client: Client) -> int:
    """How many have a run, without reading them all."""
    found = client.listing(list_query(phase=RUNNING), limit=1, total=True)
    return len(found.items) if found.total is None else found.total


def waiting_in_order(rows: Sequence[Row], queue: str | tuple[str, ...] | None) -> list[Row]:
    """The waiting of all queues or of some: higher priority first, then who came first."""
    of = (queue,) if isinstance(queue, str) else queue
    chosen = [row for row in rows if row.phase in WAITING and (of is None or row.queue in of)]
    return sorted(chosen, key=lambda row: (-row.priority, row.submitted_ms, row.id))


def numbered(waiting: list[Row]) -> list[tuple[int, Row]]:
    """Their places in line; what somebody holds back stands in none."""
    places = count(1)
    return [(next(places) if row.phase == "Pending" else 0, row) for row in waiting]


def _then(waiting: list[Row], running: int) -> str:
    verb = f"stw explain {waiting[0].name}" if waiting else "stw ps"
    return f"{plural(running, 'workload')} running.   next: {verb}"
