"""The part of the live state that stands until somebody changes it: declared fleets, placements."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.standing import Declared, Standing

StandingEvent = ev.FleetDeclared | ev.PlacementApplied | ev.PlacementDeleted | ev.PlacementDecided


class Policies:
    """Declared fleets by name and placements by key. ``version`` counts changes of placements.

    ``own`` are the decisions for shapes with wishes: they are there as long as work of the shape
    lives. ``changed`` names what the read models haven't been given yet.
    """

    def __init__(self) -> None:
        self.declared: dict[str, Declared] = {}
        self.placements: dict[str, Standing] = {}
        self.own: dict[ShapeId, OwnDecided] = {}
        self.version = 0
        self.changed: dict[str, None] = {}

    def take_over(
        self,
        declared: Iterable[Declared],
        placements: Iterable[Standing],
        own: Mapping[ShapeId, OwnDecided],
    ) -> None:
        """Takes what an image holds."""
        self.own = dict(own)
        self.declared = {one.name: one for one in declared}
        self.placements = {one.placement.key: one for one in placements}
        self.version += 1

    def decide_own(self, shape: ShapeId, decided: OwnDecided) -> None:
        """Takes the decision for work of a shape."""
        self.own[shape] = decided
        self.version += 1

    def drop_own(self, shape: ShapeId) -> None:
        """Forgets what was decided for work that is all over."""
        if self.own.pop(shape, None) is not None:
            self.version += 1

    def drain_changed(self) -> tuple[tuple[str, Standing | None], ...]:
        """The last value of every placement changed since the last call; None = it is gone."""
        changed = tuple((key, self.placements.get(key)) for key in self.changed)
        self.changed.clear()
        return changed


def fold_standing(standing: Policies, at_ms: int, actor: str, event: StandingEvent) -> None:
    """Applies one fact."""
    if isinstance(event, ev.FleetDeclared):
        declared = Declared(event.name, event.text, event.facts, event.clusters, actor, at_ms)
        standing.declared[event.name] = declared
        return
    placements = standing.placements
    if isinstance(event, ev.PlacementApplied):
        key = event.placement.key
        known = placements.get(key)
        fresh = Standing(event.placement, actor, at_ms)
        if known is not None:
            fresh = replace(
                known,
                placement=event.placement,
                by=actor,
                applied_ms=at_ms,
                version=known.version + 1,
            )
        placements[key] = fresh
    else:
        key = event.key
        if isinstance(event, ev.PlacementDeleted):
            del placements[key]
        else:
            before = placements[key]
            same = before.decided is not None and before.decided.matters == event.decided.matters
            placements[key] = replace(
                before,
                decided=event.decided,
                decided_ms=before.decided_ms if same else at_ms,
                decided_for=before.version,
            )
    standing.version += 1
    standing.changed[key] = None
