"""A verdict about one cluster with what belongs to it."""

from msgspec import Struct

from stellwerk.core.model.decisions import Candidate
from stellwerk.core.model.resources import NodeAllocation
from stellwerk.core.place.lacks import Far


class Found(Struct, frozen=True):
    """A candidate with the nodes it would take, or how far it is from having some."""

    candidate: Candidate
    nodes: tuple[NodeAllocation, ...] = ()
    far: Far = (0, 0)
