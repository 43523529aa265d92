"""A verdict about one cluster with the nodes that belong to it."""

from msgspec import Struct

from stellwerk.core.model.decisions import Candidate
from stellwerk.core.model.resources import NodeAllocation


class Found(Struct, frozen=True):
    """A candidate with the nodes it would take (none unless its verdict is ``fits``)."""

    candidate: Candidate
    nodes: tuple[NodeAllocation, ...] = ()
