"""What the worker that decides for placements is given."""

import msgspec
from msgspec import Struct

from stellwerk.core.inventory.live import FleetFacts
from stellwerk.core.inventory.merge import Source
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.standing import Declared, Standing
from stellwerk.core.state import State
from stellwerk.engine.own_work import Held


class Seen(Struct, frozen=True):
    """A cluster with a driver as the state has it."""

    cluster: Cluster
    taken: tuple[Allocation, ...]


class Work(Struct, frozen=True):
    """What changed since the worker was last given something; and all of the work that has wishes,
    with what was decided for it.
    """

    declared: tuple[Declared, ...] | None
    seen: tuple[Seen, ...]
    told: tuple[tuple[str, Source | None], ...]
    own: Held
    put: tuple[Standing, ...]
    dropped: tuple[str, ...]
    used: tuple[str, ...]
    here: tuple[str, ...]
    gone: tuple[str, ...] = ()
    wished: dict[ShapeId, Shape] = {}
    known: dict[ShapeId, OwnDecided] = {}


def read_facts(data: bytes) -> FleetFacts:
    """What was read of a fleet file."""
    return msgspec.json.decode(data, type=FleetFacts)


def wished(state: State) -> dict[ShapeId, Shape]:
    """The shapes of work that lives and has wishes."""
    found = ((id, queue.shape) for id, queue in state.shapes.items())
    return {id: shape for id, shape in found if shape.wishes is not None}
