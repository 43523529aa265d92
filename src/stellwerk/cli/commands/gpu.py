"""`stw gpu`: memory and runs of each GPU."""

import click

from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.output import Output, list_options, write_list
from stellwerk.cli.render.clusters import GpuLine, gpu_columns, gpu_lines, summary
from stellwerk.cli.session import connect
from stellwerk.cli.watching import watched


@click.command("gpu", epilog="Example: stw gpu -w")
@click.argument("cluster", required=False, shell_complete=complete_clusters)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@list_options
def command(cluster: str | None, watch: bool, output: Output) -> None:
    """List GPUs: how much of their memory runs hold, and processes outside Stellwerk."""
    client = connect()

    def show() -> None:
        lines = gpu_lines(client.clusters(), cluster)
        if output.for_people:
            write_list(
                lines,
                gpu_columns(output.terminal()),
                output,
                name=_name,
                empty="no GPU was found; stw doctor says what was looked for",
                then=f"{summary(lines)}.   next: stw clusters" if lines else "",
            )
        else:
            write_list(lines, [], output, name=_name)

    watched(client, show) if watch else show()


def _name(line: GpuLine) -> str:
    return f"{line.node}/{line.device.index}"
