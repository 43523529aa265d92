"""`stw queue`: who waits, in which order, and for what."""

import shlex
from collections.abc import Sequence
from itertools import count

import click

from stellwerk.cli.completing import complete_queues
from stellwerk.cli.errors import NOT_FOUND, CommandError
from stellwerk.cli.output import Output, limit_option, list_options, most_of, write_list
from stellwerk.cli.render.units import plural
from stellwerk.cli.render.workloads import queue_columns
from stellwerk.cli.session import NAMES, connect, forecasts, now_ms, parse_labels
from stellwerk.cli.watching import watched
from stellwerk.client.api import Client
from stellwerk.client.parts import list_query
from stellwerk.client.wire import Row

DEFAULT_QUEUE = "default"
WAITING = {"Pending", "Held"}
RUNNING = ("Starting", "Dispatched", "SettingUp", "Running", "Stopping")


@click.command("queue", epilog="Example: stw queue -o wide")
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
    """List what waits, first in line first, and why."""
    client = connect()
    chosen = parse_labels(labels)
    query = list_query(phase=sorted(WAITING), queue=queue, in_line=True)
    same = [*([queue] if queue else []), *(part for one in labels for part in ("-l", one))]
    same += ["-u", user] if user else []
    most = most_of(limit, output)

    def show() -> None:
        # A place counts all that wait: those with a label are chosen only when all have theirs.
        whole = bool(output.sort or chosen or user)
        found = client.listing(query, limit=None if whole else most, total=True)
        if queue and not found.items:
            _check_queue(client, queue)
        lines = numbered(waiting_in_order(found.items, queue))
        lines = [line for line in lines if chosen.items() <= line[1].labels.items()]
        lines = [line for line in lines if user in {None, line[1].owner}]
        if output.for_people:
            write_list(
                lines,
                queue_columns(now_ms(), forecasts(client) if lines else {}),
                output,
                name=lambda line: line[1].name,
                empty=_nothing(queue, labels, user),
                then=_then([row for _, row in lines], _running(client)),
                most=most,
                total=len(lines) if chosen or user else found.total,
                rest=shlex.join(["stw", "queue", *same, "--limit", "0"]),
            )
        else:
            write_list(
                [row for _, row in lines],
                [],
                output,
                name=lambda row: row.name or row.id,
                most=most,
            )

    watched(client, show) if watch else show()


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


def waiting_in_order(rows: Sequence[Row], queue: str | None) -> list[Row]:
    """The waiting of all queues or of one: higher priority first, then who came first."""
    chosen = [row for row in rows if row.phase in WAITING and queue in {None, row.queue}]
    return sorted(chosen, key=lambda row: (-row.priority, row.submitted_ms, row.id))


def numbered(waiting: list[Row]) -> list[tuple[int, Row]]:
    """Their places in line; what somebody holds back stands in none."""
    places = count(1)
    return [(next(places) if row.phase == "Pending" else 0, row) for row in waiting]


def _then(waiting: list[Row], running: int) -> str:
    verb = f"stw explain {waiting[0].name}" if waiting else "stw ps"
    return f"{plural(running, 'workload')} running.   next: {verb}"
