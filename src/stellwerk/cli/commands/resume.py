"""`stw resume`: takes quarantined nodes back into use."""

from collections.abc import Sequence

import click

from stellwerk.cli.completing import complete_nodes
from stellwerk.cli.errors import NOT_FOUND, CommandError, StopError, exit_code_of, lines_of
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.fleet import ClusterView, Resumed
from stellwerk.core.model.errors import StellwerkError

COLUMNS: list[Column[Resumed]] = [
    Column("cluster", "CLUSTER", lambda one: one.cluster),
    Column("node", "NODE", lambda one: one.node),
    Column("state", "STATE", lambda one: phase_cell(one.state)),
]


@click.command("resume", epilog="Example: stw resume room   stw resume room/pc07")
@click.argument(
    "places",
    nargs=-1,
    required=True,
    metavar="CLUSTER[/NODE]...",
    shell_complete=complete_nodes,
)
@list_options
def command(places: tuple[str, ...], output: Output) -> None:
    """Take nodes back into use that were quarantined because everything failed on them.

    A cluster's name means all of its quarantined nodes. `stw clusters` says why they were.
    """
    client = connect()
    clusters = client.clusters() if any("/" not in place for place in places) else ()
    wanted = dict.fromkeys(pair for place in places for pair in _nodes(place, clusters))
    resumed: list[Resumed] = []
    code = 0
    for cluster, node in wanted:
        try:
            resumed.append(client.resume_node(cluster, node))
        except StellwerkError as error:
            code = code or exit_code_of(error)
            for line in lines_of(error):
                Narrator().insist(line)
    if output.for_people:
        for one in resumed:
            narrate(f"{one.cluster}/{one.node} is {one.state}")
        narrate("next: stw clusters" if wanted else "no node there is quarantined")
    else:
        write_list(resumed, COLUMNS, output, name=lambda one: f"{one.cluster}/{one.node}")
    if code:
        raise StopError(code)


def _nodes(place: str, clusters: Sequence[ClusterView]) -> list[tuple[str, str]]:
    """The node that is named, or all quarantined ones of the cluster that is."""
    cluster, mark, node = place.partition("/")
    if mark:
        return [(cluster, node)]
    found = next((one for one in clusters if one.name == cluster), None)
    if found is None:
        known = ", ".join(one.name for one in clusters) or "none yet"
        what = f"there is no cluster `{cluster}`"
        raise CommandError("find/cluster", what, f"there is: {known}", exit_code=NOT_FOUND)
    return [(cluster, one.name) for one in found.nodes if one.state == "quarantined"]
