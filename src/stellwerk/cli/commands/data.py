"""`stw data where|stage|rm`: models and data sets of the Hugging Face hub on machines."""

import time
from collections.abc import Sequence

import click

from stellwerk.cli.completing import complete_nodes
from stellwerk.cli.errors import CommandError, usage
from stellwerk.cli.output import Output, list_options, narrate, one_options, write_list, write_one
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.core.data.units import show_data
from stellwerk.core.model.data_there import DataCopy, DataThere, RemoveWish, StageWish
from stellwerk.core.model.quantity import BadQuantity, parse_size

LOOK_EVERY_S = 0.3
SHORT = 12
_WHOLE = {"proved": "whole", "links": "whole, not proved", "half": "half"}


@click.group("data", epilog="Example: stw data where   stw data stage hf://org/name@COMMIT k017")
def command() -> None:
    """See which machine has which data of the Hugging Face hub, copy it to others, remove it.

    What is whole in a machine's cache at the commit that a task names (`stellwerk/data`) draws the
    task there, and the task then reads it without asking the hub.
    """


@command.command("where", epilog="Example: stw data where   stw data where hf://datasets/org/name")
@click.argument("data", required=False)
@list_options
def where(data: str | None, output: Output) -> None:
    """List what caches of machines have, at which commit, and who uses it; or of one name."""
    found = connect().data()
    name, _, commit = (data or "").partition("@")
    items = [
        one
        for one in found.items
        if name in {"", one.data, one.data.removeprefix("hf://")}
        and one.revision.startswith(commit)
    ]
    if output.for_people:
        for each in (one for one in found.copies if one.state in {"waiting", "copying"}):
            narrate(copy_line(each))
    columns = [
        Column[DataThere]("data", "DATA", lambda one: one.data.removeprefix("hf://"), grows=True),
        Column[DataThere]("commit", "COMMIT", _commit),
        Column[DataThere]("machine", "MACHINE", machine_of),
        Column[DataThere]("size", "SIZE", _size, right=True),
        Column[DataThere]("whole", "STATE", state_of),
        Column[DataThere]("used_by", "USED BY", lambda one: ", ".join(one.used_by)),
        Column[DataThere]("place", "CACHE", lambda one: one.place, wide=True),
    ]
    empty = f"no machine's cache has {data}" if data else "no machine's cache of the hub has any"
    write_list(items, columns, output, name=lambda one: f"{one.data}@{one.revision}", empty=empty)


def _commit(one: DataThere) -> str:
    refs = f" ({', '.join(one.refs[:2])})" if one.refs else ""
    return one.revision[:SHORT] + refs


def machine_of(one: DataThere) -> str:
    """Where it is."""
    return one.cluster if one.cluster == one.node else f"{one.cluster}/{one.node}"


def _size(one: DataThere) -> str:
    return "?" if one.bytes is None else show_data(one.bytes)


def state_of(one: DataThere) -> str:
    """How whole it is there."""
    said = _WHOLE.get(one.whole, one.whole)
    if one.whole != "half":
        return said
    if one.missing_bytes is not None:
        said += f", lacks {show_data(one.missing_bytes)}"
    return said


@command.command(
    "stage", epilog="Example: stw data stage hf://datasets/org/name@COMMIT k017 --from server"
)
@click.argument("data", metavar="hf://…@COMMIT")
@click.argument("to", metavar="CLUSTER[/NODE]", shell_complete=complete_nodes)
@click.option(
    "--from", "source", default="", metavar="CLUSTER[/NODE]", shell_complete=complete_nodes,
    help="The machine that it is copied from (the best, if not said).",
)  # fmt: skip
@click.option(
    "--keep-free", metavar="SIZE",
    help="What stays free on the disk that it comes to (a twentieth of what is free now, at most "
    "50 GB, if not said).",
)  # fmt: skip
@click.option("--detach", "-d", is_flag=True, help="Don't wait until it is there.")
@one_options
def stage(
    data: str, to: str, source: str, keep_free: str | None, detach: bool, output: Output
) -> None:
    """Copy data from a machine that has it to one that doesn't, or to all of a room.

    It goes through the server, and each file is checked by its hash where it arrives. What was cut
    is gone on from when you ask again. One copy goes on at a time; Ctrl-C doesn't end it.
    """
    cluster, _, node = to.partition("/")
    wish = StageWish(data, node, source, read_size(keep_free))
    client = connect()
    begun = client.stage_data(cluster, wish)
    if not begun:
        write_one([], [f"all of it is on {to} already"], output)
        return
    if detach:
        write_one(begun, [copy_line(one) for one in begun], output)
        return
    ended = _followed(client, begun)
    write_one(ended, [copy_line(one) for one in ended], output)
    failed = [one for one in ended if one.state == "failed"]
    if failed:
        one = failed[0]
        more = f" ({len(failed)} of {len(ended)} copies failed)" if len(ended) > 1 else ""
        raise CommandError(one.code, one.message + more, one.help)


def read_size(written: str | None) -> int | None:
    """A size in bytes. Raises StellwerkError."""
    if written is None:
        return None
    size = parse_size(written)
    if isinstance(size, BadQuantity):
        raise usage("usage/size", f"`{written}` is no size", "such as 20GB")
    return int(size)


def _followed(client: Client, begun: Sequence[DataCopy]) -> list[DataCopy]:
    """Waits until copies are over, and shows how far they are."""
    narrator = Narrator()
    ids = [one.id for one in begun]
    while True:
        known = {one.id: one for one in client.data().copies}
        rows = [known.get(one.id, one) for one in begun if one.id in ids]
        now = next((one for one in rows if one.state == "copying"), None)
        if all(one.state in {"done", "failed"} for one in rows):
            narrator.end()
            return rows
        if now is not None:
            narrator.progress(copy_line(now))
        time.sleep(LOOK_EVERY_S)


def copy_line(one: DataCopy) -> str:
    """What goes where, and how far it is."""
    to = one.cluster if one.cluster == one.node else f"{one.cluster}/{one.node}"
    what = f"{one.data.removeprefix('hf://')}@{one.revision[:SHORT]}"
    way = f"{what}: {one.source} -> {to}"
    note = f" ({one.note})" if one.note else ""
    if one.state == "waiting":
        return f"{way}: waits for the copy before it"
    if one.state == "failed":
        return f"{way}: {one.message}"
    of = f"{show_data(one.done_bytes)} of {show_data(one.total_bytes)}"
    if one.state == "copying":
        part = f" ({100 * one.done_bytes // one.total_bytes} %)" if one.total_bytes else ""
        return f"{way}: {of}{part}"
    took_s = max(1, one.ended_ms - one.began_ms) / 1000
    return f"{way}: {show_data(one.total_bytes)} are there, after {took_s:.1f} s{note}"


@command.command("rm", epilog="Example: stw data rm hf://datasets/org/name@COMMIT k017/pc1")
@click.argument("data", metavar="hf://…@COMMIT")
@click.argument("at", metavar="CLUSTER[/NODE]", shell_complete=complete_nodes)
@one_options
def rm(data: str, at: str, output: Output) -> None:
    """Remove a commit from the cache of a machine, or of all of a cluster.

    Refused while a job that named it runs there, and while any program there has it open. What
    another commit has too stays.
    """
    cluster, _, node = at.partition("/")
    found = connect().remove_data(cluster, RemoveWish(data, node))
    lines = [f"{one.node}: {show_data(one.freed_bytes)} are free again" for one in found]
    write_one(found, lines, output)
