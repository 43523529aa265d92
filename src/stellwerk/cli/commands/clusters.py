"""`stw clusters`: what there is, and what is free."""

import click

from stellwerk.cli.output import Output, list_options, write_list
from stellwerk.cli.render.clusters import columns
from stellwerk.cli.session import connect
from stellwerk.cli.watching import watched


@click.command("clusters", epilog="Example: stw clusters -o json")
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@list_options
def command(watch: bool, output: Output) -> None:
    """List the places that can run work: what is free, and how old that knowledge is."""
    client = connect()

    def show() -> None:
        write_list(
            client.clusters(),
            columns(),
            output,
            name=lambda one: one.name,
            empty="no cluster has been looked at yet",
            then="next: stw gpu, or: stw ps",
        )

    watched(client, show) if watch else show()
