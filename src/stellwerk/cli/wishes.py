"""What may be said of a submission on a command line: the flags that `run` and `plan` share.

Turns them into a wish for the client: variables and secrets are read where the command is typed.
"""

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from stellwerk.cli.errors import StopError, exit_code_of, lines_of, usage
from stellwerk.cli.render.units import plural, size
from stellwerk.cli.session import parse_labels
from stellwerk.cli.terminal import TRANSIENT_AFTER_S, Narrator
from stellwerk.client.pack import TooLargeError
from stellwerk.client.prepare import Prepared, Wish, prepare
from stellwerk.client.upload import Sent
from stellwerk.client.wire import Override, Told
from stellwerk.config import Settings
from stellwerk.core.model.errors import StellwerkError

ARGV = "stellwerk.argv"
TYPED = "stellwerk.typed"
OVERRIDES = (
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


class TaskCommand(click.Command):
    """Takes everything after `--` as the command to run, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments at the first `--`."""
        ctx.meta[TYPED] = list(args)
        if "--" in args:
            at = args.index("--")
            ctx.meta[ARGV] = args[at + 1 :]
            args = args[:at]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "extra argument" in error.message:
                hint = f"a command goes after `--`: {ctx.command_path} -- python train.py"
                error.hint = hint  # type: ignore[attr-defined]
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The two ways to call it."""
        return ["[OPTIONS]", "FILE | -- COMMAND…"]


_OPTIONS = (
    click.option("-n", "--name", help="Name it; a number is added if it is taken."),
    click.option("--workdir", help="Pack this folder instead of the file's `workdir`."),
    click.option("--gpus", metavar="A100:2", help="Accelerators per node."),
    click.option("--cpus", metavar="4+", help="CPUs per node; + for at least."),
    click.option("--memory", metavar="16+", help="Memory per node in GiB; + for at least."),
    click.option("--num-nodes", type=click.IntRange(1), help="Nodes started together."),
    click.option("--infra", metavar="CLUSTER", help="Only there, e.g. ssh/k017."),
    click.option("--priority", type=click.IntRange(-1000, 1000), help="Higher goes first."),
    click.option("--queue", help="The queue it waits in."),
    click.option("--gpu-memory", metavar="12Gi", help="Share a GPU: this much of its memory."),
    click.option("--time-limit", metavar="2h", help="Stopped, with notice, after this time."),
    click.option("--checkpoint-grace", metavar="90s", help="Time to save when it must stop."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set a variable."),
    click.option(
        "--env-file",
        metavar="FILE",
        multiple=True,
        help="Set variables from NAME=VALUE lines.",
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME",
        help="Hand over $NAME, or NAME=@FILE, sealed.",
    ),
    click.option(
        "-l",
        "--label",
        "labels",
        multiple=True,
        metavar="KEY=VALUE",
        help="Add a label.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Don't ask about a large work directory."),
)


def task_options(command: Any) -> Any:
    """The flags that say what a task is: those of `sky launch`, variables, secrets, labels."""
    for decorator in reversed(_OPTIONS):
        command = decorator(command)
    return command


def wish_of(file: str | None, flags: dict[str, Any]) -> Wish:
    """What was typed, as a wish; either a file or a command after `--`."""
    context = click.get_current_context()
    argv: list[str] | None = context.meta.get(ARGV)
    if (file is None) == (argv is None):
        what = "a file and a command" if file else "nothing to run"
        verb = context.command.name
        raise usage("usage/what", f"got {what}", f"stw {verb} FILE, or: stw {verb} -- COMMAND")
    if file is not None and file.endswith(".py"):
        remedy = f"to run it: stw {context.command.name} -- python {shlex.quote(file)}"
        raise usage("usage/what", f"{file} is a program, not a task file", remedy)
    overrides: dict[str, Override] = {
        name: flags[name] for name in OVERRIDES if flags[name] is not None
    }
    return Wish(
        file=file,
        argv=None if argv is None else tuple(argv),
        overrides=overrides,
        env=_variables(flags["env"], flags["env_file"]),
        secrets=_secrets(flags["secrets"]),
        labels=parse_labels(flags["labels"]),
        held=flags.get("hold", False),
        key=flags.get("key", ""),
        plan=flags.get("plan", ""),
        allow_large=flags["yes"],
    )


def prepared_of(wish: Wish, settings: Settings, narrator: Narrator) -> Prepared:
    """Packs; asks about a large work directory where there is somebody to ask."""
    try:
        return prepare(wish, settings)
    except TooLargeError as error:
        if not (narrator.terminal.is_tty and sys.stdin.isatty()):
            raise
        if narrator.ask(f"{error.problems[0].message}.", {"n": "stop", "y": "pack it"}) != "y":
            raise
    return prepare(wish._replace(allow_large=True), settings)


def refused(error: StellwerkError, narrator: Narrator, outcome: str) -> StopError:
    """Says everything that is wrong, and what came of it; ends the command."""
    code = exit_code_of(error)
    for line in lines_of(error):
        narrator.insist(line)
    narrator.insist(f"{plural(len(error.problems), 'error')}, {outcome} (exit {code})")
    return StopError(code)


def tell_packed(prepared: Prepared, how: str, narrator: Narrator) -> None:
    """Says what was packed and what became of it; nothing where there was nothing to pack."""
    packed = prepared.everything
    if packed:
        files, bytes = sum(p.file_count for p in packed), sum(p.byte_count for p in packed)
        narrator.say(f"packed {plural(files, 'file')}, {size(bytes)} ({how})")
        for notice in (notice for one in packed for notice in one.notices):
            narrator.say(f"note: {notice}")


def sending(narrator: Narrator) -> Callable[[Sent], None]:
    """Tells how an upload gets on: on a terminal by a line that changes, elsewhere by one line.

    An upload of less than a second isn't told of.
    """
    began = time.monotonic()
    told = False

    def tell(sent: Sent) -> None:
        nonlocal told
        if narrator.shows_progress:
            narrator.progress(
                f"sending: {sent.files:,} of {plural(sent.of_files, 'file')}, "
                f"{size(sent.bytes)} of {size(sent.of_bytes)}"
            )
        elif not told and time.monotonic() - began >= TRANSIENT_AFTER_S:
            told = True
            narrator.say(f"sending {plural(sent.of_files, 'file')}, {size(sent.of_bytes)}")

    return tell


def tell_notices(notices: Sequence[Told], narrator: Narrator) -> None:
    """Says what was accepted and still should be known."""
    for told in notices:
        narrator.say(f"note[{told.code}]: {told.message}" + (f"; {told.help}" if told.help else ""))


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
