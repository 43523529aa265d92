"""`stw placement`: standing policies that choose clusters, what they chose, and why."""

import click

from stellwerk.cli.commands.objects import apply_files
from stellwerk.cli.completing import complete_file
from stellwerk.cli.errors import CommandError, usage
from stellwerk.cli.output import (
    Output,
    list_options,
    narrate,
    one_options,
    write_data,
    write_list,
    write_one,
)
from stellwerk.cli.reading import text_of
from stellwerk.cli.render import placement as render
from stellwerk.cli.session import connect, now_ms, remembered
from stellwerk.client.api import Client
from stellwerk.client.placements import key_of


def complete_placements(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Keys of placements for a shell's completion."""
    keys = remembered("placements", lambda client: [one.key for one in client.placements()])
    return [key for key in keys if key.startswith(incomplete)]


@click.group(
    "placement",
    invoke_without_command=True,
    epilog="Example: stw placement apply -f fleet.yaml   then: stw placement explain NAME",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Policies that choose clusters for work, decided again whenever what they look at changes.

    Work names one by the label stellwerk/placement. Without a subcommand all are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(ls)


@command.command("ls", epilog="Example: stw placement ls -o wide")
@click.option("--own", is_flag=True, help="Those too that follow from wishes of work that lives.")
@list_options
def ls(own: bool = False, output: Output = Output()) -> None:  # noqa: B008 - click
    """List placements: what each has chosen, of how many that pass, and since when."""
    write_list(
        connect().placements(own=own),
        render.columns(now_ms()),
        output,
        name=lambda one: one.key,
        empty="there are no placements",
        then="next: stw placement explain NAME, or: stw placement apply -f FILE",
    )


@command.command("apply", epilog="Example: stw placement apply -f fleet.yaml --dry-run")
@click.option(
    "-f",
    "--file",
    "file",
    required=True,
    shell_complete=complete_file,
    help="A fleet file: placements, sets, bindings, scores, clusters; - for standard input.",
)
@click.option("--as", "name", default="", metavar="NAME", help="What the file is known by.")
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@one_options
def apply(file: str, name: str, dry_run: bool, output: Output) -> None:
    """Take over what a fleet file says, in the place of what it said before.

    A file is known by its name: applied again, clusters that aren't in it any more are no longer
    declared. Placements stay until they are deleted. With one fault nothing of it counts.
    """
    apply_files((file,), name, output, dry_run=dry_run, then="stw placement apply")


@command.command("show", epilog="Example: stw placement show vision/training -o yaml")
@click.argument("name", shell_complete=complete_placements)
@one_options
def show(name: str, output: Output) -> None:
    """Show a placement and its decision; -o yaml gives the object, to be applied again."""
    found = connect().placement(name)
    if output.format == "yaml":
        write_data(found.object, output.format)
        return
    lines = render.show_lines(found, output.terminal(), now_ms())
    write_one(found, lines, output, name=found.row.key)
    if output.for_people:
        narrate(f"next: stw placement explain {found.row.key}")


@command.command("explain", epilog="Example: stw placement explain training --if 'lose atlas'")
@click.argument("name", required=False, shell_complete=complete_placements)
@click.option("--cluster", "clusters", multiple=True, metavar="CLUSTER", help="Only this one.")
@click.option(
    "--if",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help="What would be chosen now, if: 'lose CLUSTER', 'label CLUSTER KEY=VALUE', …",
)
@click.option("--decision", default="", metavar="D", help="This decision, not the newest.")
@click.option("--diff", nargs=2, default=None, metavar="D1 D2", help="Why D2 isn't D1.")
@click.option("--replay", default="", metavar="D", help="Compute D again from what was stored.")
@one_options
def explain(
    name: str | None,
    clusters: tuple[str, ...],
    changes: tuple[str, ...],
    decision: str,
    diff: tuple[str, str] | None,
    replay: str,
    output: Output,
) -> None:
    """Say why these clusters and not others: rules with numbers, scores, and what would turn it."""
    client = connect()
    if diff is not None:
        found = client.compare_placements(*diff)
        write_one(found, render.difference_lines(found), output, name=found.key)
        return
    if replay:
        _replay(client, replay, output)
        return
    if name is None:
        raise usage("usage/missing", "the name of a placement is missing", "`stw placement` lists")
    told = client.explain_placement(name, clusters=clusters, changes=changes, decision=decision)
    lines = render.explain_lines(told, output.terminal(), now_ms())
    write_one(told, lines, output, name=told.key)


def _replay(client: Client, decision: str, output: Output) -> None:
    found = client.replay_placement(decision)
    write_one(found, render.replay_lines(found), output, name=found.decision)
    if found.same_version and not found.identical:
        raise CommandError(
            "placement/replay",
            f"{decision} does not come out again",
            "please report it with the output of -o json",
        )


@command.command("waves", epilog="Example: stw placement waves training -f strategy.yaml")
@click.argument("name", shell_complete=complete_placements)
@click.option(
    "-f",
    "--file",
    "file",
    required=True,
    shell_complete=complete_file,
    help="A rollout strategy of Open Cluster Management; - for standard input.",
)
@one_options
def waves(name: str, file: str, output: Output) -> None:
    """Say in which waves a change would go over the clusters that are chosen now.

    Each cluster is taken to succeed in no time and to soak as long as is asked. Nothing is changed.
    """
    from stellwerk.core.describe.rollout_strategy import read_rollout_strategy
    from stellwerk.core.model.rollout import RolloutGroup
    from stellwerk.core.rollout.waves import waves as played

    strategy = read_rollout_strategy(text_of(file), file=file)
    show = connect().placement(name)
    groups = [RolloutGroup(one.name, tuple(one.clusters)) for one in show.groups]
    found = played(strategy, groups)
    write_one(found, render.wave_lines(found), output, name=show.row.key)


@command.command("history", epilog="Example: stw placement history training")
@click.argument("name", shell_complete=complete_placements)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="At most.")
@list_options
def history(name: str, limit: int, output: Output) -> None:
    """List what was decided for a placement, newest first, with the reasons for each change."""
    write_list(
        connect().placement_history(name, limit).items,
        render.history_columns(now_ms()),
        output,
        name=lambda one: one.decision,
        then="next: stw placement explain --diff D1 D2, or: --replay D",
    )


@command.command("delete", epilog="Example: stw placement delete vision/training")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_placements)
def delete(names: tuple[str, ...]) -> None:
    """Forget placements. Work that names one waits until it is applied again."""
    client = connect()
    for name in names:
        client.delete_placement(name)
        narrate(f"deleted {key_of(name)}")
