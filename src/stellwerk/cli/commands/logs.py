"""`stw logs`: the output of a job."""

from collections.abc import Iterable

import click

from stellwerk.cli.commands.run import followed
from stellwerk.cli.errors import OURS, exit_code_of, lines_of
from stellwerk.cli.follow import job_code, output_of
from stellwerk.cli.session import complete_names, connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.gang import ranks_of
from stellwerk.client.wire import Stream
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
@click.option("--setup", "only_setup", is_flag=True, help="Only what setup printed.")
def command(name: str, follows: bool, run: int | None, rank: int | None, only_setup: bool) -> int:
    """Print what a job has printed: setup, then run.

    Of a job on several nodes each line says which rank it came from.
    """
    client = connect()
    narrator = Narrator()
    if follows and run is None and rank is None and not only_setup:
        return _follow(client, name, narrator)
    stream: Stream = "setup" if only_setup else "all"
    output: Iterable[bytes]
    try:
        if rank is None and not only_setup:
            output = output_of(client, name, ranks_of(client.get(name)), run=run, follow=follows)
        else:
            output = client.logs(name, run=run, rank=rank or 0, stream=stream, follow=follows)
        for chunk in output:
            narrator.data(chunk)
        return job_code(client.get(name)) if follows and client.get(name).ended else 0
    except StellwerkError as error:
        if not follows:
            raise
        return _ours(error, narrator)


def _follow(client: Client, name: str, narrator: Narrator) -> int:
    try:
        workload = client.get(name)
    except StellwerkError as error:
        return _ours(error, narrator)
    return followed(client, workload.id, narrator)


def _ours(error: StellwerkError, narrator: Narrator) -> int:
    """With `-f` every code but 2 and 125 is the job's."""
    for line in lines_of(error):
        narrator.insist(line)
    return 2 if exit_code_of(error) == 2 else OURS
