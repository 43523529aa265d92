"""Gangs that may do with fewer nodes: the most they can get now, and never less than they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from stellwerk.core.model.ids import ShapeId
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.view import ShapeView

T = TypeVar("T")


def with_nodes(shape: ShapeView, count: int) -> ShapeView:
    """The same work on so many nodes, known by an id of its own in one planner."""
    smaller = replace(shape.shape, num_nodes=count, min_nodes=0)
    return replace(shape, id=ShapeId(f"{shape.id}:{count}"), shape=smaller)


def at_least(shape: ShapeView) -> ShapeView | None:
    """The same work on the fewest nodes that do; None where it must have all."""
    least, full = shape.shape.min_nodes, shape.shape.num_nodes
    return with_nodes(shape, least) if 0 < least < full else None


def most_of(shape: ShapeView, fits: Callable[[ShapeView], T | None]) -> tuple[ShapeView, T] | None:
    """As many nodes as fit, all of them first; None where not even the fewest do."""
    found = fits(shape)
    if found is not None:
        return shape, found
    low, high = shape.shape.min_nodes, shape.shape.num_nodes - 1
    best: tuple[ShapeView, T] | None = None
    while 0 < low <= high:
        count = (low + high) // 2
        one = with_nodes(shape, count)
        found = fits(one)
        if found is None:
            high = count - 1
        else:
            best, low = (one, found), count + 1
    return best


def fits_in(bounded: Bounded, shape: ShapeView) -> bool | None:
    """True where a shape fits now; None where it doesn't."""
    return True if bounded.fitting(shape.shape, shape.id) else None
