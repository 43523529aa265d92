"""`stw gpu`: memory, runs and use of each GPU, and how full they were."""

import time

import click

from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.output import Output, list_options, write_list, write_one
from stellwerk.cli.render.gpus import (
    GpuLine,
    gpu_columns,
    gpu_lines,
    history_lines,
    idle_lines,
    label,
    summary,
)
from stellwerk.cli.session import connect
from stellwerk.cli.watching import watched

DAY_MS = 24 * 3_600_000


@click.command("gpu", epilog="Example: stw gpu -w   stw gpu --idle   stw gpu --history -o json")
@click.argument("cluster", required=False, shell_complete=complete_clusters)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@click.option("--idle", is_flag=True, help="Only those that runs hold and don't use.")
@click.option("--history", is_flag=True, help="How full they were, for a day; -o json for 3 days.")
@list_options
def command(cluster: str | None, watch: bool, idle: bool, history: bool, output: Output) -> None:
    """List GPUs: how much of their memory runs asked for and use, and what others hold."""
    client = connect()

    def show_history() -> None:
        since_ms = int(time.time() * 1000) - DAY_MS if output.for_people else 0
        found = client.gpu_history(cluster or "", since_ms)
        write_one(found, history_lines(found, output.terminal()), output)

    def show() -> None:
        lines = gpu_lines(client.clusters(), cluster)
        then = f"{summary(lines)}.   next: stw clusters" if lines else ""
        empty = "no GPU was found; stw doctor says what was looked for"
        if idle:
            lines, then = idle_lines(lines), ""
            empty = "no GPU that a run holds has been idle for 5 minutes"
        if output.for_people:
            columns = gpu_columns(output.terminal())
            write_list(lines, columns, output, name=_name, empty=empty, then=then)
        else:
            write_list(lines, [], output, name=_name)

    show_it = show_history if history else show
    watched(client, show_it) if watch else show_it()


def _name(line: GpuLine) -> str:
    return f"{line.node}/{label(line.device)}"
