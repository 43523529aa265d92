"""`stw show`: everything about one workload."""

import click

from stellwerk.cli import family
from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.render.show import lines_of
from stellwerk.cli.session import complete_names, connect, now_ms
from stellwerk.client.wire import Show


@click.command("show", epilog="Example: stw show digits -o json")
@click.argument("name", shell_complete=complete_names)
@one_options
def command(name: str, output: Output) -> None:
    """Show a workload: how it is, why, its runs, its files, its timeline."""
    client = connect()
    show = client.get(name)
    write_one(show, lines_of(show, output.terminal(), now_ms()), output, name=show.name)
    if output.for_people:
        for line in [*family.later_ones(client, name, show), f"next: {_next(show)}"]:
            narrate(line)


def _next(show: Show) -> str:
    if show.phase in {"Pending", "Held"} or not show.can_read:
        return f"stw explain {show.name}"
    if not show.ended:
        return f"stw logs -f {show.name}"
    if show.phase == "Succeeded":
        return f"stw ls {show.name} outputs:   or: stw logs {show.name}"
    if any(reason.code == "time_limit" for reason in show.reasons):
        return f"stw rerun {show.name} --resume   or: stw logs {show.name}"
    again = f"the same code again: stw rerun {show.name}"
    if show.phase == "Failed":
        again = f"once it is mended, `stw run` it; {again}"
    return f"stw logs {show.name}   or, {again}"
