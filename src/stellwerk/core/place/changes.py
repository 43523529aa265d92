"""Decides what "if …" means: a change of a fleet, a policy or a task, in words, applied to a copy.

Each change is one phrase: a verb, where it applies, and the value. Nothing here is carried out; the
changed copies are planned on, and thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from math import ceil
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.task_wishes import WISHES, wishes_of
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.fleet import SetBinding
from stellwerk.core.model.placement import Limits, Placement, Prioritizer, Toleration
from stellwerk.core.model.placing import Change as Turn
from stellwerk.core.model.task import Task
from stellwerk.core.model.wishes import Wishes
from stellwerk.core.place import change_verbs as verbs
from stellwerk.core.place.amounts import digits, limit_that_admits
from stellwerk.core.place.change_verbs import BadChange, World, meant, number, span_ms, tainted
from stellwerk.core.place.compat import OWN_BUILT_INS, REFERENCE_BUILT_INS

__all__ = ["CHANGES", "World", "apply_changes", "phrase_of"]

WEIGHT_MAX = 10


def apply_changes(world: World, phrases: tuple[str, ...]) -> World:
    """Applies changes in their order; raises a StellwerkError with every phrase that is wrong."""
    problems = []
    for phrase in phrases:
        try:
            world = _apply(world, phrase)
        except BadChange as bad:
            problems.append(Problem("if/change", f"`{phrase}`: {bad}", _help(phrase)))
    if problems:
        raise StellwerkError(problems)
    return world


def _apply(world: World, phrase: str) -> World:
    verb, *words = phrase.split() or [""]
    change = CHANGES.get(verb)
    if change is not None and change.has_spaces:
        words = phrase.split(maxsplit=change.most)[1:]
    if change is None:
        raise BadChange(f"`{verb}` is no change" if verb else "nothing is changed")
    if not change.least <= len(words) <= change.most:
        counts = " or ".join(str(count) for count in range(change.least, change.most + 1))
        raise BadChange(f"`{verb}` takes {counts} word{'s' * (change.most > 1)} after it")
    return change.apply(world, *words)


def _help(phrase: str) -> str:
    verb = (phrase.split() or [""])[0]
    known = CHANGES.get(verb) or CHANGES.get((get_close_matches(verb, CHANGES, 1) or [""])[0])
    if known is not None:
        return f"write `{known.form}`"
    return f"changes are {', '.join(CHANGES)}"


def _placements_changed(world: World, change: Callable[[Placement], Placement]) -> World:
    if not world.placements:
        raise BadChange("there is no placement that it could change")
    return replace(world, placements=tuple(map(change, world.placements)))


def _weight(world: World, written: str) -> World:
    """Another weight of one score, in all placements; 0 takes it out of the sum."""
    title, _, value = written.partition("=")
    points = number(value, -WEIGHT_MAX, WEIGHT_MAX)
    if points != int(points):
        raise BadChange("a weight is a whole number")
    kind, _, rest = title.partition("/")
    resource, _, item = rest.partition("/")
    if kind == "AddOn" and item:
        changed = Prioritizer(item, int(points), resource)
    elif title in SCORES:
        changed = Prioritizer(title, int(points))
    else:
        raise BadChange(f"`{title}` is no score{meant(title, (*SCORES, 'AddOn/RESOURCE/NAME'))}")

    def weighted(placement: Placement) -> Placement:
        others = tuple(one for one in placement.prioritizers if one.title != title)
        return replace(placement, prioritizers=(*others, changed))

    return _placements_changed(world, weighted)


SCORES = REFERENCE_BUILT_INS + OWN_BUILT_INS


def _tolerate(world: World, written: str) -> World:
    """A toleration more, in all placements."""
    key, value, effect = tainted(written)
    given = Toleration(key, "Equal" if value else "Exists", value, effect)
    return _placements_changed(
        world, lambda one: replace(one, tolerations=(*one.tolerations, given))
    )


def _limit(world: World, written: str) -> World:
    """Another limit, wherever it is set; in all placements if it is set nowhere."""
    name, _, value = written.partition("=")
    reader = LIMITS.get(name)
    if reader is None:
        raise BadChange(f"`{name}` is no limit{meant(name, LIMITS)}")
    field, amount = reader[0], reader[1](world, value)

    def limited(limits: Limits) -> Limits:
        return replace(limits, **{field: amount})

    def wished(task: Task) -> Task:
        if task.wishes is None or not getattr(task.wishes.limits, field):
            return task
        return replace(task, wishes=replace(task.wishes, limits=limited(task.wishes.limits)))

    tasks = tuple(wished(one) for one in world.tasks)
    placements = tuple(
        replace(one, limits=limited(one.limits)) if getattr(one.limits, field) else one
        for one in world.placements
    )
    if (tasks, placements) == (world.tasks, world.placements) and amount:
        placements = tuple(replace(one, limits=limited(one.limits)) for one in placements)
    return replace(world, placements=placements, tasks=tasks)


def _usd(_: World, written: str) -> float:
    return number(written, 0, 1e9)


def _moment(world: World, written: str) -> int:
    return world.now_ms + span_ms(written)


def _ms(_: World, written: str) -> float:
    return number(written.removesuffix("ms"), 0, 1e6)


LIMITS: dict[str, tuple[str, Callable[[World, str], Any]]] = {
    "max-usd": ("usd_max", _usd),
    "max-usd-per-hour": ("usd_per_hour_max", _usd),
    "finish-by": ("finish_by_ms", _moment),
    "max-latency": ("latency_ms", _ms),
}
"""Limits by the names of their labels; `finish-by` is a time from now."""


def _bind(world: World, name: str, namespace: str) -> World:
    """A set that placements of a namespace may choose from."""
    known = [one.name for one in world.fleet.sets]
    if name not in known:
        raise BadChange(f"there is no cluster set `{name}`{meant(name, known)}")
    others = (
        one for one in world.fleet.bindings if not (one.implied and one.namespace == namespace)
    )
    bindings = (*others, SetBinding(namespace, name))
    return replace(world, fleet=replace(world.fleet, bindings=bindings))


def _wish(world: World, name: str, written: str) -> World:
    """Another wish of a task: a label `stellwerk/…` of it."""
    key, _, value = written.partition("=")
    key = key.removeprefix("stellwerk/")
    names = [one.name or "task" for one in world.tasks]
    if name not in names:
        raise BadChange(f"there is no task `{name}`{meant(name, names)}")
    reader = WISHES.get(key)
    if reader is None:
        raise BadChange(f"`{key}` is nothing that a task can wish{meant(key, WISHES)}")
    report = Report("")
    read = reader(report, Node("scalar", 0, 0, value), key)
    if report.problems:
        raise BadChange(report.problems[0].message)
    found = wishes_of({key: read})
    changed = replace(
        world.tasks[names.index(name)],
        wishes=_wished(world.tasks[names.index(name)].wishes or Wishes(), found or Wishes()),
    )
    tasks = (changed if one == name else task for one, task in zip(names, world.tasks, strict=True))
    return replace(world, tasks=tuple(tasks))


def _wished(before: Wishes, new: Wishes) -> Wishes:
    """Wishes in which what the new ones say holds before."""
    nothing = Wishes()
    said = {
        field: getattr(new, field)
        for field in Wishes.__struct_fields__
        if field != "limits" and getattr(new, field) != getattr(nothing, field)
    }
    limits = {
        field: getattr(new.limits, field)
        for field in Limits.__struct_fields__
        if getattr(new.limits, field) != getattr(nothing.limits, field)
    }
    return replace(before, limits=replace(before.limits, **limits), **said)


class Change(Struct, frozen=True):
    """How a change is written, how many words follow the verb, and what it does."""

    form: str
    least: int
    most: int
    apply: Callable[..., World]
    about: str
    has_spaces: bool = False
    """Whether the last word may be several."""


CHANGES: dict[str, Change] = {
    "lose": Change("lose CLUSTER` or `lose region=eu-central", 1, 1, verbs.lose, "it is gone"),
    "drain": Change("drain CLUSTER[/NODE]", 1, 1, verbs.drain, "nothing new comes onto it"),
    "resume": Change("resume CLUSTER[/NODE]", 1, 1, verbs.resume, "it can be used again"),
    "free": Change(
        "free CLUSTER [gpus=4]",
        1,
        2,
        verbs.free,
        "nobody has anything there; or so many cards are free, on one node if it has them",
    ),
    "add": Change("add CLUSTER H100:8", 2, 2, verbs.add, "one node more, with these"),
    "taint": Change("taint CLUSTER KEY=VALUE:NoSelect", 2, 2, verbs.taint, "work is kept away"),
    "untaint": Change("untaint CLUSTER KEY", 2, 2, verbs.untaint, "without that taint"),
    "tolerate": Change(
        "tolerate KEY=VALUE:NoSelect", 1, 1, _tolerate, "all placements tolerate it"
    ),
    "label": Change("label CLUSTER KEY=VALUE", 2, 2, verbs.label, "another label; KEY- for none"),
    "claim": Change("claim CLUSTER KEY=VALUE", 2, 2, verbs.claim, "another claim; KEY- for none"),
    "price": Change("price CLUSTER 2.50", 2, 2, verbs.price, "USD an hour for a node"),
    "wait": Change("wait CLUSTER 2h", 2, 2, verbs.wait, "how long its queue is"),
    "window": Change("window CLUSTER open", 2, 2, verbs.window, "open or closed"),
    "hold": Change("hold CLUSTER DATA@REVISION", 2, 2, verbs.hold, "the data is there"),
    "score": Change("score CLUSTER RESOURCE/NAME=50", 2, 2, verbs.score, "an add-on's score"),
    "bind": Change("bind SET NAMESPACE", 2, 2, _bind, "placements there may choose from the set"),
    "weight": Change("weight Cost=5", 1, 1, _weight, "a score's weight, in all placements"),
    "limit": Change("limit max-usd=200", 1, 1, _limit, "a limit, wherever it is set"),
    "wish": Change("wish TASK max-usd=200", 2, 2, _wish, "a label `stellwerk/…` of a task", True),
}
"""Every change that can be asked about."""


def phrase_of(cluster: str, change: Turn | None) -> str:
    """The phrase that makes the change that a failed rule asks for; "" where there is none."""
    if change is None:
        return ""
    value = f"={change.value}" if change.value else ""
    match change.kind:
        case "label" | "claim":
            return f"{change.kind} {cluster} {change.key}={change.value}"
        case "unlabel" | "unclaim":
            return f"{change.kind[2:]} {cluster} {change.key}-"
        case "tolerate":
            return f"tolerate {change.key}{value}:{change.effect}"
        case "limit":
            return _limit_phrase(change)
        case "open":
            return f"window {cluster} open"
        case "free":
            if change.key == "ready nodes":
                return f"resume {cluster}"
            return f"free {cluster} {change.effect}".rstrip()
        case _:
            return ""


def _limit_phrase(change: Turn) -> str:
    names = {field: name for name, (field, _) in LIMITS.items()}
    name = names.get(change.key, "")
    value = float(change.value)
    if name == "finish-by":
        return f"limit {name}={ceil(value)}s"
    return f"limit {name}={digits(limit_that_admits(value))}" if name else ""
