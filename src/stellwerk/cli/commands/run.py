"""`stw run`: packs, submits, follows."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from stellwerk.cli.completing import complete_file
from stellwerk.cli.errors import INTERRUPTED, OURS, lines_of
from stellwerk.cli.follow import follow
from stellwerk.cli.forwarding import PortPair
from stellwerk.cli.interactive import TEXT, attend
from stellwerk.cli.output import write_data
from stellwerk.cli.ports import ListeningNarrator, Ports, taken_ports
from stellwerk.cli.render.units import age, clock, size
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.cli.usage import PROBLEMS
from stellwerk.cli.wishes import (
    ARGV,
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
from stellwerk.core.model.errors import Problem, StellwerkError


@click.command(
    "run",
    cls=TaskCommand,
    epilog="""\b
    Example: stw run train.yaml --env EPOCHS=3
             stw run --shell --gpus A100:1
             stw run --forward 8888 --gpus A100:1 -- jupyter lab --no-browser --port 8888
    """,
)
@click.argument("file", required=False, shell_complete=complete_file)
@click.option("-d", "--detach", is_flag=True, help="Submit only; don't follow.")
@click.option("--shell", is_flag=True, help="Open a shell in its place; what FILE runs isn't run.")
@click.option(
    "--forward",
    "ports",
    multiple=True,
    type=PortPair(),
    metavar="[LOCAL:]PORT",
    help="Reach this port of it from here, as soon as it listens there.",
)
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
    after `--`, which runs in this folder with your environment. With --shell the place is for a
    shell at this terminal, and given back when that ends.
    """
    wish = _wished(file, flags)
    narrator = ListeningNarrator(quiet=flags["quiet"])
    client = connect()
    if flags["shell"]:
        wish = _as_shell(wish, client)
        if wish.file:
            narrator.say(f"note: `run` of {wish.file} isn't started; its place is for a shell")
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
        verb = "shell" if flags["shell"] and not flags["hold"] else verb
        narrator.say(f"  next: stw {verb} {submitted.name}   or: stw show {submitted.name}")
        return 0
    if flags["shell"]:
        return _attended(client, submitted.id, narrator, "" if wish.file else os.getcwd())
    if flags["ports"]:
        return _followed_with_ports(client, submitted, narrator, flags["ports"])
    return followed(client, submitted.id, narrator)


def _wished(file: str | None, flags: dict[str, Any]) -> Wish:
    """What was typed; everything that can't be is said together."""
    context = click.get_current_context()
    problems = [*taken_ports(flags["ports"])]
    detached = [name for name in ("detach", "hold") if flags[name]]
    many = [name for name in ("array", "sweeps") if flags[name]]
    if flags["output_format"]:
        detached.append("-o")
    if flags["ports"] and (detached or many):
        remedy = "leave one of them out, or use `stw forward NAME PORT` when it runs"
        message = "--forward needs one job, and somebody who follows it"
        problems.append(Problem("usage/forward", message, remedy))
    if flags["shell"]:
        problems += _against_a_shell(context, flags, many)
    context.meta[PROBLEMS] = [*context.meta.get(PROBLEMS, ()), *problems]
    text = TEXT if flags["shell"] and file is None and ARGV not in context.meta else ""
    return wish_of(file, flags, "nothing was submitted", text)


def _against_a_shell(
    context: click.Context, flags: dict[str, Any], many: list[str]
) -> list[Problem]:
    problems = []
    if ARGV in context.meta:
        remedy = "leave the command out and type it there, or leave out --shell"
        problems.append(Problem("usage/shell", "--shell takes no command", remedy))
    if many:
        remedy = "submit it without --array and --sweep"
        problems.append(Problem("usage/shell", "a shell is one job", remedy))
    if flags["ports"]:
        remedy = "use `stw forward NAME PORT` in another terminal while the shell is open"
        problems.append(Problem("usage/shell", "--shell and --forward don't go together", remedy))
    return problems


def _as_shell(wish: Wish, client: Client) -> Wish:
    limit = client.settings.text("interactive_idle_limit")
    return wish._replace(overrides={**wish.overrides, "shell": limit or "0"})


def _attended(client: Client, id: str, narrator: Narrator, folder: str) -> int:
    """Opens the shell; a failure of ours is 125 and leaves the job as it is."""
    try:
        return attend(client, id, narrator, folder)
    except StellwerkError as error:
        for line in lines_of(error):
            narrator.insist(line)
        narrator.insist(f"it goes on: `stw shell {id}` goes back in, `stw cancel {id}` ends it")
        return OURS


def _followed_with_ports(
    client: Client,
    submitted: Submitted,
    narrator: ListeningNarrator,
    pairs: Sequence[tuple[int, int]],
) -> int:
    """As ever, with ways to its ports for as long; after that it is told how to open them again."""
    narrator.ports = Ports(client, submitted, pairs, narrator)
    narrator.ports.start()
    try:
        code = followed(client, submitted.id, narrator)
    finally:
        narrator.ports.stop()
    if code in {INTERRUPTED, OURS}:
        with suppress(StellwerkError):  # then its end has been told, or there is no server
            if not client.get(submitted.id).ended:
                words = " ".join(f"{here}:{there}" for here, there in pairs)
                narrator.insist(f"to reach its ports again: stw forward {submitted.name} {words}")
    return code


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
