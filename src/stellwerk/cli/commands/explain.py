"""`stw explain`: the decision behind where a workload is, or why it waits."""

import click

from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.render.explain import lines_of
from stellwerk.cli.session import complete_names, connect, now_ms


@click.command("explain", epilog="Example: stw explain digits --run 1")
@click.argument("name", shell_complete=complete_names)
@click.option("--run", type=click.IntRange(1), help="The decision of this run.")
@one_options
def command(name: str, run: int | None, output: Output) -> None:
    """Say why it is here and not there, or why it waits, and what would change that."""
    explained = connect().explain(name, run)
    write_one(
        explained, lines_of(explained, output.terminal(), now_ms()), output, name=explained.name
    )
    if output.for_people:
        narrate(f"next: stw show {explained.name}")
