"""`stw quota`: the quota tree from its roots to its queues, with what is used of it."""

import click

from stellwerk.cli.output import Output, one_options, write_one
from stellwerk.cli.render.quota import quota_lines
from stellwerk.cli.session import connect, remembered
from stellwerk.cli.watching import watched
from stellwerk.client.queueing import Quota


def complete_nodes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of queues and cohorts for a shell's completion."""
    known = remembered("quota", lambda client: [one.name for one in client.quota()])
    return [name for name in known if name.startswith(incomplete)]


@click.command("quota", epilog="Example: stw quota vision")
@click.argument("of", required=False, default="", metavar="[QUEUE]", shell_complete=complete_nodes)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@one_options
def command(of: str, watch: bool, output: Output) -> None:
    """Show who has how much, may borrow and lend how much, and what is used now.

    USED is of the node's quota with what those below it lend; CAN GET is what it could use more
    now, borrowing included. With a QUEUE (or cohort) only the way to it and what is below it.
    """
    client = connect()

    def show() -> None:
        rows = client.quota(of)
        lines = quota_lines(rows, output.terminal()) if rows else []
        write_one(Quota(list(rows)), lines or ["there are no queues: stw apply -f FILE"], output)

    watched(client, show) if watch else show()
