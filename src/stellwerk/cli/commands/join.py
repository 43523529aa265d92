"""`stw join`: this machine dials in to a server that can't dial it; the runtime does all of it."""

import os
import sys

import click

from stellwerk.config import load


@click.command(
    "join",
    context_settings={"ignore_unknown_options": True},
    epilog="Example: stw join https://lab.example:7443 --token-file -",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="URL [OPTION]...")
def command(arguments: tuple[str, ...]) -> None:
    """Let this machine dial in to a server, and stay joined.

    --token-file FILE has the token (- is standard input), as STELLWERK_JOIN_TOKEN may. --name NAME
    is its name as a node, --folder PATH where everything lies here, --ca FILE vouches for the
    server. --home FOLDER joins again as before, without a token. It runs until it is ended or the
    server takes its secret back; jobs go on either way.
    """
    from pathlib import Path

    from stellwerk.runtime.bundle import build

    runtime = str(build(Path(load().cache) / "runtime"))
    sys.stdout.flush()
    argv = [sys.executable, "-I", "-S", runtime, "join", *arguments]
    os.execv(argv[0], argv)  # noqa: S606 - nothing of it needs a shell
