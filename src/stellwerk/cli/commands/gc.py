"""`stw gc`: removes what is kept too long, or says what that would be."""

import sys

import click
from msgspec import structs, to_builtins

from stellwerk.cli.errors import FAILED, StopError, usage
from stellwerk.cli.output import Output, list_options, write_data, write_list
from stellwerk.cli.render.swept import columns, summary
from stellwerk.cli.session import connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.wire import Swept

KINDS = (
    "runs",
    "outputs",
    "checkpoints",
    "strays",
    "workloads",
    "decisions",
    "commands",
    "blobs",
    "secrets",
)


@click.command("gc", epilog="Example: stw gc --dry-run   stw gc --older-than 7d")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option(
    "--older-than",
    metavar="7d",
    help="Runs whose workload ended longer ago; with --only, of those kinds.",
)
@click.option(
    "--only", multiple=True, type=click.Choice(KINDS), metavar="KIND", help="Only this kind."
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@list_options
def command(
    dry_run: bool, older_than: str | None, only: tuple[str, ...], yes: bool, output: Output
) -> int:
    """Remove what is kept longer than the settings say and referred to by nothing.

    The server does this by itself once a day. Results and checkpoints go only when you name them,
    or where a setting says so; the journal stays.
    """
    client = connect()
    age_s = None if older_than is None else _seconds(older_than)
    asked_for_more = older_than is not None or bool(only)
    if not dry_run and asked_for_more and not yes:
        _confirm(client.gc(dry_run=True, older_than_s=age_s, only=only))
    swept = last = client.gc(dry_run=dry_run, older_than_s=age_s, only=only)
    while last.more and not dry_run and any(one.count for one in last.items):
        last = client.gc(older_than_s=age_s, only=only)
        swept = together(swept, last)
    words = [f"--older-than {older_than}"] if older_than is not None else []
    words += [f"--only {one}" for one in only]
    _write(swept, output, " ".join(["stw gc", *words]))
    return FAILED if any(one.failed for one in swept.items) else 0


def together(before: Swept, last: Swept) -> Swept:
    """Two sweeps as one: what went adds up, what is left is what was left last."""
    gone = {one.kind: one for one in before.items}
    items = [
        structs.replace(
            one, count=one.count + gone[one.kind].count, bytes=one.bytes + gone[one.kind].bytes
        )
        for one in last.items
    ]
    return structs.replace(last, items=items)


def _write(swept: Swept, output: Output, really: str) -> None:
    if output.format in {"json", "yaml"} and not output.columns:
        write_data(to_builtins(swept), output.format)
        return
    would_go = swept.dry_run and any(one.count for one in swept.items)
    then = f"next: {really}" if would_go else "next: stw config show"
    write_list(
        swept.items,
        columns(swept),
        output,
        name=lambda one: one.kind,
        then=f"{summary(swept)}.   {then}",
    )


def _seconds(written: str) -> float:
    from stellwerk.core.model.quantity import BadQuantity, parse_duration

    found = parse_duration(written)
    if isinstance(found, BadQuantity):
        raise usage("usage/duration", f"`{written}` is no time: {found.message}", found.help)
    return found / 1000


def _confirm(would: Swept) -> None:
    """Asks before more is removed than the server would remove by itself."""
    narrator = Narrator()
    if not (sys.stdin.isatty() and narrator.terminal.is_tty):
        raise usage("usage/confirm", "this removes more than time would", "add --yes")
    if narrator.ask(f"{summary(would)}: remove it?", {"n": "no", "y": "yes"}) != "y":
        raise StopError(FAILED)
