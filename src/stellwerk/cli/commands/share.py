"""`stw share`: lets others use a cluster that is one's own."""

import click

from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.session import connect


@click.command("share", epilog="Example: stw share k017 ada ben")
@click.argument("cluster", shell_complete=complete_clusters)
@click.argument("users", nargs=-1, metavar="[USER]...")
@one_options
def command(cluster: str, users: tuple[str, ...], output: Output) -> None:
    """Let exactly these users use a cluster of yours; nobody named: you alone; '*': everybody.

    Their work runs there by the login that the cluster was added with.
    """
    found = connect().share_cluster(cluster, list(users))
    if output.for_people:
        others = ", ".join("everybody" if one == "*" else one for one in found.shared)
        narrate(f"{found.cluster} of {found.owner} is used by {others or 'nobody else'}")
    else:
        write_one(found, [], output, name=found.cluster)
