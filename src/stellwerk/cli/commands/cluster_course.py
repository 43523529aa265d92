"""`stw cluster drain|resume|rm`: keeps clusters and nodes free of work, and gives clusters up."""

import sys
import time
from datetime import datetime, timedelta

import click

from stellwerk.cli.commands.resume import nodes_by_cluster, take_back
from stellwerk.cli.completing import complete_clusters, complete_nodes
from stellwerk.cli.errors import FAILED, StopError, usage
from stellwerk.cli.output import Output, list_options, narrate, one_options, write_one
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.machines import Drained, NodeNow

LOOK_S = 1.0
SHOWN = 5


@click.command("drain", epilog="Example: stw cluster drain k017 pc03 --for 2h")
@click.argument("cluster", shell_complete=complete_clusters)
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--now", is_flag=True, help="What runs there gets notice and goes elsewhere.")
@click.option("--for", "lasting", metavar="2h", help="Resume it by itself after so long.")
@click.option(
    "--until", metavar="TIME", help="Resume it by itself then: 18:00, or 2026-12-01T08:00."
)
@one_options
def drain(
    cluster: str,
    nodes: tuple[str, ...],
    now: bool,
    lasting: str | None,
    until: str | None,
    output: Output,
) -> None:
    """Let nothing new start on a cluster, or on some of its nodes.

    What runs there goes on, or with --now is told to stop, has its time to save, and goes on
    elsewhere. It lasts until `stw cluster resume`, or until the time that is named.
    """
    until_ms = _until(lasting, until)
    client = connect()
    drained = client.drain_cluster(cluster, nodes, now=now, until_ms=until_ms)
    write_one(drained, _lines(client, drained, now=now), output, name=cluster)
    if output.for_people:
        narrate(f"next: stw clusters, or: stw cluster resume {' '.join((cluster, *nodes))}")


def _lines(client: Client, drained: Drained, *, now: bool) -> list[str]:
    lines = [f"{drained.cluster}/{one.name}: {_state(one)}" for one in drained.nodes]
    if drained.runs:
        what = "are told to stop, and go elsewhere" if now else "go on to their end"
        lines.append(f"runs there {what}: {_named(client, drained.runs)}")
    return lines


def _state(node: NodeNow) -> str:
    """`drained by ada since …`, whose state its note says already."""
    return node.note if node.note.startswith(node.state) else f"{node.state}, {node.note}"


def _named(client: Client, runs: list[str]) -> str:
    """Runs by the names of their workloads, which other commands take."""
    names = {row.id: row.name for row in client.list()}
    shown = [names.get(run.rpartition("-")[0], run) for run in runs[:SHOWN]]
    return ", ".join(shown) + (f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else "")


def _until(lasting: str | None, until: str | None) -> int:
    """When a drain ends by itself; 0 = it doesn't."""
    if lasting and until:
        raise usage("usage/duration", "--for and --until say two things", "give one of them")
    if lasting:
        from stellwerk.core.model.quantity import BadQuantity, parse_duration

        found = parse_duration(lasting)
        if isinstance(found, BadQuantity):
            raise usage("usage/duration", f"`{lasting}` is no time: {found.message}", found.help)
        return now_ms() + found
    return read_time(until, now_ms()) if until else 0


def read_time(written: str, now_at_ms: int) -> int:
    """A time of day, the next one that comes, or a date with a time; local where it has no zone."""
    now = datetime.fromtimestamp(now_at_ms / 1000).astimezone()
    try:
        if "T" not in written and "-" not in written:
            of_day = datetime.strptime(written, "%H:%M").time()  # noqa: DTZ007 - a time of day
            found = datetime.combine(now.date(), of_day).astimezone()
            if found <= now:
                found = datetime.combine(now.date() + timedelta(days=1), of_day).astimezone()
        else:
            found = datetime.fromisoformat(written).astimezone()
    except ValueError as error:
        help = "write 18:00, or 2026-12-01T08:00"
        raise usage("usage/time", f"`{written}` is no time", help) from error
    if found <= now:
        raise usage("usage/time", f"{written} is over", "name a time that is to come")
    return int(found.timestamp() * 1000)


@click.command("resume", epilog="Example: stw cluster resume k017   stw cluster resume k017 pc03")
@click.argument("cluster", shell_complete=complete_nodes)
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@list_options
def resume(cluster: str, nodes: tuple[str, ...], output: Output) -> None:
    """Take a cluster, or some nodes, back into use: drained or quarantined ones alike."""
    places = [f"{cluster}/{node}" for node in nodes] or [cluster]
    take_back(nodes_by_cluster(places), output)


@click.command("rm", epilog="Example: stw cluster rm k017   stw cluster rm k017 --drain --purge")
@click.argument("name", shell_complete=complete_clusters)
@click.option("--drain", "drains", is_flag=True, help="Wait until nothing runs there any more.")
@click.option("--now", is_flag=True, help="With --drain: what runs there goes elsewhere.")
@click.option(
    "--purge", is_flag=True, help="Remove all that lies there: runs, results, checkpoints."
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask before --purge.")
def rm(name: str, drains: bool, now: bool, purge: bool, yes: bool) -> None:
    """Remove a cluster on which nothing runs, and end what was started on its machines.

    What lies there stays, unless --purge says otherwise. Work that waits for it is told so.
    """
    if now and not drains:
        raise usage("usage/now", "--now says how to drain", "add --drain")
    if purge and not yes:
        _confirm(name)
    client = connect()
    if drains:
        _wait_until_empty(client, name, now=now)
    removed = client.remove_ssh_cluster(name, purge=purge)
    narrate(f"removed {name}")
    for host in removed.hosts:
        if host.message:
            Narrator().insist(host.message)
        elif host.purged:
            narrate(f"{host.host}: nothing of it is left")
    if removed.hosts and not purge:
        narrate("what it kept lies in ~/.local/state/stellwerk there; --purge removes that too")
    if purge and not all(host.purged for host in removed.hosts):
        raise StopError(FAILED)


def _confirm(name: str) -> None:
    """Asks before results are removed that somebody may still want."""
    narrator = Narrator()
    if not (sys.stdin.isatty() and narrator.terminal.is_tty):
        raise usage("usage/confirm", "--purge removes results and checkpoints", "add --yes")
    question = f"remove all runs, results and checkpoints on {name}?"
    if narrator.ask(question, {"n": "no", "y": "yes"}) != "y":
        raise StopError(FAILED)


def _wait_until_empty(client: Client, name: str, *, now: bool) -> None:
    """Waits for the end of all that runs there; whoever breaks it off leaves it drained."""
    client.drain_cluster(name, now=now)
    told: list[str] = []
    while True:
        found = next((one for one in client.clusters() if one.name == name), None)
        runs = found.runs if found is not None else []
        if not runs:
            return
        if runs != told:
            narrate(f"{name} is drained; still running there: {_named(client, runs)}")
            told = list(runs)
        time.sleep(LOOK_S)
