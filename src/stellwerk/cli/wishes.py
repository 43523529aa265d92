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

from stellwerk.cli.completing import (
    complete_clusters,
    complete_file,
    complete_folder,
    complete_queues,
)
from stellwerk.cli.errors import StopError, exit_code_of, lines_of, usage
from stellwerk.cli.render.units import plural, size
from stellwerk.cli.session import parse_labels
from stellwerk.cli.terminal import TRANSIENT_AFTER_S, Narrator
from stellwerk.cli.usage import PROBLEMS, ReadsOn
from stellwerk.client.pack import TooLargeError
from stellwerk.client.prepare import Prepared, Wish, prepare, problems_of
from stellwerk.client.upload import Sent
from stellwerk.client.wire import Override, Told
from stellwerk.config import Settings
from stellwerk.core.model.errors import Problem, StellwerkError

ARGV = "stellwerk.argv"
TYPED = "stellwerk.typed"
OVERRIDES = (
    "name",
    "workdir",
    "gpus",
    "cpus",
    "memory",
    "num_nodes",
    "min_nodes",
    "infra",
    "priority",
    "queue",
    "gpu_memory",
    "time_limit",
    "checkpoint_grace",
    "protected",
    "idle_limit",
)


class TaskCommand(ReadsOn):
    """Takes everything after `--` as the command to run, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments at the first `--`."""
        ctx.meta[TYPED] = list(args)
        if "--" in args:
            at = args.index("--")
            ctx.meta[ARGV] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def about_extra_words(self, ctx: click.Context) -> str:
        """Somebody may have forgotten the `--`."""
        return f"a command goes after `--`: {ctx.command_path} -- python train.py"

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The two ways to call it."""
        return ["[OPTIONS]", "FILE | -- COMMAND…"]


_OPTIONS = (
    click.option("-n", "--name", help="Its name (else that of file or script); a number is added."),
    click.option(
        "--workdir",
        metavar="FOLDER",
        shell_complete=complete_folder,
        help="Pack this folder instead of the file's `workdir`.",
    ),
    click.option("--gpus", metavar="A100:2", help="Accelerators per node; 2 is two of any kind."),
    click.option("--cpus", metavar="4+", help="CPUs per node; + for at least."),
    click.option("--memory", metavar="16+", help="Memory per node in GiB; + for at least."),
    click.option("--num-nodes", metavar="N", help="Nodes started together."),
    click.option("--min-nodes", metavar="N", help="On how few of them it may run."),
    click.option(
        "--infra",
        metavar="CLUSTER",
        shell_complete=complete_clusters,
        help="Only there, e.g. ssh/k017.",
    ),
    click.option(
        "--priority",
        "--priority-class",
        "priority",
        metavar="N",
        help="-1000 to 1000, or the name of a priority class; higher goes first.",
    ),
    click.option("--queue", shell_complete=complete_queues, help="The queue it waits in."),
    click.option("--array", default="", metavar="0-99%8", help="One for each index, 8 at a time."),
    click.option(
        "--sweep",
        "sweeps",
        multiple=True,
        metavar="NAME=A,B",
        help="One for each value of a variable, or each combination.",
    ),
    click.option(
        "--after",
        multiple=True,
        metavar="ok:NAME",
        help="Start when NAME has succeeded (any: is over, fail: failed).",
    ),
    click.option(
        "--gpu-memory", metavar="12Gi", help="Share a GPU of any kind: this much of its memory."
    ),
    click.option("--time-limit", metavar="2h", help="Stopped, with notice, after this time."),
    click.option("--checkpoint-grace", metavar="90s", help="Time to save when it must stop."),
    click.option("--protected", metavar="4h", help="Not to be stopped for others before so long."),
    click.option("--idle-limit", metavar="1h", help="Ended once nobody used it for so long."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set a variable."),
    click.option(
        "--env-file",
        metavar="FILE",
        multiple=True,
        shell_complete=complete_file,
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


def wish_of(file: str | None, flags: dict[str, Any], outcome: str, text: str = "") -> Wish:
    """What was typed, as a wish; either a file or a command after `--`, or else a `text`.

    Ends the command where something of it is wrong, and says everything that is, also in the file;
    `outcome` says what came of it.
    """
    context = click.get_current_context()
    problems: list[Problem] = [*context.meta.get(PROBLEMS, ())]
    argv: list[str] | None = context.meta.get(ARGV)
    unclear = [] if text else _what_is_meant(context, file, argv)
    problems += unclear
    overrides, env = flags_of(flags, problems)
    wish = Wish(
        file=file,
        text=text or None,
        argv=None if argv is None else tuple(argv),
        overrides=overrides,
        env=env,
        secrets=_secrets(flags["secrets"], problems),
        labels=_labels(flags["labels"], problems),
        held=flags.get("hold", False),
        key=flags.get("key", ""),
        plan=flags.get("plan", ""),
        allow_large=flags["yes"],
        after=tuple(flags["after"]),
        array=flags["array"],
        sweep=_sweeps(flags["sweeps"], problems),
    )
    if problems:
        if not unclear:
            problems += problems_of(wish)
        error = StellwerkError(dict.fromkeys(problems))
        raise refused(error, Narrator(quiet=bool(flags.get("quiet"))), outcome)
    return wish


def flags_of(
    flags: dict[str, Any], problems: list[Problem]
) -> tuple[dict[str, Override], dict[str, str | None]]:
    """What flags change in a task, and the variables that they set."""
    overrides: dict[str, Override] = {
        name: flags[name] for name in OVERRIDES if flags[name] is not None
    }
    return overrides, _variables(flags["env"], flags["env_file"], problems)


def _what_is_meant(
    context: click.Context, file: str | None, argv: Sequence[str] | None
) -> list[Problem]:
    """A file or a command must be there, and a program is no task file."""
    verb = context.command.name
    if (file is None) == (argv is None):
        what = "a file and a command" if file else "nothing to run"
        remedy = f"stw {verb} FILE, or: stw {verb} -- COMMAND"
        return [Problem("usage/what", f"got {what}", remedy)]
    if file is not None and file.endswith(".py"):
        remedy = f"to run it: stw {verb} -- python {shlex.quote(file)}"
        return [Problem("usage/what", f"{file} is a program, not a task file", remedy)]
    return []


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


def _variables(
    pairs: Sequence[str], files: Sequence[str], problems: list[Problem]
) -> dict[str, str | None]:
    """Flags hold before files, later ones before earlier ones."""
    from stellwerk.core.describe.env_file import read_env_file, read_env_flag

    variables: dict[str, str | None] = {}
    for path in files:
        try:
            variables.update(read_env_file(_text(path), file=path))
        except StellwerkError as error:
            problems += error.problems
    for written in pairs:
        try:
            name, value = read_env_flag(written, os.environ)
        except StellwerkError as error:
            problems += error.problems
            continue
        if value is None:
            problems.append(Problem("usage/env", f"${name} isn't set here", f"--env {name}=VALUE"))
        variables[name] = value or ""
    return variables


def _secrets(given: Sequence[str], problems: list[Problem]) -> dict[str, str]:
    """Values come from the environment or a file: a command line can be read by everybody."""
    secrets = {}
    for text in given:
        name, mark, source = text.partition("=")
        secrets[name] = os.environ.get(name, "")
        if mark and source.startswith("@"):
            try:
                secrets[name] = _text(source[1:]).removesuffix("\n")
            except StellwerkError as error:
                problems += error.problems
        elif mark:
            what = f"the value of {name} would stand on a command line, where everybody can read it"
            remedy = f"export {name}, then: --secret {name}; or from a file: --secret {name}=@FILE"
            problems.append(Problem("usage/secret", what, remedy))
        elif name not in os.environ:
            remedy = f"export {name}, or {name}=@FILE"
            problems.append(Problem("usage/secret", f"${name} isn't set here", remedy))
    return secrets


def _sweeps(given: Sequence[str], problems: list[Problem]) -> dict[str, tuple[str, ...]]:
    swept: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, mark, values = text.partition("=")
        if not (name and mark and values):
            remedy = "write --sweep lr=1e-3,1e-4"
            problems.append(Problem("usage/sweep", f"`{text}` names no values", remedy))
        elif name in swept:
            remedy = f"write all its values in one --sweep {name}=…"
            problems.append(Problem("usage/sweep", f"`{name}` is given twice", remedy))
        else:
            swept[name] = tuple(values.split(","))
    return swept


def _labels(given: Sequence[str], problems: list[Problem]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in given:
        try:
            labels |= parse_labels([text])
        except StellwerkError as error:
            problems += error.problems
    return labels


def _text(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it isn't UTF-8"
        remedy = "name a readable text file"
        raise usage("usage/file", f"{path} can't be read: {said}", remedy) from error
