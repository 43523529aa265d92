"""`stw version`: what is installed here, and what answers."""

import click

from stellwerk import __version__
from stellwerk.cli.output import Output, one_options, write_one
from stellwerk.cli.session import connect
from stellwerk.client.connection import UnreachableError


@click.command("version", epilog="Example: stw version -o json")
@one_options
def command(output: Output) -> None:
    """Print the version of this command, and of the server if one runs."""
    try:
        server = connect(start=False).server_status().version
    except UnreachableError:
        server = ""
    lines = [f"stellwerk {__version__}", f"server    {server or 'not running'}"]
    write_one({"client": __version__, "server": server or None}, lines, output, name=__version__)
