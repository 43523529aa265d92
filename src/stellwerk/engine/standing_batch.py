"""Puts together what of a cycle is stored of fleets, placements and their decisions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stellwerk.core.model import events as ev
from stellwerk.core.model.standing import Declared
from stellwerk.core.state import State
from stellwerk.store import Placed, StandingBatch

if TYPE_CHECKING:
    from stellwerk.engine.deciding import Made


def standing_batch(
    state: State, records: Iterable[ev.Record], made: "dict[str, Made]"
) -> StandingBatch | None:
    """What of a cycle is stored of what stands; None = nothing."""
    declared: dict[str, Declared] = {}
    placed: list[Placed] = []
    parts: dict[str, bytes] = {}
    for record in records:
        match record.event:
            case ev.FleetDeclared():
                declared[record.event.name] = state.standing.declared[record.event.name]
            case ev.PlacementDeleted():
                placed.append(Placed(record.seq, record.event.key, "", record.at_ms, b""))
            case ev.PlacementDecided():
                id = record.event.decided.decision
                if id in made:
                    data = made[id].data
                    placed.append(Placed(record.seq, record.event.key, id, record.at_ms, data))
            case _:
                continue
    for one in made.values():
        parts.update(one.parts)
    changed = state.standing.drain_changed()
    if not (declared or placed or changed or parts):
        return None
    return StandingBatch(tuple(declared.values()), changed, tuple(placed), parts)
