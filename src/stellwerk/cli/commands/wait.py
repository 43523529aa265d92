"""`stw wait`: returns when workloads have come to an end, or run."""

import time

import click

from stellwerk.cli import family
from stellwerk.cli.arrays import waited
from stellwerk.cli.errors import STILL_WAITING, StopError
from stellwerk.cli.follow import job_code
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.workloads import columns
from stellwerk.cli.session import complete_names, connect, label_of, now_ms
from stellwerk.client.wire import Row, Until


@click.command("wait", epilog="Example: stw wait sweep-1 sweep-2 --timeout 3600")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names)
@click.option(
    "--for",
    "until",
    type=click.Choice(["ended", "running"]),
    default="ended",
    help="What to wait for (default: ended).",
)
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Then exit with 8.")
@list_options
def command(names: tuple[str, ...], until: Until, timeout: float | None, output: Output) -> int:
    """Wait until workloads have ended; exit with the first code that isn't 0."""
    client = connect()
    deadline = None if timeout is None else time.monotonic() + timeout
    rows: list[Row] = []
    for name in names:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            rows += waited(client, name, until, left)
        except TimeoutError as error:
            narrate(f"still waiting: {error}")
            raise StopError(STILL_WAITING) from error
    write_list(rows, columns(now_ms()), output, name=label_of)
    if output.for_people:
        for row in rows:
            for line in family.later_ones(client, row.name if row.name in names else "", row):
                narrate(line)
    codes = [job_code(row) for row in rows if row.ended]
    return next((code for code in codes if code), 0)
