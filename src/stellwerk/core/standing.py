"""Turns what is asked of fleets and placements, and what was decided for them, into events."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.standing import Decided
from stellwerk.core.state import State


class OwnMade(Struct, frozen=True):
    """A decision for all work of a shape that has wishes."""

    shape: ShapeId
    decided: OwnDecided


class Answer(Struct, frozen=True):
    """A decision for a placement in the version that it was made for."""

    key: str
    version: int
    decided: Decided


def without_job(placement: Placement) -> Placement:
    """What of a placement can be decided while nobody knows which job will use it."""
    limits = replace(placement.limits, usd_max=0.0, finish_by_ms=0)
    return replace(placement, limits=limits, objective="score", usd_per_hour_of_waiting=0.0)


def left_to_jobs(placement: Placement) -> tuple[str, ...]:
    """What of a placement is asked of each job alone."""
    limits = placement.limits
    parts = (
        ("max-usd", limits.usd_max),
        ("finish-by", limits.finish_by_ms),
        (f"objective {placement.objective}", placement.objective != "score"),
    )
    return tuple(name for name, there in parts if there)


def on_apply(state: State, command: cmd.ApplyFleet) -> list[ev.Event]:
    """What a fleet file changes; what it says again gives nothing."""
    standing = state.standing
    events: list[ev.Event] = []
    known = standing.declared.get(command.name)
    if known is None or (known.text, known.facts) != (command.text, command.facts):
        events.append(ev.FleetDeclared(command.name, command.text, command.facts, command.clusters))
    for placement in command.placements:
        before = standing.placements.get(placement.key)
        if before is None or before.placement != placement:
            events.append(ev.PlacementApplied(placement))
    return events


def on_delete(state: State, command: cmd.DeletePlacement) -> list[ev.Event]:
    """Forgets a placement that is there."""
    if command.key not in state.standing.placements:
        return []
    return [ev.PlacementDeleted(command.key)]


def on_answers(state: State, answers: Iterable[Answer]) -> list[ev.Event]:
    """Accepts decisions: those for another version than there is now, or that say nothing new, are
    passed over. A placement that changed meanwhile is decided again by itself.
    """
    events: list[ev.Event] = []
    for answer in answers:
        standing = state.standing.placements.get(answer.key)
        if standing is None or standing.version != answer.version:
            continue
        if not standing.says(answer.decided):
            events.append(ev.PlacementDecided(answer.key, answer.decided))
    return events


def on_own_answers(state: State, answers: Iterable[OwnMade]) -> list[ev.Event]:
    """Accepts decisions for work that has wishes. Where all of it is over meanwhile, or nothing new
    is said, nothing follows.
    """
    events: list[ev.Event] = []
    for answer in answers:
        if answer.shape not in state.shapes:
            continue
        known = state.standing.own.get(answer.shape)
        if known is None or known.matters != answer.decided.matters:
            events.append(ev.OwnPlacementDecided(answer.shape, answer.decided))
    return events
