"""`stw explain`: the decision behind where a workload is, or why it waits."""

from collections.abc import Sequence
from typing import NamedTuple

import click
from msgspec import structs

from stellwerk.cli import family
from stellwerk.cli.completing import complete_clusters
from stellwerk.cli.errors import NOT_FOUND, CommandError, usage
from stellwerk.cli.output import Output, narrate, one_options, write_lines, write_one
from stellwerk.cli.render import explain_cluster, explain_if, placement
from stellwerk.cli.render.ahead import start_line
from stellwerk.cli.render.explain import lines_of
from stellwerk.cli.session import complete_names, connect, forecasts, now_ms
from stellwerk.client.api import Client
from stellwerk.client.wire import ENDED, Explained, RunView

EXAMPLES = """\b
Example: stw explain digits --run 1
  stw explain digits --cluster k001    this one: rules, nodes, what would let it in
  stw explain digits --if 'free k001'  what would become of it then
  stw explain digits --diff            why it was decided otherwise than before
  stw explain digits --replay          decide the same again
"""


class Asked(NamedTuple):
    """What of a workload is asked for."""

    name: str
    decisions: tuple[str, ...]
    run: int | None
    cluster: str
    changes: tuple[str, ...]
    diff: bool
    replay: bool


@click.command("explain", epilog=EXAMPLES)
@click.argument("name", shell_complete=complete_names, required=False)
@click.argument("decisions", nargs=-1, metavar="[D1 D2]")
@click.option("--run", type=click.IntRange(1), metavar="N", help="The decision of this run.")
@click.option(
    "--cluster",
    default="",
    metavar="C",
    shell_complete=complete_clusters,
    help="Everything about this one candidate.",
)
@click.option(
    "--if",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help="What would become of it, if: 'free lab', 'drain lab/n2'; --if help lists them.",
)
@click.option("--diff", is_flag=True, help="Why decision D2 isn't D1; else the last two.")
@click.option("--replay", is_flag=True, help="Decide D1 again, else the newest; it must be equal.")
@one_options
def command(
    name: str | None,
    decisions: tuple[str, ...],
    run: int | None,
    cluster: str,
    changes: tuple[str, ...],
    diff: bool,
    replay: bool,
    output: Output,
) -> None:
    """Say why it is here and not there, or why it waits, and what would change that.

    Of what waits also when it could start, and who holds what it waits for. Nothing is changed:
    --if looks at a copy. D1 and D2 are decisions as explain names them, or `now`.
    """
    if "help" in changes:
        write_lines(_changes_help())
        return
    if name is None:
        raise usage("usage/missing", "the name of a workload is missing", "`stw ps` lists them")
    asked = Asked(name, decisions, run, cluster, changes, diff, replay)
    _check(asked)
    client = connect()
    if asked.cluster:
        on_one = client.explain_cluster(name, cluster, run)
        lines = explain_cluster.lines_of(on_one, output.terminal(), now_ms())
        write_one(on_one, lines, output, name=on_one.name)
    elif changes:
        answer = client.explain_if(name, changes)
        lines = explain_if.lines_of(answer, output.terminal(), now_ms())
        write_one(answer, lines, output, name=answer.name)
    elif diff:
        found = client.compare_decisions(name, *decisions)
        write_one(found, explain_if.difference_lines(found), output, name=found.key)
    elif replay:
        _replay(client, asked, output)
    else:
        _explain(client, name, run, output)


def _check(asked: Asked) -> None:
    """Says which of what was asked can't be answered together."""
    ways = {
        "--cluster": bool(asked.cluster),
        "--if": bool(asked.changes),
        "--diff": asked.diff,
        "--replay": asked.replay,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise usage("usage/options", f"{' and '.join(given)} can't be asked together", "ask twice")
    if asked.run is not None and given and given != ["--cluster"]:
        help = "`--run` alone tells the decision of a run"
        raise usage("usage/options", f"--run and {given[0]} can't be asked together", help)
    most = 2 if asked.diff else 1 if asked.replay else 0
    if len(asked.decisions) > most:
        beyond = asked.decisions[most]
        help = "decisions go with --diff [D1 D2] or --replay [D]"
        raise usage("usage/argument", f"`{beyond}` is one word too many", help)


def _changes_help() -> list[str]:
    from stellwerk.core.place.live_changes import live_change_forms

    rows = live_change_forms().values()
    forms = {form.replace("` or `", " | "): about for form, about in rows}
    width = max(map(len, forms))
    lines = [f"{form:<{width}}  {about}" for form, about in forms.items()]
    first = 1 + next(place for place, form in enumerate(forms) if form.startswith("ask "))
    told = "where the work names a placement, what that looks at:"
    return [*lines[:first], told, *lines[first:]]


def _replay(client: Client, asked: Asked, output: Output) -> None:
    decision = asked.decisions[0] if asked.decisions else ""
    found = client.replay_decision(asked.name, decision)
    write_one(found, placement.replay_lines(found), output, name=found.decision)
    if found.same_version and not found.identical:
        raise CommandError(
            "explain/replay",
            f"{found.decision} does not come out again",
            "please report it with the output of -o json",
        )


def _explain(client: Client, name: str, run: int | None, output: Output) -> None:
    explained = client.explain(name, run)
    if run is not None:
        explained = _of_run(explained, run, client.get(explained.id or name).runs)
    lines = lines_of(explained, output.terminal(), now_ms())
    if output.for_people and explained.phase == "Pending":
        starts = forecasts(client, explained.id or name)
        lines += [start_line(found, now_ms()) for found in starts.values()]
    write_one(explained, lines, output, name=explained.name)
    if output.for_people:
        for line in _later_ones(client, name, explained):
            narrate(line)
        narrate(f"next: stw show {explained.name}")


def _later_ones(client: Client, name: str, explained: Explained) -> list[str]:
    """What else has this name by now, where what it names is over."""
    is_over = explained.phase in ENDED and name == explained.name
    return family.later_ones(client, name, client.get(explained.id or name)) if is_over else []


def _of_run(explained: Explained, number: int, runs: Sequence[RunView]) -> Explained:
    """The answer for one run: of an older one the reasons are those of its own end."""
    run = next((one for one in runs if one.number == number), None)
    if run is None:
        there = "it hasn't run yet"
        if runs:
            last = runs[-1].number
            there = f"it has runs 1 to {last}" if last > 1 else "it has run 1"
        what = f"{explained.name} has no run {number}"
        raise CommandError("find/run", what, there, exit_code=NOT_FOUND)
    if run is runs[-1]:
        return explained
    return structs.replace(explained, reasons=[run.reason] if run.reason else [])
