"""`stw explain`: the decision behind where a workload is, or why it waits."""

from collections.abc import Sequence

import click
from msgspec import structs

from stellwerk.cli import family
from stellwerk.cli.errors import NOT_FOUND, CommandError
from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.render.ahead import start_line
from stellwerk.cli.render.explain import lines_of
from stellwerk.cli.session import complete_names, connect, forecasts, now_ms
from stellwerk.client.api import Client
from stellwerk.client.wire import ENDED, Explained, RunView


@click.command("explain", epilog="Example: stw explain digits --run 1")
@click.argument("name", shell_complete=complete_names)
@click.option("--run", type=click.IntRange(1), metavar="N", help="The decision of this run.")
@one_options
def command(name: str, run: int | None, output: Output) -> None:
    """Say why it is here and not there, or why it waits, and what would change that.

    Of what waits also when it could start, and who holds what it waits for.
    """
    client = connect()
    explained = client.explain(name, run)
    if run is not None:
        explained = _of_run(explained, run, client.get(explained.id or name).runs)
    lines = lines_of(explained, output.terminal(), now_ms())
    if output.for_people and explained.phase == "Pending":
        starts = forecasts(client, explained.id or name)
        lines += [start_line(found, now_ms()) for found in starts.values()]
    write_one(explained, lines, output, name=explained.name)
    if output.for_people:
        for line in _later_ones(client, name, explained):
            narrate(line)
        narrate(f"next: stw show {explained.name}")


def _later_ones(client: Client, name: str, explained: Explained) -> list[str]:
    """What else has this name by now, where what it names is over."""
    is_over = explained.phase in ENDED and name == explained.name
    return family.later_ones(client, name, client.get(explained.id or name)) if is_over else []


def _of_run(explained: Explained, number: int, runs: Sequence[RunView]) -> Explained:
    """The answer for one run: of an older one the reasons are those of its own end."""
    run = next((one for one in runs if one.number == number), None)
    if run is None:
        there = "it hasn't run yet"
        if runs:
            last = runs[-1].number
            there = f"it has runs 1 to {last}" if last > 1 else "it has run 1"
        what = f"{explained.name} has no run {number}"
        raise CommandError("find/run", what, there, exit_code=NOT_FOUND)
    if run is runs[-1]:
        return explained
    return structs.replace(explained, reasons=[run.reason] if run.reason else [])
