"""Tells of the placements of a file what makes them ones that can't be decided, with its place."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.core.describe.placement_places import places_in
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.placement import Placement
from stellwerk.core.place.checks import all_troubles
from stellwerk.core.place.compat import rules_of
from stellwerk.core.place.expressions import Expressions


def problems_in(placements: Iterable[Placement], text: str, file: str) -> list[Problem]:
    """Everything that is wrong with placements that were read of a text, in its order."""
    asking = Expressions()
    troubles = [
        (placement.key, one)
        for placement in placements
        for one in all_troubles(placement, rules_of(placement), asking)
    ]
    if not troubles:
        return []
    places = places_in(text, ((key, one.path) for key, one in troubles))
    found = []
    for key, one in troubles:
        line, column = places.get((key, one.path), (0, 0))
        path = f"spec.{one.path}" if one.path else ""
        message = f"placement {key}: {one.message}"
        found.append(Problem("placement/spec", message, one.help, file, line, column, path))
    return sorted(found, key=lambda one: (one.line, one.column))
