"""Keeps what a workload needs that was overtaken long enough, on the nodes nearest to having it."""

from __future__ import annotations

from typing import NamedTuple

from stellwerk.core.model.resources import NodeAllocation
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.candidates import answering, avoided, cannot, serves
from stellwerk.core.place.lacks import Far, credit
from stellwerk.core.view import ShapeView


class Nearest(NamedTuple):
    """Where a workload that can't start comes nearest to it, and what it needs there."""

    far: Far
    alternative: int
    cluster: str
    parts: tuple[NodeAllocation, ...]


def nearest(shape: ShapeView, bounded: Bounded) -> Nearest | None:
    """Finds the nodes to keep for a shape; None where it could never run."""
    found: Nearest | None = None
    rooms = bounded.allowed(shape.shape, shape.id)
    replicas, avoid = shape.shape.num_nodes, avoided(shape.shape, rooms)
    for index, alternative, room in answering(shape.shape, rooms):
        if cannot(room.cluster, alternative) or not serves(room.cluster, shape.shape.person):
            continue
        if not bounded.may(shape.shape, shape.id, room.cluster.name, index):
            continue
        left, request = room.without(avoid), alternative.request
        can = left.whole.can((shape.id, index, bool(avoid)), request, replicas)
        given = credit(left.open, left.whole.room, request, replicas, can)
        if given is not None:
            one = Nearest(given.far, index, room.cluster.name, given.parts)
            if found is None or one[:3] < found[:3]:
                found = one
    return found
