"""`stw run`: packs, submits, follows."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from stellwerk.cli.errors import INTERRUPTED, OURS, StopError, exit_code_of, lines_of, usage
from stellwerk.cli.follow import follow
from stellwerk.cli.output import write_data
from stellwerk.cli.render.units import plural, size
from stellwerk.cli.session import connect, parse_labels
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.pack import TooLargeError
from stellwerk.client.prepare import Prepared, Wish, prepare
from stellwerk.client.wire import Override, Submitted
from stellwerk.config import Settings
from stellwerk.core.model.errors import StellwerkError

ARGV = "stellwerk.argv"


class RunCommand(click.Command):
    """Takes everything after `--` as the command to run, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments at the first `--`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[ARGV] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The two ways to call it."""
        return ["[OPTIONS]", "FILE | -- COMMAND…"]


def _resources(command: Any) -> Any:
    """The flags that change what the task asks for; the same as `sky launch` has."""
    for decorator in reversed(
        [
            click.option("-n", "--name", help="Name it; a number is added if it is taken."),
            click.option("--workdir", help="Pack this folder instead of the file's `workdir`."),
            click.option("--gpus", metavar="A100:2", help="Accelerators per node."),
            click.option("--cpus", metavar="4+", help="CPUs per node; + for at least."),
            click.option("--memory", metavar="16+", help="Memory per node in GiB; + for at least."),
            click.option("--num-nodes", type=click.IntRange(1), help="Nodes started together."),
            click.option("--infra", metavar="CLUSTER", help="Only there, e.g. ssh/k017."),
            click.option("--priority", type=click.IntRange(-1000, 1000), help="Higher goes first."),
            click.option("--queue", help="The queue it waits in."),
            click.option(
                "--gpu-memory", metavar="12Gi", help="Share a GPU: this much of its memory."
            ),
            click.option(
                "--time-limit", metavar="2h", help="Stopped, with notice, after this time."
            ),
            click.option(
                "--checkpoint-grace", metavar="90s", help="Time to save when it must stop."
            ),
        ]
    ):
        command = decorator(command)
    return command


@click.command("run", cls=RunCommand, epilog="Example: stw run train.yaml --env EPOCHS=3")
@click.argument("file", required=False)
@click.option("-d", "--detach", is_flag=True, help="Submit only; don't follow.")
@_resources
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option(
    "--env-file", metavar="FILE", multiple=True, help="Set variables from NAME=VALUE lines."
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="Hand over $NAME, or NAME=@FILE, sealed.",
)
@click.option("-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Add a label.")
@click.option("--hold", is_flag=True, help="Keep it back until `stw release`.")
@click.option("--key", default="", help="Submit at most once under this key.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask about a large work directory.")
@click.option("-q", "--quiet", is_flag=True, help="Only the job's output.")
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
    argv = click.get_current_context().meta.get(ARGV)
    if (file is None) == (argv is None):
        what = "a file and a command" if file else "nothing to run"
        raise usage("usage/what", f"got {what}", "stw run FILE, or: stw run -- COMMAND")
    narrator = Narrator(quiet=flags["quiet"])
    client = connect()
    submitted = _submitted(client, _wish(file, argv, flags), narrator)
    if flags["output_format"] == "json":
        write_data({"id": submitted.id, "name": submitted.name, "phase": submitted.phase}, "json")
        return 0
    if flags["output_format"] == "name":
        click.echo(submitted.name)
        return 0
    if flags["detach"] or flags["hold"]:
        verb = "release" if flags["hold"] else "logs -f"
        narrator.say(f"  next: stw {verb} {submitted.name}   or: stw show {submitted.name}")
        return 0
    return followed(client, submitted.id, narrator)


def followed(client: Client, id: str, narrator: Narrator) -> int:
    """Follows; once there is a job, a failure of ours is 125."""
    try:
        return follow(client, id, narrator)
    except KeyboardInterrupt:
        narrator.insist(f"it goes on; to follow it again: stw logs -f {id}")
        return INTERRUPTED
    except StellwerkError as error:
        for line in lines_of(error):
            narrator.insist(line)
        narrator.insist(f"the job itself is not affected: stw show {id}")
        return OURS


def _wish(file: str | None, argv: Sequence[str] | None, flags: dict[str, Any]) -> Wish:
    overrides: dict[str, Override] = {
        name: flags[name]
        for name in (
            "name",
            "workdir",
            "gpus",
            "cpus",
            "memory",
            "num_nodes",
            "infra",
            "priority",
            "queue",
            "gpu_memory",
            "time_limit",
            "checkpoint_grace",
        )
        if flags[name] is not None
    }
    return Wish(
        file=file,
        argv=None if argv is None else tuple(argv),
        overrides=overrides,
        env=_variables(flags["env"], flags["env_file"]),
        secrets=_secrets(flags["secrets"]),
        labels=parse_labels(flags["labels"]),
        held=flags["hold"],
        key=flags["key"],
        allow_large=flags["yes"],
    )


def _prepare(wish: Wish, settings: Settings, narrator: Narrator) -> Prepared:
    """Packs; asks about a large work directory where there is somebody to ask."""
    try:
        return prepare(wish, settings)
    except TooLargeError as error:
        if not (narrator.terminal.is_tty and sys.stdin.isatty()):
            raise
        if narrator.ask(f"{error.problems[0].message}.", {"n": "stop", "y": "pack it"}) != "y":
            raise
    return prepare(wish._replace(allow_large=True), settings)


def _submitted(client: Client, wish: Wish, narrator: Narrator) -> Submitted:
    """Sends code and task; says what was sent, or everything that is wrong and stops."""
    try:
        prepared = _prepare(wish, client.settings, narrator)
        sent = prepared.upload(client)
        submitted = client.submit_prepared(prepared.submission)
    except StellwerkError as error:
        code = exit_code_of(error)
        for line in lines_of(error):
            narrator.insist(line)
        narrator.insist(
            f"{plural(len(error.problems), 'error')}, nothing was submitted (exit {code})"
        )
        raise StopError(code) from error
    if packed := prepared.packed:
        what = f"{plural(packed.file_count, 'file')}, {size(packed.byte_count)}"
        narrator.say(f"packed {what} ({size(sent)} sent)")
        for notice in packed.notices:
            narrator.say(f"note: {notice}")
    narrator.say(f"submitted {submitted.name} ({submitted.id})")
    for told in submitted.notices:
        narrator.say(f"note[{told.code}]: {told.message}" + (f"; {told.help}" if told.help else ""))
    return submitted


def _variables(pairs: Sequence[str], files: Sequence[str]) -> dict[str, str | None]:
    """Flags hold before files, later ones before earlier ones."""
    from stellwerk.core.describe.env_file import read_env_file, read_env_flag

    variables: dict[str, str | None] = {}
    for path in files:
        variables.update(read_env_file(_text(path), file=path))
    for written in pairs:
        name, value = read_env_flag(written, os.environ)
        if value is None:
            raise usage("usage/env", f"${name} isn't set here", f"--env {name}=VALUE")
        variables[name] = value
    return variables


def _secrets(given: Sequence[str]) -> dict[str, str]:
    """Values come from the environment or a file: a command line can be read by everybody."""
    secrets = {}
    for text in given:
        name, mark, source = text.partition("=")
        if mark and source.startswith("@"):
            secrets[name] = _text(source[1:]).removesuffix("\n")
        elif mark:
            raise usage(
                "usage/secret",
                f"the value of {name} would stand on a command line, where everybody can read it",
                f"export {name}, then: --secret {name}; or from a file: --secret {name}=@FILE",
            )
        elif name in os.environ:
            secrets[name] = os.environ[name]
        else:
            raise usage(
                "usage/secret", f"${name} isn't set here", f"export {name}, or {name}=@FILE"
            )
    return secrets


def _text(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it isn't UTF-8"
        remedy = "name a readable text file"
        raise usage("usage/file", f"{path} can't be read: {said}", remedy) from error
