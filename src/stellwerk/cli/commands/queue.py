"""`stw queue`: who waits, in which order, and for what."""

from itertools import count

import click

from stellwerk.cli.output import Output, list_options, write_list
from stellwerk.cli.render.units import plural
from stellwerk.cli.render.workloads import queue_columns
from stellwerk.cli.session import connect, forecasts, now_ms, parse_labels
from stellwerk.cli.watching import watched
from stellwerk.client.wire import Row

WAITING = {"Pending", "Held"}


@click.command("queue", epilog="Example: stw queue -o wide")
@click.argument("queue", required=False)
@click.option(
    "-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="With this label."
)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@list_options
def command(queue: str | None, labels: tuple[str, ...], watch: bool, output: Output) -> None:
    """List what waits, first in line first, and why."""
    client = connect()

    def show() -> None:
        rows = client.list(labels=parse_labels(labels))
        lines = numbered(waiting_in_order(rows, queue))
        running = [row for row in rows if row.phase not in WAITING]
        if output.for_people:
            write_list(
                lines,
                queue_columns(now_ms(), forecasts(client) if lines else {}),
                output,
                name=lambda line: line[1].name,
                empty=f"nothing waits in queue {queue}" if queue else "nothing waits",
                then=_then([row for _, row in lines], len(running)),
            )
        else:
            write_list([row for _, row in lines], [], output, name=lambda row: row.name or row.id)

    watched(client, show) if watch else show()


def waiting_in_order(rows: tuple[Row, ...], queue: str | None) -> list[Row]:
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
