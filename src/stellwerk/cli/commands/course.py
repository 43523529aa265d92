"""The verbs that change a workload's course: cancel, hold, release, prio, lost."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from stellwerk.cli import family
from stellwerk.cli.errors import StopError, exit_code_of, lines_of, usage
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import age, plural
from stellwerk.cli.session import complete_live, connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.cli.which import one_by_one, which_options
from stellwerk.client.api import Client
from stellwerk.client.bulk import ChangedMany, Verb, Which
from stellwerk.client.wire import ENDED, Changed
from stellwerk.core.model.errors import Problem, StellwerkError

LIVE = "Pending Held Starting Dispatched SettingUp Running Stopping"
TOLD = 20
MOST = 1_000_000
COLUMNS: list[Column[Changed]] = [
    Column("name", "NAME", lambda changed: changed.name),
    Column("id", "ID", lambda changed: changed.id, wide=True),
    Column("phase", "PHASE", lambda changed: phase_cell(changed.phase)),
]


class _Change(NamedTuple):
    """What a verb does: to one, to many, and how that is told by the phase that comes of it."""

    verb: Verb
    one: Callable[[Client, str], Changed]
    done: Callable[[str], str]
    now: bool = False
    priority: int | None = None

    @property
    def typed(self) -> str:
        """The words before a name on a command line."""
        return self.verb if self.priority is None else f"prio -- {self.priority}"


@click.command("cancel", epilog="Example: stw cancel digits   stw cancel -l sweep=lr --now")
@which_options
@click.option("--now", is_flag=True, help="Kill at once, without notice and grace.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask before cancelling all.")
@list_options
def cancel(which: Which, dry_run: bool, now: bool, yes: bool, output: Output) -> None:
    """End workloads: a waiting one at once, a running one by notice and grace.

    A NAME may be a pattern: 'sweep-*'.
    """
    client = connect()
    if which.all and not yes and not dry_run:
        count = client.change_many("cancel", which, dry_run=True, show=0).count
        if count:
            _confirm(count)
    change = _Change("cancel", lambda asked, name: asked.cancel(name, now=now), _ending, now=now)
    _change(client, which, change, output, dry_run=dry_run)


@click.command("hold", epilog="Example: stw hold digits   stw hold 'sweep-*'")
@which_options
@list_options
def hold(which: Which, dry_run: bool, output: Output) -> None:
    """Keep waiting workloads from starting, until `stw release`."""
    change = _Change("hold", Client.hold, lambda _: "held back")
    _change(connect(), which, change, output, dry_run=dry_run)


@click.command("release", epilog="Example: stw release digits   stw release --all")
@which_options
@list_options
def release(which: Which, dry_run: bool, output: Output) -> None:
    """Let held workloads start."""
    change = _Change("release", Client.release, lambda _: "released")
    _change(connect(), which, change, output, dry_run=dry_run)


@click.command(
    "prio",
    epilog="Example: stw prio 10 digits   stw prio -- -5 sweep-1 sweep-2",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("priority", type=click.IntRange(-1000, 1000))
@which_options
@list_options
def prio(priority: int, which: Which, dry_run: bool, output: Output) -> None:
    """Give waiting workloads another priority (-1000 to 1000, higher goes first)."""
    change = _Change(
        "priority",
        lambda asked, name: asked.set_priority(name, priority),
        lambda _: f"given priority {priority}",
        priority=priority,
    )
    _change(connect(), which, change, output, dry_run=dry_run)


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
    _each(client, names, Client.declare_lost, output, lambda _: "given up", "lost")


def _ending(phase: str) -> str:
    """What `cancel` has come to, by the phase that a workload is in now."""
    if phase == "Cancelled":
        return "cancelled"
    return "asked to end" if phase in LIVE.split() else f"ended before that: {phase}"


def _confirm(count: int, what: str = "cancel") -> None:
    narrator = Narrator()
    if not (sys.stdin.isatty() and narrator.terminal.is_tty):
        told = f"{what} ({plural(count, 'workload')})? Nobody can be asked here"
        raise usage("usage/confirm", told, "add --yes")
    if narrator.ask(f"{what} ({plural(count, 'workload')})?", {"n": "no", "y": "yes"}) != "y":
        raise StopError(1)


def _change(
    client: Client, which: Which, change: _Change, output: Output, *, dry_run: bool
) -> None:
    """A few names are asked for one by one, everything else by one request."""
    if one_by_one(which) and not dry_run:
        _each(client, which.names, change.one, output, change.done, change.typed)
        return
    found = client.change_many(
        change.verb,
        which,
        now=change.now,
        priority=change.priority,
        dry_run=dry_run,
        show=TOLD if output.for_people else MOST,
    )
    narrator = Narrator()
    for one in found.refused:
        for line in lines_of(StellwerkError([Problem(one.code, one.message, one.help)])):
            narrator.insist(line)
    if output.for_people:
        _tell_many(found, change, named=bool(which.names))
    else:
        write_list(found.items, COLUMNS, output, name=lambda one: one.name)
    if found.refused:
        raise StopError(found.refused[0].exit)


def _tell_many(found: ChangedMany, change: _Change, *, named: bool) -> None:
    """How many, the first names, and where the others are."""
    if found.dry_run:
        for one in found.items:
            narrate(f"{one.name} is {one.phase}")
        if found.count > len(found.items):
            narrate(f"and {found.count - len(found.items):,} more")
        narrate(f"{plural(found.count, 'workload')}; nothing was changed")
        return
    left = Counter(found.phases)
    for one in found.items:
        done = f"{one.name} {change.done(one.phase)}"
        narrate(done if one.over_since_ms is None else _was_over(one))
        left[one.phase] -= 1
    rest = Counter[str]()
    for phase, count in left.items():
        rest[change.done(phase)] += count
    for how, count in rest.items():
        if count:
            narrate(f"and {count:,} more {how}")
    if found.count:
        narrate(f"next: stw show {found.items[0].name}" if found.count == 1 else "next: stw ps")
    elif not named:
        narrate("none is like that; stw ps lists what waits or runs")


def _was_over(one: Changed) -> str:
    """`long was over before (Succeeded 3 min ago)`: what is over wasn't ended by this."""
    return f"{one.name} was over before ({one.phase} {age(one.over_since_ms, now_ms())} ago)"


def _each(
    client: Client,
    names: Sequence[str],
    change: Callable[[Client, str], Changed],
    output: Output,
    done: Callable[[str], str],
    verb: str,
) -> None:
    """Does it for each, tells every refusal, and ends with the code of the first one."""
    changed: list[Changed] = []
    code = 0
    narrator = Narrator()
    for name in names:
        try:
            changed.append(change(client, name))
        except StellwerkError as error:
            code = code or exit_code_of(error)
            over = error.problems[0].code.startswith("phase/")
            for line in [*lines_of(error), *(family.live_ones(client, name, verb) if over else ())]:
                narrator.insist(line)
    over_before = [one for one in changed if one.phase in ENDED and one.over_since_ms is not None]
    for one in over_before:
        for line in [_was_over(one), *family.live_ones(client, one.name, verb)]:
            narrator.insist(line)
    if output.for_people:
        for one in (one for one in changed if one not in over_before):
            narrate(f"{one.name} {done(one.phase)}")
        if len(changed) == 1 and changed[0].id.startswith("a-"):
            narrate(f"next: stw ps -A {changed[0].name}")
        elif changed:
            narrate(f"next: stw show {changed[0].name}" if len(changed) == 1 else "next: stw ps")
    else:
        write_list(changed, COLUMNS, output, name=lambda one: one.name)
    if code:
        raise StopError(code)
