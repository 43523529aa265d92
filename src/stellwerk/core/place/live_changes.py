"""Decides what "if …" means for one workload on the live clusters: a change in words, on a copy.

The phrases are those of a fleet (`changes`) as far as they mean something for this work, and one
more, ``ask``: what if it asked for something else. Room is changed in the view; what placements
look at, in the fleet beside it, on which they are then decided again.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.cluster import Node
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import RunId, digest
from stellwerk.core.model.quantity import BadQuantity, parse_cpus, parse_size
from stellwerk.core.model.resources import Allocation, Alternative, Request, Shape
from stellwerk.core.place.change_verbs import BadChange, World, meant, number
from stellwerk.core.place.changes import CHANGES, apply_changes
from stellwerk.core.view import ClusterView, View

ROOM = ("lose", "drain", "resume", "free", "add", "claim")
"""These change what work can be put on."""

FREE_OF_PLACEMENTS = (*ROOM, "ask", "wish")
"""What else there is reaches work by a placement alone."""

OF_JOBS = ("max-usd", "finish-by")
"""Limits that a standing placement leaves to each job: its decision doesn't hang on them."""


class Live(Struct, frozen=True):
    """What a change applies to.

    ``world`` is the whole fleet with the placement that the workload names, if it does, or that its
    wishes narrow; and with one task, which stands for the workload and has its wishes.
    """

    view: View
    shape: Shape
    world: World


def live_change_forms() -> dict[str, tuple[str, str]]:
    """Every change that can be asked about here: how it is written, and what it means. Those after
    ``ask`` reach the work by its placement.
    """
    forms = {verb: (one.form, one.about) for verb, one in CHANGES.items()}
    free = {verb: forms[verb] for verb in ROOM}
    free["wish"] = ("wish NAME max-usd=200", "another label `stellwerk/…` of it")
    free["ask"] = (ASK_FORM, "it asks for something else")
    return {**free, **{verb: form for verb, form in forms.items() if verb not in free}}


def change_live(live: Live, phrases: tuple[str, ...]) -> Live:
    """Applies changes in their order; raises a StellwerkError with every phrase that is wrong."""
    problems: list[Problem] = []
    for phrase in phrases:
        try:
            live = _apply(live, phrase)
        except BadChange as bad:
            problems.append(Problem("if/change", f"`{phrase}`: {bad}", _help(live, phrase)))
        except StellwerkError as error:
            problems += error.problems
    if problems:
        raise StellwerkError(problems)
    return live


def _apply(live: Live, phrase: str) -> Live:
    verb, *words = phrase.split() or [""]
    if verb == "ask":
        return replace(live, shape=_asked(live.shape, words))
    if verb not in CHANGES:
        raise BadChange(f"`{verb}` is no change" if verb else "nothing is changed")
    _check_meaning(live, verb, words)
    world = apply_changes(live.world, (phrase,))
    view = live.view
    if verb == "lose":
        left = {one.name: True for one in world.fleet.clusters}
        lost = tuple(one for one in view.clusters if one.cluster.name in left)
        return replace(live, view=replace(view, clusters=lost), world=world)
    if verb in ROOM:
        view = _room_changed(live, words[0].partition("/")[0], phrase)
    shape = live.shape
    if world.tasks != live.world.tasks:
        shape = replace(shape, wishes=world.tasks[0].wishes)
    return Live(view, shape, world)


def _check_meaning(live: Live, verb: str, words: list[str]) -> None:
    """Refuses what nothing would look at."""
    if verb in FREE_OF_PLACEMENTS:
        return
    if not live.world.placements:
        raise BadChange("it names no placement, and nothing else looks at that")
    if live.shape.wishes is not None:
        return
    if verb == "hold":
        raise BadChange("it doesn't say what data it reads, so nothing looks at where that is")
    if name := _limit_of_jobs(verb, words):
        raise BadChange(f"a standing placement leaves that to each job: `wish NAME {name}=…`")


def _limit_of_jobs(verb: str, words: list[str]) -> str:
    """Which limit a change sets, if it is one that a standing placement leaves to each job."""
    name = words[0].partition("=")[0] if verb == "limit" and words else ""
    return name if name in OF_JOBS else ""


def check_standing(phrases: tuple[str, ...]) -> None:
    """Refuses changes that no standing decision would look at, all of them at once."""
    problems = []
    for phrase in phrases:
        verb, *words = phrase.split() or [""]
        if name := _limit_of_jobs(verb, words):
            message = f"`{phrase}`: a standing placement leaves `{name}` to each job"
            help = "`stw explain NAME --if` asks it of work, `stw plan --fleet` of a task"
            problems.append(Problem("if/change", message, help))
    if problems:
        raise StellwerkError(problems)


def _room_changed(live: Live, name: str, phrase: str) -> View:
    view = live.view
    if all(one.cluster.name != name for one in view.clusters):
        if live.world.placements:
            return view
        raise BadChange(f"no driver here reaches `{name}`, so work can't run there")
    fleet = apply_changes(World(fleet_of(view), (), view.now_ms), (phrase,)).fleet
    return with_fleet(view, fleet)


def fleet_of(view: View) -> Fleet:
    """The clusters of a view with what its runs hold."""
    held = (allocation for part in view.clusters for _, allocation in part.allocations)
    return Fleet(tuple(part.cluster for part in view.clusters), taken=tuple(held))


def with_fleet(view: View, fleet: Fleet) -> View:
    """The view with other clusters; a cluster that is as before stays the same part. What nobody
    has any more counts against no quota.
    """
    taken: dict[str, list[Allocation]] = {}
    for one in fleet.taken:
        taken.setdefault(one.cluster, []).append(one)
    before = {part.cluster.name: part for part in view.clusters}
    parts = []
    for cluster in fleet.clusters:
        known = before.get(cluster.name)
        own = tuple(taken.get(cluster.name, ()))
        if (
            known is not None
            and known.cluster is cluster
            and own == tuple(allocation for _, allocation in known.allocations)
        ):
            parts.append(known)
            continue
        changed = replace(cluster, nodes=tuple(map(_noted, cluster.nodes)))
        runs = [run for run, _ in known.allocations] if known is not None else []
        if len(runs) != len(own):
            runs = [RunId(f"if-{number}") for number in range(len(own))]
        allocations = tuple(zip(runs, own, strict=True))
        begun = known.begun if known is not None else {}
        parts.append(ClusterView(changed, -1, digest(changed), allocations, begun=begun))
    left = {run: True for part in parts for run, _ in part.allocations}
    gone = {run: True for part in view.clusters for run, _ in part.allocations if run not in left}
    held = tuple(one for one in view.held if one.run not in gone)
    return replace(view, clusters=tuple(parts), held=held)


def _noted(node: Node) -> Node:
    """A node whose note says no more than its state does."""
    if node.state == "ready":
        return replace(node, note="") if node.note else node
    return node if node.note else replace(node, note=str(node.state))


ASK_FORM = "ask gpus=2` or `ask memory=32GiB"
OF_CARDS = ("gpus", "gpu-memory")
ASKS = ("cpus", "memory", "disk", *OF_CARDS, "nodes", "infra")


def _asked(shape: Shape, words: list[str]) -> Shape:
    """A shape that asks for something else, in each of its alternatives that asks for that."""
    if not words:
        raise BadChange("it asks for nothing else")
    for word in words:
        key, _, value = word.partition("=")
        if key not in ASKS:
            raise BadChange(f"`{key}` is nothing to ask for{meant(key, ASKS)}")
        if key == "nodes":
            shape = replace(shape, num_nodes=round(number(value, 1, 10_000)))
            continue
        if key in OF_CARDS and all(one.request.gpu is None for one in shape.alternatives):
            raise BadChange("it asks for no accelerator; `cpus` and `memory` can be changed")
        one: Callable[[Alternative], Alternative] = _asking(key, value)
        shape = replace(shape, alternatives=tuple(map(one, shape.alternatives)))
    return shape


def _asking(key: str, value: str) -> Callable[[Alternative], Alternative]:
    if key == "infra":
        return lambda one: replace(one, infra=value)
    return lambda one: replace(one, request=_requested(one.request, key, value))


def _requested(request: Request, key: str, value: str) -> Request:
    match key:
        case "cpus":
            return replace(request, cpus_milli=_cpus(value))
        case "memory":
            return replace(request, memory_bytes=_bytes(value))
        case "disk":
            return replace(request, disk_bytes=_bytes(value))
        case _ if request.gpu is None:
            return request
        case "gpu-memory":
            return replace(request, gpu=replace(request.gpu, share_bytes=_bytes(value)))
        case _:
            count = round(number(value, 0, 10_000))
            gpu = replace(request.gpu, count=count) if count else None
            return replace(request, gpu=gpu)


def _cpus(written: str) -> int:
    amount = parse_cpus(written)
    if isinstance(amount, BadQuantity):
        raise BadChange(amount.message)
    return amount.value


def _bytes(written: str) -> int:
    size = parse_size(written)
    if isinstance(size, BadQuantity):
        raise BadChange(size.message)
    return size


def _help(live: Live, phrase: str) -> str:
    verb = (phrase.split() or [""])[0]
    forms = live_change_forms()
    if not live.world.placements:
        forms = {name: form for name, form in forms.items() if name in FREE_OF_PLACEMENTS}
    near = verb if verb in forms else ""
    if verb not in CHANGES:
        near = near or (get_close_matches(verb, forms, 1) or [""])[0]
    if near == "ask":
        return f"write `{ASK_FORM}`"
    if near:
        return f"write `{forms[near][0]}`"
    return f"changes here are {', '.join(forms)}"
