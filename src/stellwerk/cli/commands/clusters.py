"""`stw clusters`: what there is, and what is free; and all that is known of one."""

import click

from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.output import Output, list_options, narrate, one_options, write_list, write_one
from stellwerk.cli.render.cluster_facts import lines_of
from stellwerk.cli.render.clusters import columns
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.watching import watched


@click.group(
    "clusters",
    invoke_without_command=True,
    epilog="Example: stw clusters -o json   or: stw clusters show atlas",
)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@list_options
@click.pass_context
def command(ctx: click.Context, watch: bool, output: Output) -> None:
    """List the places that can run work: what is free, and how old that knowledge is.

    Clusters that a fleet file declares and that no driver here reaches are `declared`.
    """
    if ctx.invoked_subcommand is not None:
        return
    client = connect()

    def show() -> None:
        write_list(
            client.clusters(),
            columns(now_ms()),
            output,
            name=lambda one: one.name,
            empty="no cluster has been looked at yet",
            then="next: stw clusters show NAME, or: stw gpu",
        )

    watched(client, show) if watch else show()


@command.command("show", epilog="Example: stw clusters show atlas -o yaml")
@click.argument("name", shell_complete=complete_clusters)
@one_options
def show(name: str, output: Output) -> None:
    """Show all that is known of a cluster: each fact with who said it, and how old that is."""
    page = connect().cluster(name)
    write_one(page, lines_of(page, output.terminal(), now_ms()), output, name=name)
    if output.for_people:
        narrate("next: stw placement, or: stw gpu")
