"""`stw queues`: how work stands in the server's queues, and what queues in files would do.

For `plan` and `check` no server is asked or started: what is in the files is all there is.
"""

import click
from msgspec import Struct

from stellwerk.cli.completing import complete_file
from stellwerk.cli.output import (
    Output,
    list_options,
    narrate,
    one_options,
    write_list,
    write_one,
)
from stellwerk.cli.reading import text_of
from stellwerk.cli.render.queues import lines_of
from stellwerk.cli.render.quota import queue_columns
from stellwerk.cli.render.units import plural
from stellwerk.cli.session import connect, now_ms
from stellwerk.core.describe.queues import QueuesRead, read_queues
from stellwerk.core.model.errors import Notice
from stellwerk.core.queue.planned import planned_of
from stellwerk.core.queue.settle import MOST_CYCLES

MANY = {"priority class": "priority classes", "topology": "topologies"}
EXAMPLE = "Example: stw queues plan -f queues.yaml -f workloads.yaml"


class Checked(Struct, frozen=True):
    """What files hold: objects by kind, and what a person should know of them."""

    objects: dict[str, int]
    notices: tuple[Notice, ...]


@click.group("queues", invoke_without_command=True, epilog=EXAMPLE)
@list_options
@click.pass_context
def command(ctx: click.Context, output: Output) -> None:
    """ClusterQueues: how many wait, hold quota and run. Without a subcommand all are listed.

    `stw apply -f FILE` brings them; `plan` and `check` say what files mean, without a server.
    """
    if ctx.invoked_subcommand is None:
        _list(output)


@command.command("ls", epilog="Example: stw queues ls -o wide")
@list_options
def ls(output: Output) -> None:
    """List ClusterQueues: how many wait, hold quota and run, and what of the quota is used."""
    _list(output)


def _list(output: Output) -> None:
    write_list(
        connect().cluster_queues(),
        queue_columns(),
        output,
        name=lambda one: one.name,
        empty="there are no ClusterQueues",
        then="next: stw quota, stw queue, or: stw apply -f FILE",
    )


FILES = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    shell_complete=complete_file,
    help="Objects in YAML, - for stdin. May be given several times.",
)


@command.command("plan", epilog=EXAMPLE, short_help="Say who would start, and why others wait.")
@FILES
@click.option(
    "--cycles",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    metavar="N",
    help="So many cycles: each looks at one workload of every queue.",
)
@click.option("--until-settled", is_flag=True, help="Cycles until nothing changes any more.")
@one_options
def plan(files: tuple[str, ...], cycles: int, until_settled: bool, output: Output) -> None:
    """Say whom the queues would admit and preempt, and why everybody else waits.

    By the rules of Kueue. Workloads of the files that have an admission hold their quota; what
    runs never ends here, and what is preempted is gone in the next cycle.
    """
    read = _read(files)
    most = MOST_CYCLES if until_settled else cycles
    found = planned_of(read.objects, now_ms(), most)
    if output.for_people:
        _tell(read.notices)
    write_one(found, lines_of(found, output.terminal(), wide=output.format == "wide"), output)
    if output.for_people and until_settled and not found.settled:
        narrate(f"still changing after {plural(most, 'cycle')}: some evict each other in turn")
    elif output.for_people and not found.settled:
        narrate("next: --until-settled goes on until nothing changes")


@command.command(
    "check",
    epilog="Example: stw queues check -f queues.yaml",
    short_help="Say everything that is wrong with the objects.",
)
@FILES
@one_options
def check(files: tuple[str, ...], output: Output) -> None:
    """Say everything that is wrong with the objects, with line and column. Exit code 2 if any is.

    What names an object that isn't in the files is told as a note.
    """
    read = _read(files)
    objects = read.objects
    counts = {
        "flavor": len(objects.flavors),
        "cluster queue": len(objects.queues),
        "cohort": len(objects.cohorts),
        "local queue": len(objects.local_queues),
        "priority class": len(objects.priority_classes),
        "topology": len(objects.topologies),
        "node": len(objects.nodes),
        "workload": len(objects.workloads),
    }
    if output.for_people:
        _tell(read.notices)
    held = ", ".join(
        plural(count, name, MANY.get(name, "")) for name, count in counts.items() if count
    )
    line = f"all of it can be accepted: {held or 'nothing'}"
    write_one(Checked(counts, read.notices), [line], output)


def _read(files: tuple[str, ...]) -> QueuesRead:
    """What the files say; raises for everything that is wrong in any of them."""
    return read_queues((name, text_of(name)) for name in files).require()


def _tell(notices: tuple[Notice, ...]) -> None:
    for one in notices:
        place = f"line {one.line}: " if one.line else ""
        narrate(f"note[{one.code}]: {place}{one.message}" + (f"; {one.help}" if one.help else ""))
