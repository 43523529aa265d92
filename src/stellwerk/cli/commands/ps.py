"""`stw ps`: lists workloads."""

import shlex
from fnmatch import fnmatchcase

import click

from stellwerk.cli.arrays import row_of
from stellwerk.cli.output import Output, limit_option, list_options, most_of, write_list
from stellwerk.cli.render.phases import DOING
from stellwerk.cli.render.workloads import columns
from stellwerk.cli.session import complete_names, connect, label_of, now_ms, parse_labels
from stellwerk.cli.watching import watched
from stellwerk.client.api import Client
from stellwerk.client.parts import Query, list_query
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Row
from stellwerk.core.model.gates import ARRAY_LABEL


@click.command("ps", epilog="Example: stw ps -A 'sweep-*' --phase Failed")
@click.argument("pattern", required=False, metavar="[PATTERN]", shell_complete=complete_names)
@click.option("-A", "--all", "everything", is_flag=True, help="Those that have ended, too.")
@click.option(
    "-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="With this label."
)
@click.option(
    "--phase",
    shell_complete=lambda _ctx, _param, typed: [one for one in DOING if one.startswith(typed)],
    help="In this phase, e.g. Running or Failed.",
)
@click.option("-u", "--user", metavar="USER", help="Of this person.")
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@limit_option
@list_options
def command(
    pattern: str | None,
    everything: bool,
    labels: tuple[str, ...],
    phase: str | None,
    user: str | None,
    watch: bool,
    limit: int | None,
    output: Output,
) -> None:
    """List workloads: those that wait or run, with -A all, newest first."""
    client = connect()
    query = list_query(
        all=everything or _names_an_end(phase),
        labels=parse_labels(labels),
        phase=_spelled(phase),
        owner=user,
    )
    most = most_of(limit, output)

    def show() -> None:
        if output.for_people and not (pattern or labels or phase or user):
            rows, total = _folded(
                client, query, None if output.sort else most, everything=everything
            )
        else:
            rows, total = _rows(client, query, pattern, most, whole=bool(output.sort))
        write_list(
            rows,
            columns(now_ms(), owners=len({row.owner for row in rows}) > 1),
            output,
            name=label_of,
            empty=_nothing(everything, bool(pattern or labels or phase or user)),
            then=_then(rows, query, pattern),
            most=most,
            total=total,
            rest=f"{_same(query, pattern)} --limit 0",
        )

    watched(client, show) if watch else show()


def _rows(
    client: Client, query: Query, pattern: str | None, most: int | None, *, whole: bool
) -> tuple[list[Row], int | None]:
    """The rows to show, and how many there are. What is chosen or ordered here is read `whole`."""
    if most is not None and not pattern and not whole:
        found = client.listing(query, limit=most, total=True)
        return found.items, found.total
    rows = client.listing(query).items
    if pattern:
        rows = [row for row in rows if _matches(row, pattern)]
    return rows, len(rows)


def _folded(
    client: Client, query: Query, most: int | None, *, everything: bool
) -> tuple[list[Row], int | None]:
    """The rows with each array as one of them; `stw ps NAME` shows its elements."""
    found = client.listing([*query, ("elements", "0")], limit=most, total=True)
    try:
        arrays = client.arrays(all=everything)
    except ApiError:  # a server of an older version has none
        arrays = ()
    rows = [*found.items, *map(row_of, arrays)]
    if arrays:
        rows.sort(key=lambda row: -row.submitted_ms)
    return rows[:most], None if found.total is None else found.total + len(arrays)


def _spelled(phase: str | None) -> str | None:
    wanted = phase.capitalize() if phase and phase.islower() else phase
    return "SettingUp" if wanted and wanted.lower() == "settingup" else wanted


def _matches(row: Row, pattern: str) -> bool:
    in_array = row.labels.get(ARRAY_LABEL) == pattern
    return in_array or fnmatchcase(row.name, pattern) or row.id.startswith(pattern)


def _names_an_end(phase: str | None) -> bool:
    return (phase or "").lower() in {"succeeded", "failed", "cancelled"}


def _nothing(everything: bool, chosen: bool) -> str:
    """What an empty list means."""
    if chosen:
        return "none is like that" if everything else "none that waits or runs is like that"
    return "no workload yet" if everything else "nothing waits or runs"


def _same(query: Query, pattern: str | None, *, everything: bool = False) -> str:
    """The command that asks the same again, or the same of all."""
    said = {"label": "-l", "phase": "--phase", "owner": "-u"}
    asked = [part for key, value in query if key in said for part in (said[key], value)]
    every = everything or ("all", "1") in query
    return shlex.join(["stw", "ps", *["-A"] * every, *asked, *([pattern] if pattern else [])])


def _then(rows: list[Row], query: Query, pattern: str | None) -> str:
    for phase, verb in (("Failed", "show"), ("Pending", "explain"), ("Running", "logs -f")):
        for row in rows:
            if row.phase == phase:
                return f"next: stw {verb} {row.name}"
    if rows and rows[0].id.startswith("a-"):
        return f"next: stw ps {rows[0].name}"
    if rows:
        return f"next: stw show {rows[0].name}"
    if ("all", "1") in query:
        return "next: stw run task.yaml"
    return f"next: {_same(query, pattern, everything=True)}, or: stw run task.yaml"
