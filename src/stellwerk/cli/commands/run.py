"""`stw run`: packs, submits, follows."""

from typing import Any

import click

from stellwerk.cli.completing import complete_file
from stellwerk.cli.errors import INTERRUPTED, OURS, lines_of
from stellwerk.cli.follow import follow
from stellwerk.cli.output import write_data
from stellwerk.cli.render.units import age, clock, size
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.cli.wishes import (
    TaskCommand,
    prepared_of,
    refused,
    sending,
    task_options,
    tell_notices,
    tell_packed,
    wish_of,
)
from stellwerk.client.api import Client
from stellwerk.client.prepare import Wish
from stellwerk.client.wire import Submitted
from stellwerk.core.model.errors import StellwerkError


@click.command("run", cls=TaskCommand, epilog="Example: stw run train.yaml --env EPOCHS=3")
@click.argument("file", required=False, shell_complete=complete_file)
@click.option("-d", "--detach", is_flag=True, help="Submit only; don't follow.")
@task_options
@click.option("--hold", is_flag=True, help="Keep it back until `stw release`.")
@click.option("--key", default="", help="Submit at most once under this key.")
@click.option(
    "--plan",
    default="",
    metavar="ID",
    help="Only if what `stw plan` said is still so; else exit 5.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only the job's output, and why it failed.")
@click.option(
    "-o",
    "output_format",
    type=click.Choice(["json", "name"]),
    metavar="json|name",
    help="Print this of the new workload, and don't follow.",
)
def command(file: str | None, **flags: Any) -> int:
    """Submit a task file (or a command), follow it, and return its exit code.

    A SkyPilot task file, a batch script with #SBATCH lines, `-` for standard input, or a command
    after `--`, which runs in this folder with your environment.
    """
    wish = wish_of(file, flags, "nothing was submitted")
    narrator = Narrator(quiet=flags["quiet"])
    client = connect()
    submitted = _submitted(client, wish, narrator)
    if flags["output_format"] == "json":
        many = ("count",) if submitted.count > 1 else ()
        fields = ("id", "name", "phase", "repeated", *many)
        write_data({name: getattr(submitted, name) for name in fields}, "json")
        return 0
    if flags["output_format"] == "name":
        click.echo(submitted.name)
        return 0
    if submitted.count > 1 or flags["array"] or flags["sweeps"]:
        narrator.say(f"  next: stw ps {submitted.name}   or: stw wait {submitted.name}")
        return 0
    if flags["detach"] or flags["hold"]:
        verb = "release" if flags["hold"] else "logs -f"
        narrator.say(f"  next: stw {verb} {submitted.name}   or: stw show {submitted.name}")
        return 0
    return followed(client, submitted.id, narrator)


def followed(client: Client, id: str, narrator: Narrator, offset: int = 0) -> int:
    """Follows; once there is a job, a failure of ours is 125."""
    try:
        return follow(client, id, narrator, offset)
    except KeyboardInterrupt:
        narrator.insist(f"it goes on; to follow it again: stw logs -f {id}")
        return INTERRUPTED
    except StellwerkError as error:
        for line in lines_of(error):
            narrator.insist(line)
        narrator.insist(f"the job itself is not affected: stw show {id}")
        return OURS


def told_submitted(submitted: Submitted) -> str:
    """`submitted digits (w-…)`, or that and when its key was used before."""
    what = f"{submitted.name} ({submitted.id})"
    if submitted.count > 1:
        what = f"{submitted.name}, {submitted.count:,} workloads"
    if not submitted.repeated:
        return f"submitted {what}"
    now = now_ms()
    at = f"{clock(submitted.submitted_ms, now)} ({age(submitted.submitted_ms, now)} ago)"
    return f"already submitted as {what} at {at}, under the same key"


def _submitted(client: Client, wish: Wish, narrator: Narrator) -> Submitted:
    """Sends code and task; says what was sent, or everything that is wrong and stops."""
    try:
        prepared = prepared_of(wish, client.settings, narrator)
        sent = prepared.upload(client, sending(narrator))
        submitted = client.submit_prepared(prepared.submission)
    except StellwerkError as error:
        raise refused(error, narrator, "nothing was submitted") from error
    tell_packed(prepared, f"{size(sent)} sent" if sent else "the server has all of it", narrator)
    narrator.say(told_submitted(submitted))
    tell_notices(submitted.notices, narrator)
    return submitted
