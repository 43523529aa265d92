"""`stw exec` and `stw shell`: a command inside of what runs."""

import os
import sys
from collections.abc import Sequence

import click

from stellwerk.cli import family
from stellwerk.cli.errors import OURS, StopError, lines_of, usage
from stellwerk.cli.inside import carry, window
from stellwerk.cli.session import complete_live, connect
from stellwerk.core.model.errors import StellwerkError

SHELL = 'exec "$(command -v "${SHELL:-bash}" || command -v bash || echo sh)"'
"""The job's own shell, or one that is there: an image may have less than the machine."""

run_option = click.option(
    "--run", type=click.IntRange(1), metavar="N", help="In this run instead of the newest."
)
rank_option = click.option(
    "--rank",
    type=click.IntRange(0),
    default=0,
    metavar="R",
    help="Beside this rank of several (default: 0).",
)


class _CommandOfACommand(click.Command):
    """Says where to put `--`, when an option of the command inside was taken for one of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As ever, with that remark where it isn't there."""
        has_mark = "--" in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise usage(
                "usage/option",
                f"stw exec has no option `{error.option_name}`",
                "stw exec --help"
                if has_mark
                else "write `--` before the command, as in: stw exec NAME -- ls -l",
            ) from error


@click.command(
    "exec",
    cls=_CommandOfACommand,
    epilog="""\b
    Example: stw exec digits -- nvidia-smi
             stw exec -it digits -- python
             tar c src | stw exec -i digits -- tar x
    """,
)
@click.argument("name", shell_complete=complete_live)
@click.argument("argv", nargs=-1, required=True, metavar="-- CMD...", type=click.UNPROCESSED)
@run_option
@rank_option
@click.option("-i", "--stdin", is_flag=True, help="Pass on standard input.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give it a terminal (with -i: yours).")
def exec_(
    name: str, argv: tuple[str, ...], run: int | None, rank: int, stdin: bool, terminal: bool
) -> int:
    """Run a command inside a job that runs.

    It has the job's folder, variables, mounts and image. The exit code is its own, or 127 if there
    is no such program, 126 if it can't be executed, 125 if anything else goes wrong. It ends with
    Ctrl-C, when this terminal closes, and with the job, which doesn't wait for it.
    """
    if terminal and not (sys.stdin if stdin else sys.stdout).isatty():
        which = "standard input" if stdin else "standard output"
        raise usage("usage/terminal", f"{which} is no terminal", "leave out -t")
    return _run_inside(name, argv, run, rank, stdin=stdin, terminal=terminal)


@click.command("shell", epilog="Example: stw shell digits")
@click.argument("name", shell_complete=complete_live)
@run_option
@rank_option
def shell(name: str, run: int | None, rank: int) -> int:
    """Open a shell inside a job that runs; the same as `stw exec -it NAME -- bash`.

    Without a terminal it reads its commands from standard input.
    """
    argv = ("sh", "-c", SHELL)
    return _run_inside(name, argv, run, rank, stdin=True, terminal=sys.stdin.isatty())


def _run_inside(
    name: str, argv: Sequence[str], run: int | None, rank: int, *, stdin: bool, terminal: bool
) -> int:
    """Every code but 2 is the command's own, or one of 125 to 127 with a word about why."""
    sys.stdout.flush()
    env = {"TERM": os.environ.get("TERM") or "xterm"} if terminal else {}
    size = window() if terminal else (0, 0)
    client = connect()
    try:
        session = client.exec_session(
            name, argv, run=run, rank=rank, stdin=stdin, terminal=terminal, size=size, env=env
        )
        return carry(session, stdin=stdin, terminal=terminal)
    except StellwerkError as error:
        for line in lines_of(error):
            print(line.replace("NAME", name), file=sys.stderr)
        if error.problems[0].code == "exec/ended":
            verb = "shell" if argv[-1] == SHELL else "exec"
            for line in family.live_ones(client, name, verb):
                print(line, file=sys.stderr)
        code = getattr(error, "exit_code", OURS)
        raise StopError(code if code in {126, 127} else OURS) from error
