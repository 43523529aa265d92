"""A cluster or node that somebody keeps free of new work, by whom, since when and until when."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Node, NodeState

WHOLE = ""
"""In place of a node's name: the whole cluster, with nodes that join it later."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Drain(Struct, frozen=True, omit_defaults=True):
    """What is kept free, and by whom. ``until_ms`` 0 = until somebody resumes it."""

    actor: str
    since_ms: int
    until_ms: int = 0

    def __str__(self) -> str:
        until = f" until {moment(self.until_ms)}" if self.until_ms else ""
        return f"drained by {self.actor or 'somebody'} since {moment(self.since_ms)}{until}"


def moment(at_ms: int) -> str:
    """A time as people read it, whoever and wherever they are."""
    return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M} UTC"


def with_drains(cluster: Cluster, drains: dict[str, Drain]) -> tuple[Node, ...]:
    """The nodes of a cluster with those marked that are drained; each says so in its note.

    One that is out of reach or quarantined stays so.
    """
    whole = drains.get(WHOLE)
    return tuple(_marked(node, drains.get(node.name) or whole) for node in cluster.nodes)


def _marked(node: Node, drain: Drain | None) -> Node:
    if drain is None:
        return node
    note = "; ".join(filter(None, (str(drain), node.note)))
    state: NodeState = "drained" if node.state == "ready" else node.state
    return replace(node, state=state, note=note)
