"""`stw resume`: takes drained and quarantined nodes back into use, as `stw cluster resume` does."""

from collections.abc import Mapping, Sequence

import click

from stellwerk.cli.completing import complete_nodes
from stellwerk.cli.errors import StopError, exit_code_of, lines_of
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.fleet import Resumed
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
    """Take nodes back into use that were drained, or quarantined because everything failed there.

    A cluster's name means all of its nodes. `stw clusters` says who drained them, or why they were
    quarantined. For one cluster `stw cluster resume` is the same.
    """
    take_back(nodes_by_cluster(places), output)


def nodes_by_cluster(places: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The nodes that are named of each cluster; none where all of it is meant."""
    wanted: dict[str, dict[str, None]] = {}
    whole: dict[str, None] = {}
    for place in places:
        cluster, mark, node = place.partition("/")
        nodes = wanted.setdefault(cluster, {})
        if mark:
            nodes[node] = None
        else:
            whole[cluster] = None
    return {name: () if name in whole else tuple(nodes) for name, nodes in wanted.items()}


def take_back(wanted: Mapping[str, Sequence[str]], output: Output) -> None:
    """Resumes nodes of clusters; one that is refused doesn't keep the others."""
    client = connect()
    resumed: list[Resumed] = []
    code = 0
    for cluster, nodes in wanted.items():
        try:
            resumed += client.resume_cluster(cluster, nodes).nodes
        except StellwerkError as error:
            code = code or exit_code_of(error)
            for line in lines_of(error):
                Narrator().insist(line)
    if output.for_people:
        for one in resumed:
            narrate(f"{one.cluster}/{one.node} is {one.state}")
        if resumed:
            narrate("next: stw clusters")
        elif not code:
            narrate("no node there is drained or quarantined")
    else:
        write_list(resumed, COLUMNS, output, name=lambda one: f"{one.cluster}/{one.node}")
    if code:
        raise StopError(code)
