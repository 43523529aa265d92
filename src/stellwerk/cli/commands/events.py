"""`stw events` and `stw story`: the journal, of all or of one workload."""

import contextlib
import sys
from collections.abc import Sequence

import click
import msgspec

from stellwerk.cli import family
from stellwerk.cli.errors import CommandError
from stellwerk.cli.output import Output, list_options, narrate, write_data, write_lines, write_list
from stellwerk.cli.render.events import columns, line_of
from stellwerk.cli.session import complete_names, connect, now_ms
from stellwerk.client.api import Client
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import EventRecord, Show
from stellwerk.core.model.errors import StellwerkError

SHOWN = 100
NAMED = 500


@click.command("events", epilog="Example: stw events -f")
@click.argument("workload", required=False, shell_complete=complete_names)
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@click.option(
    "--after", type=click.IntRange(0), metavar="SEQ", help="Only after this sequence number."
)
@click.option(
    "-n",
    "--last",
    type=click.IntRange(0),
    metavar="N",
    default=SHOWN,
    help=f"At most so many of the last (default {SHOWN}); 0 for all.",
)
@list_options
def events(
    workload: str | None, follow: bool, after: int | None, last: int, output: Output
) -> None:
    """Print the journal: what happened, in order."""
    client = connect()
    start = after
    if start is None:
        newest = client.server_status().seq
        start = max(0, newest - last) if last and not workload else 0
    records = list(client.events(after=start, workload=workload))
    shown = records[-last:] if last else records
    names = _names(client) if output.for_people else {}
    write_list(
        shown,
        columns(now_ms(), names),
        output,
        name=lambda record: str(record.seq),
        empty="" if follow else "nothing happened yet",
        then="" if follow else "next: stw events -f, or: stw story NAME",
    )
    if follow:
        newest = records[-1].seq if records else start
        for record in client.events(after=newest, follow=True, workload=workload):
            if record.type == "submitted":
                names[str(record.event["submit"]["id"])] = str(record.event["submit"]["name"])
            _print(record, output, names)


@click.command("story", epilog="Example: stw story digits")
@click.argument("name", shell_complete=complete_names)
@list_options
def story(name: str, output: Output) -> None:
    """Print one workload's whole history, a sentence per fact."""
    client = connect()
    found = _workload(client, name)
    records = list(client.events(workload=found.id))
    names = {found.id: found.name, **_names_of_others(client, records)}
    if output.for_people and not records:
        narrate(f"the story of {found.name} is told to {found.owner} and administrators alone")
        return
    write_list(records, columns(now_ms(), names), output, name=lambda record: str(record.seq))
    if output.for_people:
        for line in [*family.later_ones(client, name, found), f"next: stw show {found.name}"]:
            narrate(line)


def _workload(client: Client, name: str) -> Show:
    """The workload of a name; a placement, which has no story, is told with what it has."""
    try:
        return client.get(name)
    except ApiError as error:
        key = _placement(client, name) if error.code == "find/workload" else ""
        if not key:
            raise
        message, help = f"`{name}` is a placement", f"stw placement history {key}"
        raise CommandError(error.code, message, help, exit_code=error.exit_code) from error


def _placement(client: Client, name: str) -> str:
    try:
        return client.placement(name).row.key
    except StellwerkError:
        return ""


def _names_of_others(client: Client, records: Sequence[EventRecord]) -> dict[str, str]:
    """The names of those from whose checkpoints it goes on."""
    names = {}
    for id in dict.fromkeys(one.event.get("submit", {}).get("resumes", "") for one in records):
        if id:
            with contextlib.suppress(ApiError):  # it isn't kept any more: its id must do
                names[id] = client.get(id).name
    return names


def _names(client: Client) -> dict[str, str]:
    """The names of the newest workloads, for ids in the journal."""
    return {row.id: row.name for row in client.list(all=True, limit=NAMED)}


def _print(record: EventRecord, output: Output, names: dict[str, str]) -> None:
    if output.for_people:
        write_lines([line_of(record, now_ms(), names)])
    elif output.format == "name":
        write_lines([str(record.seq)])
    else:
        write_data(msgspec.to_builtins(record), "jsonl")
    sys.stdout.flush()
