"""`stw logs`: the output of a job."""

import re
from collections import deque
from collections.abc import Iterable

import click

from stellwerk.cli import family
from stellwerk.cli.arrays import is_array, print_logs
from stellwerk.cli.commands.run import followed
from stellwerk.cli.errors import NOT_FOUND, OURS, CommandError, exit_code_of, lines_of, usage
from stellwerk.cli.follow import job_code, output_of
from stellwerk.cli.nodes import node_option, nodes_of, number_of
from stellwerk.cli.session import complete_names, connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.gang import ranks_of
from stellwerk.client.wire import Show, Stream
from stellwerk.core.model.errors import StellwerkError


@click.command("logs", epilog="Example: stw logs -f digits")
@click.argument("name", shell_complete=complete_names)
@click.option(
    "-f", "--follow", "follows", is_flag=True, help="Go on until it ends; exit with its code."
)
@click.option(
    "--run", type=click.IntRange(1), metavar="N", help="Of this run instead of the newest."
)
@click.option(
    "--rank", type=click.IntRange(0), metavar="R", help="Of this rank alone, without its number."
)
@node_option
@click.option("--setup", "only_setup", is_flag=True, help="Only what setup printed.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1),
    metavar="N",
    help="Only the last N lines; with -f from there on.",
)
def command(
    name: str,
    follows: bool,
    run: int | None,
    rank: int | None,
    node: str | None,
    only_setup: bool,
    lines: int | None,
) -> int:
    """Print what a job has printed: setup, then run.

    Of a job on several nodes each line says which rank it came from.
    """
    client = connect()
    narrator = Narrator()
    try:
        work = client.get(name)
        for line in family.later_ones(client, name, work):
            narrator.say(line)
        first, count = _ranks_on(work, node, rank)
        if count == 1 and node is not None:
            rank = first
        _check_ranks(work, rank, whole=not (follows and lines) or only_setup)
        one_rank = rank is not None or only_setup or ranks_of(work) == 1
        if follows and run is None and rank is None and not only_setup and node is None:
            start = _start_of(client.logs(name, run="all"), lines) if lines else 0
            return followed(client, work.id, narrator, start)
        stream: Stream = "setup" if only_setup else "all"
        start = 0
        if lines and one_rank:
            start = _start_of(client.logs(name, run=run, rank=rank or 0, stream=stream), lines)
        output: Iterable[bytes]
        if one_rank:
            output = client.logs(
                name, run=run, rank=rank or 0, stream=stream, follow=follows, offset=start
            )
        else:
            output = output_of(client, name, count, first=first, run=run, follow=follows)
            output = deque(output, lines) if lines else output
        said = False
        for chunk in output:
            narrator.data(chunk)
            said = True
        if not said:
            narrator.say(_silent(client.get(name), "setup" if only_setup else "it"))
        return job_code(client.get(name)) if follows and client.get(name).ended else 0
    except StellwerkError as error:
        if is_array(client, name, error):
            return print_logs(client, name, narrator, follows=follows)
        if not follows:
            raise
        return _ours(error, narrator)


def _ranks_on(work: Show, node: str | None, rank: int | None) -> tuple[int, int]:
    """The first rank that is asked for, and how many from there on: all, or those of a machine."""
    ranks = ranks_of(work)
    if node is None:
        return 0, ranks
    if rank is not None:
        raise usage("usage/node", "--rank names a rank, and --node a machine", "leave one of them")
    on_each = max(1, ranks // max(1, len(nodes_of(work))))
    return number_of(work, node) * on_each, on_each


def _start_of(output: Iterable[bytes], lines: int) -> int:
    """At which byte the last lines of an output begin."""
    starts = deque([0], lines + 1)
    at = 0
    for chunk in output:
        starts.extend(at + found.end() for found in re.finditer(rb"\n", chunk))
        at += len(chunk)
    if starts[-1] == at and len(starts) > 1:
        starts.pop()
    return list(starts)[-lines:][0]


def _check_ranks(work: Show, rank: int | None, *, whole: bool) -> None:
    ranks = ranks_of(work)
    if rank is not None and rank >= ranks:
        there = f"0 to {ranks - 1}" if ranks > 1 else "0 alone"
        message = f"{work.name} has no rank {rank}"
        raise CommandError("find/rank", message, f"its ranks are {there}", exit_code=NOT_FOUND)
    if not whole and rank is None and ranks > 1:
        message = "the last lines of several ranks can't be followed together"
        raise usage("usage/lines", message, f"stw logs -f {work.name} --rank 0 -n N, or no -n")


def _silent(work: Show, who: str) -> str:
    """Why there is no output."""
    if not work.runs:
        ever = f"never ran: {work.phase}" if work.ended else "hasn't run yet"
        return f"{work.name} {ever}   next: stw explain {work.name}"
    so_far = "" if work.ended else " so far"
    return f"{work.name} is {work.phase}; {who} printed nothing{so_far}"


def _ours(error: StellwerkError, narrator: Narrator) -> int:
    """With `-f` every code but 2 and 125 is the job's."""
    for line in lines_of(error):
        narrator.insist(line)
    return 2 if exit_code_of(error) == 2 else OURS
