"""Plans tasks over a fleet that files describe: reads all of them, tells all that is wrong.

Nothing is asked of a server. What is wrong with any file ends it; with `lenient`, what is wrong in
the fleet file is told and counts as not there.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from stellwerk.cli.render.units import rfc3339
from stellwerk.core.describe.fleet import FleetRead, read_fleet
from stellwerk.core.describe.fleet_amounts import parse_moment
from stellwerk.core.describe.tasks import read_command, read_tasks
from stellwerk.core.inventory.health import fleet_at
from stellwerk.core.model.errors import Notice, Problem, StellwerkError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.fleet_plan import FleetPlanRecord, TaskRecord
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Existing
from stellwerk.core.model.task import Dag, Task
from stellwerk.core.place.change_verbs import meant
from stellwerk.core.place.changes import World, apply_changes
from stellwerk.core.place.fleet_moves import differences
from stellwerk.core.place.fleet_record import problems_of, record_of
from stellwerk.core.place.on_fleet import Ask, FleetPlan, plan_on_fleet
from stellwerk.core.place.placement_problems import problems_in
from stellwerk.core.place.policies import OPEN, policy_of

MOST_TOLD = 20


class FleetWish(NamedTuple):
    """What was typed: files, or a command in place of the tasks' files; flags hold for all tasks.

    `at_ms` is the moment that the plan is for.
    """

    fleet: str
    files: tuple[str, ...]
    at_ms: int
    argv: tuple[str, ...] | None = None
    flags: Mapping[str, Any] = {}
    env: Mapping[str, str | None] = {}
    changes: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    lenient: bool = False


class Named(NamedTuple):
    """A task with the name it has in the plan, the file it is from, and the task it follows."""

    name: str
    file: str
    task: Task
    follows: str = ""


def moment_ms(written: str | None) -> int:
    """The moment of `--at`, else now."""
    if written is None:
        return time.time_ns() // 1_000_000
    found = parse_moment(written)
    if found is None or found.tzinfo is None:
        remedy = "write `2026-12-01T18:00:00Z`, or with an offset such as `+01:00`"
        raise StellwerkError([Problem("usage/value", f"`{written}` is no moment", remedy)])
    return round(found.timestamp() * 1000)


def plan_fleet(wish: FleetWish) -> FleetPlanRecord:
    """The plan, with what the changes make of it; raises with everything that is wrong."""
    problems: list[Problem] = []
    read = _fleet(wish, problems)
    told = () if read is None else read.problems
    # What can't be read at all leaves nothing to go on with, however lenient.
    if read is not None and not (wish.lenient and read.fleet.clusters):
        problems += told
    named = _tasks(wish, problems)
    if read is not None and not problems and not read.fleet.clusters:
        remedy = "describe at least one `kind: Cluster` or `kind: ManagedCluster`"
        problems.append(Problem("fleet/empty", "the fleet has no cluster", remedy, wish.fleet))
    if read is None or problems:
        raise StellwerkError(dict.fromkeys(problems))
    fleet = fleet_at(read.fleet, wish.at_ms)
    world = World(fleet, (*read.placements, OPEN), wish.at_ms, tuple(t.task for t in named))
    before = _planned(world, named, ())
    _check(world.fleet, wish.only)
    at = rfc3339(wish.at_ms)
    notes = tuple(map(_told, read.notices))
    if not wish.changes:
        tasks = _records(before, named, wish.only)
        notes += _unknown_ends(before)
        return FleetPlanRecord(at=at, tasks=tasks, notes=notes, problems=told)
    changed = apply_changes(world, wish.changes)
    after = _planned(changed, named, before.decisions)
    tasks = _records(after, named, wish.only)
    moves = differences(_records(before, named), _records(after, named), after.answers)
    return FleetPlanRecord(
        at=at,
        asked_if=wish.changes,
        changes=moves,
        tasks=tasks,
        notes=(*notes, *_unknown_ends(after)),
        problems=told,
    )


def _fleet(wish: FleetWish, problems: list[Problem]) -> FleetRead | None:
    text = _text(wish.fleet, problems)
    if text is None:
        return None
    read = read_fleet(text, file=wish.fleet, now_ms=wish.at_ms)
    wrong = problems_in((one for one in read.placements if not one.compat), text, wish.fleet)
    # What the reference would trip over is what is asked of it, so that is told alone.
    trips = problems_in((one for one in read.placements if one.compat), text, wish.fleet)
    told = [
        Notice(one.code, f"{one.file}:{one.line}: {one.message}", path=one.path) for one in trips
    ]
    return replace(
        read, problems=(*read.problems, *wrong), notices=(*read.notices, *told[:MOST_TOLD])
    )


def _tasks(wish: FleetWish, problems: list[Problem]) -> tuple[Named, ...]:
    given = {"env": wish.env, "overrides": wish.flags}
    found: list[tuple[str, Task | Dag]] = []
    if wish.argv is not None:
        try:
            found.append(("", read_command(wish.argv, **given).task))
        except StellwerkError as error:
            problems += error.problems
    for file in wish.files:
        text = _text(file, problems)
        if text is None:
            continue
        try:
            found.append((file, _read(text, file, given)))
        except StellwerkError as error:
            # What can't be run yet can be planned all the same.
            problems += (one for one in error.problems if not one.code.startswith("unsupported/"))
    return _named(found)


def _read(text: str, file: str, given: Mapping[str, Any]) -> Task | Dag:
    if text.startswith("#!"):
        from stellwerk.core.describe.sbatch import read_batch

        return read_batch(text, file=file, **given).task
    return read_tasks(text, file=file, **given)


def _named(found: Iterable[tuple[str, Task | Dag]]) -> tuple[Named, ...]:
    """Tasks under names that differ: their own, or that of the file. Those of a pipeline follow
    each other.
    """
    named: list[Named] = []
    taken: dict[str, int] = {}
    for file, read in found:
        stem = os.path.basename(file).partition(".")[0]
        before = ""
        for task in read.tasks if isinstance(read, Dag) else (read,):
            name = task.name or stem or "task"
            taken[name] = taken.get(name, 0) + 1
            if taken[name] > 1:
                name = f"{name}-{taken[name]}"
            named.append(Named(name, file, replace(task, name=name), before))
            before = name if isinstance(read, Dag) and read.execution == "serial" else ""
    return tuple(named)


def _unknown_ends(plan: FleetPlan) -> tuple[str, ...]:
    """Of what follows something whose end nobody knows it is told that it may start later."""
    over = {one.ask.name: one.over_s for one in plan.answers}
    return tuple(
        f"{one.ask.name} follows {one.ask.follows}, and nobody knows when that is over: "
        "its times are as if that took none"
        for one in plan.answers
        if one.ask.follows and over[one.ask.follows] is None
    )


def _text(path: str, problems: list[Problem]) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        message = f"{path} can't be read: {error.strerror}"
        problems.append(Problem("spec/unreadable", message, "check the path"))
    except UnicodeDecodeError as error:
        message = f"byte {error.start} isn't UTF-8"
        problems.append(Problem("spec/encoding", message, "save it as UTF-8", path))
    return None


def _planned(world: World, named: Sequence[Named], existing: tuple[Existing, ...]) -> FleetPlan:
    """Plans the tasks of a world. Raises with all that is wrong with their policies and data."""
    placements: dict[str, Placement] = {one.key: one for one in world.placements}
    asks: list[Ask] = []
    problems: list[Problem] = []
    for one, task in zip(named, world.tasks, strict=True):
        policy = policy_of(task, placements, one.name)
        if isinstance(policy, Problem):
            problems.append(replace(policy, file=one.file))
        else:
            asks.append(Ask(one.name, task, policy, one.follows))
    plan = plan_on_fleet(asks, world.fleet, world.now_ms, existing)
    files = {one.name: one.file for one in named}
    for answer in plan.answers:
        wrong = problems_of(answer)
        problems += (replace(each, file=files[answer.ask.name]) for each in wrong)
    if problems:
        raise StellwerkError(dict.fromkeys(problems))
    return plan


def _records(
    plan: FleetPlan, named: Sequence[Named], only: tuple[str, ...] = ()
) -> tuple[TaskRecord, ...]:
    files = {one.name: one.file for one in named}
    return tuple(
        record_of(answer, file=files[answer.ask.name], only=only) for answer in plan.answers
    )


def _check(fleet: Fleet, only: tuple[str, ...]) -> None:
    known = [one.name for one in fleet.clusters]
    problems = [
        Problem("fleet/cluster", f"there is no cluster `{name}`{meant(name, known)}")
        for name in only
        if name not in known
    ]
    if problems:
        raise StellwerkError(problems)


def _told(notice: Notice) -> str:
    return notice.message + (f"; {notice.help}" if notice.help else "")
