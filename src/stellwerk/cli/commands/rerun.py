"""`stw rerun`: submits a workload's task once more, with the code it had, and what it saved."""

from typing import Any

import click

from stellwerk.cli.commands.run import followed
from stellwerk.cli.output import write_data
from stellwerk.cli.session import complete_names, connect
from stellwerk.cli.terminal import Narrator


@click.command("rerun", epilog="Example: stw rerun digits --resume --time-limit 4h")
@click.argument("name", shell_complete=complete_names)
@click.option("--resume", is_flag=True, help="Go on from its last checkpoints.")
@click.option("--time-limit", metavar="2h", help="Another time limit than it had.")
@click.option("-d", "--detach", is_flag=True, help="Submit only; don't follow.")
@click.option("--key", default="", help="Submit at most once under this key.")
@click.option("-q", "--quiet", is_flag=True, help="Only the job's output, and why it failed.")
@click.option(
    "-o",
    "output_format",
    type=click.Choice(["json", "name"]),
    metavar="json|name",
    help="Print this of the new workload, and don't follow.",
)
def command(name: str, key: str, **flags: Any) -> int:
    """Submit the same task again: same text, code, variables and secrets; then follow it.

    It is a new job with empty folders for checkpoints and outputs. With --resume it starts with a
    copy of the last checkpoints of the old one, which must be over. What you have changed since
    counts only for `stw run`.
    """
    limit_ms = _span("time-limit", flags["time_limit"])
    client = connect()
    narrator = Narrator(quiet=flags["quiet"])
    submitted = client.rerun(name, key=key, resume=flags["resume"], time_limit_ms=limit_ms)
    narrator.say(f"submitted {submitted.name} ({submitted.id}), the task of {name} again")
    for told in submitted.notices:
        narrator.say(told.message)
    if flags["output_format"] == "json":
        write_data({"id": submitted.id, "name": submitted.name, "phase": submitted.phase}, "json")
        return 0
    if flags["output_format"] == "name":
        click.echo(submitted.name)
        return 0
    if flags["detach"]:
        narrator.say(f"  next: stw logs -f {submitted.name}   or: stw show {submitted.name}")
        return 0
    return followed(client, submitted.id, narrator)


def _span(flag: str, written: str | None) -> int | None:
    """The milliseconds of a time span with its unit; None if it wasn't given."""
    if written is None:
        return None
    from stellwerk.core.describe.overrides import read_flag

    value: int = read_flag(flag, written)
    return value
