"""`stw cluster token`: makes, lists and takes back tokens with which machines dial in."""

import click

from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.errors import usage
from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.session import connect
from stellwerk.client.machines import JoinToken, JoinTokenList
from stellwerk.core.model.draining import moment


@click.command("token", epilog="Example: stw cluster token lab --ttl 2h")
@click.argument("cluster", shell_complete=complete_clusters)
@click.option("--ttl", default="24h", show_default=True, metavar="24h", help="How long it holds.")
@click.option("--ls", "lists", is_flag=True, help="List tokens, and machines that have joined.")
@click.option(
    "--revoke", metavar="ID|NODE|all", help="Take back a token, a machine's secret, or all."
)
@one_options
def command(cluster: str, ttl: str, lists: bool, revoke: str | None, output: Output) -> None:
    """Make a token with which machines that nobody can dial join a cluster.

    It is shown once. Each machine gets a secret of its own with it, so it may end soon; what has
    joined stays until it is taken back.
    """
    client = connect()
    if revoke is not None:
        gone = client.revoke_join(cluster, revoke)
        write_one(gone, [f"taken back: {', '.join(gone.gone) or 'nothing'}"], output, name=cluster)
    elif lists:
        found = client.join_tokens(cluster)
        write_one(found, _listed(found), output, name=cluster)
    else:
        made = client.make_join_token(cluster, _ms(ttl))
        write_one(made, [made.token], output, name=made.id)
        if output.for_people:
            _tell(made)


def _ms(written: str) -> int:
    from stellwerk.core.model.quantity import BadQuantity, parse_duration

    found = parse_duration(written)
    if isinstance(found, BadQuantity):
        raise usage("usage/duration", f"`{written}` is no time: {found.message}", found.help)
    return found


def _listed(found: JoinTokenList) -> list[str]:
    tokens = [
        f"token {one.id} by {one.actor or 'somebody'}, until {moment(one.until_ms)}"
        for one in found.tokens
    ]
    machines = [f"{one.node} joined {moment(one.joined_ms)}" for one in found.machines]
    return [*tokens, *machines] or ["no token holds, and no machine has joined"]


def _tell(made: JoinToken) -> None:
    narrate(
        f"token {made.id} of {made.cluster}, until {moment(made.until_ms)}; it isn't shown again"
    )
    if not made.url:
        narrate("nobody can dial in yet: set `join_listen`, and start the server again")
        return
    narrate("on the machine, where Stellwerk is installed:")
    narrate(f"  stw join {made.url} --token-file -")
    narrate("and where it isn't, with any Python from 3.9 on:")
    narrate(f"  curl -fsSO {made.url}/runtime.pyz")
    narrate(f"  python3 runtime.pyz join {made.url} --token-file -")
