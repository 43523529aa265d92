"""`stw move`: a job goes on at another place, from what it has saved."""

import click

from stellwerk.cli.completing import complete_nodes
from stellwerk.cli.errors import usage
from stellwerk.cli.output import narrate
from stellwerk.cli.session import complete_live, connect


@click.command(
    "move", epilog="Example: stw move digits --to server   stw move digits --to k017/pc03"
)
@click.argument("name", shell_complete=complete_live)
@click.option(
    "--to",
    "place",
    required=True,
    metavar="CLUSTER[/NODE]",
    shell_complete=complete_nodes,
    help="The cluster where it is to go on, or one node of it.",
)
def command(name: str, place: str) -> None:
    """Have a job that runs save, and go on at another place.

    It gets notice with its grace, its checkpoint is copied, and its next run is there. Where it
    can't run there now nothing is stopped.
    """
    cluster, slash, node = place.replace(":", "/").partition("/")
    if not cluster or (slash and not node):
        raise usage("usage/place", f"`{place}` names no place", "write CLUSTER or CLUSTER/NODE")
    changed = connect().move(name, cluster, node)
    narrate(f"{changed.name} was told to save; it goes on at {cluster}{slash}{node}")
    narrate(f"next: stw story {changed.name}")
