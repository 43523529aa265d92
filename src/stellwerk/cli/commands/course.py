"""The verbs that change a workload's course: cancel, hold, release, prio, lost."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from stellwerk.cli.errors import StopError, exit_code_of, lines_of, usage
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.session import chosen_names, complete_live, connect
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.wire import Changed
from stellwerk.core.model.errors import StellwerkError

LIVE = "Pending Held Starting Dispatched SettingUp Running Stopping"
AT_ONCE = 16
TOLD = 20
COLUMNS: list[Column[Changed]] = [
    Column("name", "NAME", lambda changed: changed.name),
    Column("id", "ID", lambda changed: changed.id, wide=True),
    Column("phase", "PHASE", lambda changed: phase_cell(changed.phase)),
]


def _which(command: Any) -> Any:
    """Names, labels or all."""
    for decorator in reversed(
        [
            click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_live),
            click.option(
                "-l",
                "--label",
                "labels",
                multiple=True,
                metavar="KEY=VALUE",
                help="All live workloads with this label.",
            ),
            click.option("--all", "everything", is_flag=True, help="All of them."),
        ]
    ):
        command = decorator(command)
    return command


@click.command("cancel", epilog="Example: stw cancel digits   stw cancel -l sweep=lr --now")
@_which
@click.option("--now", is_flag=True, help="Kill at once, without notice and grace.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask before cancelling all.")
@list_options
def cancel(
    names: tuple[str, ...],
    labels: tuple[str, ...],
    everything: bool,
    now: bool,
    yes: bool,
    output: Output,
) -> None:
    """End workloads: a waiting one at once, a running one by notice and grace."""
    client = connect()
    chosen = chosen_names(client, names, labels, everything=everything, phases=LIVE)
    if everything and chosen and not yes:
        _confirm(len(chosen))
    _each(client, chosen, lambda asked, name: asked.cancel(name, now=now), output, _ending)


@click.command("hold", epilog="Example: stw hold digits")
@_which
@list_options
def hold(names: tuple[str, ...], labels: tuple[str, ...], everything: bool, output: Output) -> None:
    """Keep waiting workloads from starting, until `stw release`."""
    client = connect()
    chosen = chosen_names(client, names, labels, everything=everything, phases="Pending")
    _each(client, chosen, Client.hold, output, lambda _: "held back")


@click.command("release", epilog="Example: stw release digits")
@_which
@list_options
def release(
    names: tuple[str, ...], labels: tuple[str, ...], everything: bool, output: Output
) -> None:
    """Let held workloads start."""
    client = connect()
    chosen = chosen_names(client, names, labels, everything=everything, phases="Held")
    _each(client, chosen, Client.release, output, lambda _: "released")


@click.command(
    "prio",
    epilog="Example: stw prio 10 digits   stw prio -- -5 sweep-1 sweep-2",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("priority", type=click.IntRange(-1000, 1000))
@_which
@list_options
def prio(
    priority: int,
    names: tuple[str, ...],
    labels: tuple[str, ...],
    everything: bool,
    output: Output,
) -> None:
    """Give waiting workloads another priority (-1000 to 1000, higher goes first)."""
    client = connect()
    chosen = chosen_names(client, names, labels, everything=everything, phases="Pending Held")
    _each(
        client,
        chosen,
        lambda asked, name: asked.set_priority(name, priority),
        output,
        lambda _: f"given priority {priority}",
    )


@click.command("lost", epilog="Example: stw lost digits")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_live)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@list_options
def lost(names: tuple[str, ...], yes: bool, output: Output) -> None:
    """Say that the runs of workloads on unreachable machines are over.

    Only then are they started elsewhere. If a machine is merely cut off, its job would run twice.
    """
    client = connect()
    if not yes:
        _confirm(len(names), "give up runs whose machines may only be cut off")
    _each(client, names, Client.declare_lost, output, lambda _: "given up")


def _ending(phase: str) -> str:
    """What `cancel` has come to, by the phase that a workload is in now."""
    if phase == "Cancelled":
        return "cancelled"
    return "asked to end" if phase in LIVE.split() else f"ended before that: {phase}"


def _confirm(count: int, what: str = "cancel") -> None:
    narrator = Narrator()
    if not (sys.stdin.isatty() and narrator.terminal.is_tty):
        raise usage("usage/confirm", f"{what}: {count} workloads, without being asked", "add --yes")
    if narrator.ask(f"{what}: {count} workloads?", {"n": "no", "y": "yes"}) != "y":
        raise StopError(1)


def _each(
    client: Client,
    names: Sequence[str],
    change: Callable[[Client, str], Changed],
    output: Output,
    done: Callable[[str], str],
) -> None:
    """Does it for each, tells every refusal, and ends with the code of the first one."""
    changed: list[Changed] = []
    code = 0
    narrator = Narrator()
    for outcome in _outcomes(client, names, change):
        if isinstance(outcome, Changed):
            changed.append(outcome)
            continue
        code = code or exit_code_of(outcome)
        for line in lines_of(outcome):
            narrator.insist(line)
    if output.for_people:
        _tell(changed, done, named=bool(names))
    else:
        write_list(changed, COLUMNS, output, name=lambda one: one.name)
    if code:
        raise StopError(code)


def _tell(changed: Sequence[Changed], done: Callable[[str], str], *, named: bool) -> None:
    for one in changed[:TOLD]:
        narrate(f"{one.name} {done(one.phase)}")
    if len(changed) > TOLD:
        how = {done(one.phase) for one in changed[TOLD:]}
        narrate(f"and {len(changed) - TOLD:,} more {how.pop() if len(how) == 1 else ''}".rstrip())
    if not named:
        narrate("none that waits or runs is like that; stw ps lists them")
    elif changed:
        narrate(f"next: stw show {changed[0].name}" if len(changed) == 1 else "next: stw ps")


def _outcomes(
    client: Client, names: Sequence[str], change: Callable[[Client, str], Changed]
) -> Iterator[Changed | StellwerkError]:
    """What became of each, in order; many are asked for at once, since each waits for the disk."""

    def one(asked: Client, name: str) -> Changed | StellwerkError:
        try:
            return change(asked, name)
        except StellwerkError as error:
            return error

    if len(names) <= AT_ONCE:
        yield from (one(client, name) for name in names)
        return
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import ExitStack
    from queue import SimpleQueue

    idle: SimpleQueue[Client] = SimpleQueue()

    def with_idle(name: str) -> Changed | StellwerkError:
        asked = idle.get()
        try:
            return one(asked, name)
        finally:
            idle.put(asked)

    with ExitStack() as closing, ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(AT_ONCE):
            idle.put(closing.enter_context(client.twin()))
        yield from pool.map(with_idle, names)
