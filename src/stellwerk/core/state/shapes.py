"""The waiting workloads of one shape, in the order of their turn, and why they wait."""

from msgspec import Struct

from stellwerk.core.model.ids import DecisionId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Workload

QueueKey = tuple[int, int, WorkloadId]
"""Sorts the waiting: highest priority first, then the order of submission."""


class Waits(Struct, frozen=True):
    """Why the waiting workloads of a shape wait, as last journaled."""

    decision: DecisionId
    reasons: tuple[Reason, ...]
    at_ms: int


class ShapeQueue:
    """The waiting workloads of one shape, in order. No two states of any queue share a version.

    ``users`` counts all live workloads of the shape, ``pending`` those that wait, for room or for
    their time.
    """

    __slots__ = ("entries", "pending", "shape", "users", "version", "waits")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.entries: list[QueueKey] = []
        self.users = 0
        self.pending = 0
        self.version = 0
        self.waits: Waits | None = None


def queue_key(workload: Workload) -> QueueKey:
    """Gives a workload its place among those that wait."""
    return (-workload.priority, workload.order, workload.id)
