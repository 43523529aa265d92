"""`stw ps`: lists workloads."""

from fnmatch import fnmatchcase

import click

from stellwerk.cli.output import Output, list_options, write_list
from stellwerk.cli.render.phases import DOING
from stellwerk.cli.render.workloads import columns
from stellwerk.cli.session import connect, label_of, now_ms, parse_labels
from stellwerk.cli.watching import watched
from stellwerk.client.api import Client
from stellwerk.client.wire import Row


@click.command("ps", epilog="Example: stw ps -A 'sweep-*' --phase Failed")
@click.argument("pattern", required=False, metavar="[PATTERN]")
@click.option("-A", "--all", "everything", is_flag=True, help="Those that have ended, too.")
@click.option(
    "-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="With this label."
)
@click.option(
    "--phase",
    shell_complete=lambda _ctx, _param, typed: [one for one in DOING if one.startswith(typed)],
    help="In this phase, e.g. Running or Failed.",
)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it changes.")
@list_options
def command(
    pattern: str | None,
    everything: bool,
    labels: tuple[str, ...],
    phase: str | None,
    watch: bool,
    output: Output,
) -> None:
    """List workloads: those that wait or run, with -A all, newest first."""
    client = connect()

    def show() -> None:
        rows = _rows(client, pattern, everything or _names_an_end(phase), labels, phase)
        write_list(
            rows,
            columns(now_ms()),
            output,
            name=label_of,
            empty=_nothing(everything, bool(pattern or labels or phase)),
            then=_then(rows, everything),
        )

    watched(client, show) if watch else show()


def _rows(
    client: Client,
    pattern: str | None,
    everything: bool,
    labels: tuple[str, ...],
    phase: str | None,
) -> list[Row]:
    wanted = phase.capitalize() if phase and phase.islower() else phase
    wanted = "SettingUp" if wanted and wanted.lower() == "settingup" else wanted
    rows = client.list(all=everything, labels=parse_labels(labels), phase=wanted)
    return [row for row in rows if not pattern or _matches(row, pattern)]


def _matches(row: Row, pattern: str) -> bool:
    return fnmatchcase(row.name, pattern) or row.id.startswith(pattern)


def _names_an_end(phase: str | None) -> bool:
    return (phase or "").lower() in {"succeeded", "failed", "cancelled"}


def _nothing(everything: bool, chosen: bool) -> str:
    """What an empty list means."""
    if chosen:
        return "none is like that" if everything else "none that waits or runs is like that"
    return "no workload yet" if everything else "nothing waits or runs"


def _then(rows: list[Row], everything: bool) -> str:
    for phase, verb in (("Failed", "show"), ("Pending", "explain"), ("Running", "logs -f")):
        for row in rows:
            if row.phase == phase:
                return f"next: stw {verb} {row.name}"
    if rows:
        return f"next: stw show {rows[0].name}"
    return "next: stw run task.yaml" if everything else "next: stw ps -A, or: stw run task.yaml"
