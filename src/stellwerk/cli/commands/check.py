"""`stw check`: answers an admission check for a workload that has its quota and waits for it."""

import click

from stellwerk.cli.output import Output, list_options, write_list
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import complete_live, connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.wire import Changed

WORDS = {"ready": "Ready", "retry": "Retry", "rejected": "Rejected", "pending": "Pending"}
COLUMNS: list[Column[Changed]] = [
    Column("name", "NAME", lambda changed: changed.name),
    Column("id", "ID", lambda changed: changed.id, wide=True),
    Column("phase", "PHASE", lambda changed: phase_cell(changed.phase)),
]


@click.command("check", epilog="Example: stw check train budget ready -m 'within 400 h'")
@click.argument("name", shell_complete=complete_live)
@click.argument("check")
@click.argument("answer", type=click.Choice(list(WORDS)))
@click.option("-m", "--message", default="", metavar="TEXT", help="Why; it is told and kept.")
@click.option("--after", default=None, metavar="5m", help="With retry: put it back for so long.")
@list_options
def command(
    name: str, check: str, answer: str, message: str, after: str | None, output: Output
) -> None:
    """Say for an admission check whether a workload may start.

    A queue with admission checks gives a workload its quota and room first; it starts when all of
    them are ready. `retry` gives both back, and it waits longer each time; `rejected` holds it
    until it is released. Said of what runs already, both end the run with notice. Administrators
    of the server may answer. `stw show` tells which checks a workload waits for.
    """
    wait_ms = 0
    if after is not None:
        from stellwerk.core.describe.overrides import read_flag

        wait_ms = int(read_flag("time-limit", after))
    client = connect()
    changed = client.set_check(name, check, WORDS[answer], message=message, retry_after_ms=wait_ms)
    if output.format == "table":
        Narrator().say(f"{changed.name}: check {check} is {WORDS[answer]} ({changed.phase})")
        return
    write_list([changed], COLUMNS, output, name=lambda one: one.name)
