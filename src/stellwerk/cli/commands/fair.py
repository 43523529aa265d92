"""`stw fair`: who had which share over time, what was borrowed and lent."""

import click

from stellwerk.cli.commands.usage import since_when
from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.render.fair import lines_of
from stellwerk.cli.session import connect, now_ms


@click.command("fair", epilog="Example: stw fair --since 7d")
@click.option("--since", metavar="WHEN", help="From then on: 2026-11-01, 2026-11, 30d, 12h.")
@one_options
def command(since: str | None, output: Output) -> None:
    """Show the share of each cohort, queue and person over time, what was borrowed and lent.

    HELD are resources times hours that runs held quota. What was borrowed and lent is told by the
    quota of now. For dashboards the same stands at /metrics, in the words of Kueue.
    """
    since_ms = since_when(since, now_ms()) if since else 0
    found = connect().fair(since_ms=since_ms)
    write_one(found, lines_of(found, output.terminal()), output)
    if output.for_people and found.queues:
        narrate("next: stw quota, stw usage")
