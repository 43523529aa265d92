"""Finds what keeps work off one cluster, node by node, and the smallest changes that would let it
start there now. A change counts only if it was tried on a copy and does.
"""

from collections.abc import Iterator

from msgspec import Struct

from stellwerk.core.model.cluster import NodeState
from stellwerk.core.model.decisions import Shortfall
from stellwerk.core.model.quantity import write_bytes, write_cpus
from stellwerk.core.model.resources import Allocation, Request, Shape
from stellwerk.core.place.amounts import amount, apart
from stellwerk.core.place.candidates import answers_to, avoided, cannot
from stellwerk.core.place.change_verbs import World
from stellwerk.core.place.lacks import GPU_MEMORY, NODES_AT_ONCE, node_lacks, smallest_change
from stellwerk.core.place.live_changes import Live, change_live, fleet_of
from stellwerk.core.place.room import Room, capacity, fill, fit, unheld
from stellwerk.core.place.rooms import Memory
from stellwerk.core.view import ClusterView, View

NODES_ADDED = 4
"""Of more new nodes nobody thinks who asks why."""

NODES_TRIED = 8
"""Of so many nodes that aren't ready each is tried alone; then all together."""

ASKS = {"CPUs": "cpus", "memory": "memory", "disk": "disk", NODES_AT_ONCE: "nodes"}


class NodeWhy(Struct, frozen=True, omit_defaults=True):
    """One node: how many replicas fit there now, and if none, why not."""

    node: str
    fits: int
    state: NodeState = "ready"
    note: str = ""
    avoided: bool = False
    shortfalls: tuple[Shortfall, ...] = ()


class Change(Struct, frozen=True):
    """One change, in words, and as ``--if`` takes it."""

    text: str
    change_if: str


Way = tuple[Change, ...]
"""Changes that together let the work start on the cluster."""


def nodes_of(view: View, name: str, shape: Shape, index: int) -> tuple[NodeWhy, ...]:
    """Every node of a cluster as an alternative of a shape sees it; those that fit come first."""
    part = _part(view, name)
    if part is None:
        return ()
    room, whole = _room(part), capacity(part.cluster)
    request = shape.alternatives[index].request
    kept_off = kept_off_of(view, shape)
    most = shape.num_nodes if room.together else 1
    found = []
    for node_name, node in sorted(room.nodes.items()):
        ready = node.node.state == "ready"
        fits = len(fill(node, request, 0, most)) if ready else 0
        shorts = () if fits else node_lacks(node, whole.nodes[node_name], request)
        is_avoided = f"{name}/{node_name}" in kept_off
        state, note = node.node.state, node.node.note
        found.append(NodeWhy(node_name, fits, state, note, is_avoided, shorts))
    return tuple(sorted(found, key=lambda one: (one.fits == 0 or one.avoided, one.node)))


def kept_off_of(view: View, shape: Shape) -> tuple[str, ...]:
    """The nodes that a shape is kept off on these clusters: none where no other could ever do."""
    return avoided(shape, Memory().rooms(view.clusters)) if shape.avoid else ()


def ways_in(view: View, name: str, shape: Shape, index: int) -> tuple[Way, ...]:
    """The smallest changes that let an alternative start on a cluster: to ask for less, and to have
    more room there. Nothing where neither does, or nothing is needed.
    """
    part = _part(view, name)
    kept_off = kept_off_of(view, shape)
    if part is None or fits_now(part, shape, index, kept_off):
        return ()
    first = _for_all(part, shape, index)
    found = []
    for kind in (_less(part, shape, index, kept_off), _more_room(part, shape, index)):
        for way in kind:
            whole = (*first, *way)
            if whole and _admits(view, part, shape, index, whole, kept_off):
                found.append(whole)
                break
    return tuple(dict.fromkeys(found))


def fits_now(part: ClusterView, shape: Shape, index: int, kept_off: tuple[str, ...] = ()) -> bool:
    """Whether an alternative fits on a cluster as it is, if nothing is kept there for others."""
    alternative = shape.alternatives[index]
    if not answers_to(part.cluster, alternative.infra) or cannot(part.cluster, alternative):
        return False
    room = _room(part).without(kept_off)
    return fit(room, alternative.request, shape.num_nodes) is not None


def _part(view: View, name: str) -> ClusterView | None:
    return next((one for one in view.clusters if one.cluster.name == name), None)


def _room(part: ClusterView) -> Room:
    return Room(part.cluster, (allocation for _, allocation in part.allocations))


def _admits(
    view: View,
    part: ClusterView,
    shape: Shape,
    index: int,
    way: Way,
    kept_off: tuple[str, ...],
) -> bool:
    """Tries changes out on this cluster alone."""
    alone = View(view.seq, view.now_ms, view.seed, (part,), (), ())
    phrases = tuple(change.change_if for change in way)
    live = Live(alone, shape, World(fleet_of(alone), (), view.now_ms))
    changed = change_live(live, phrases)
    return fits_now(changed.view.clusters[0], changed.shape, index, kept_off)


def _for_all(part: ClusterView, shape: Shape, index: int) -> Way:
    """What must change in any case: where it may be, and what the cluster can do."""
    name, alternative = part.cluster.name, shape.alternatives[index]
    found = []
    if not answers_to(part.cluster, alternative.infra):
        found.append(Change(f"ask for {name} or for any place", f"ask infra={name}"))
    found += [
        Change(f"{name} can do {need}", f"claim {name} {need}=yes")
        for need in alternative.needs
        if part.cluster.claims.get(need, "").startswith("no")
    ]
    return tuple(found)


def _less(part: ClusterView, shape: Shape, index: int, kept_off: tuple[str, ...]) -> Iterator[Way]:
    """To ask for what is free; nothing more than `_for_all` may be enough."""
    yield ()
    request = shape.alternatives[index].request
    room = _room(part).without(kept_off)
    whole = capacity(part.cluster).without(kept_off)
    shorts = smallest_change(room, whole, request, shape.num_nodes)
    if shorts:
        yield tuple(_ask(short) for short in shorts)


def _ask(short: Shortfall) -> Change:
    wanted = apart(short.wanted, short.free, short.unit)
    text = f"ask for {short.resource}: {wanted} -> {amount(short.free, short.unit, down=True)}"
    return Change(text, f"ask {_asked(short)}")


def _asked(short: Shortfall) -> str:
    key = "gpu-memory" if short.resource == GPU_MEMORY else ASKS.get(short.resource, "gpus")
    match short.unit:
        case "milli":
            return f"{key}={write_cpus(short.free)}"
        case "bytes":
            return f"{key}={write_bytes(short.free)}"
        case _:
            return f"{key}={short.free}"


def _more_room(part: ClusterView, shape: Shape, index: int) -> Iterator[Way]:
    """Others gone, nodes back, nodes more: what changes least first."""
    name, request = part.cluster.name, shape.alternatives[index].request
    back = [node.name for node in part.cluster.nodes if node.state != "ready"][:NODES_TRIED]
    frees = _frees(part, request, shape.num_nodes)
    resumes = [Change(f"{name}/{node} can be used again", f"resume {name}/{node}") for node in back]
    everywhere = [Change(f"all nodes of {name} can be used again", f"resume {name}")]
    for one in (*frees, *resumes, *(everywhere if len(back) > 1 else ())):
        yield (one,)
    for resume in (*resumes, *(everywhere if len(back) > 1 else ())):
        for free in frees:
            yield resume, free
    kind = request.gpu.kind if request.gpu is not None else ""
    if kind and request.gpu is not None:
        cards = f"{kind}:{request.gpu.count}"
        more = Change(f"one node more with {cards}", f"add {name} {cards}")
        for count in range(1, min(shape.num_nodes, NODES_ADDED) + 1):
            yield (more,) * count


def _frees(part: ClusterView, request: Request, num_nodes: int) -> list[Change]:
    name = part.cluster.name
    held: tuple[Allocation, ...] = tuple(one for _, one in part.allocations)
    if not held and all(unheld(node) == node for node in part.cluster.nodes):
        return []
    most = sum(len(node.devices) for node in part.cluster.nodes)
    each = request.gpu.count if request.gpu is not None else 0
    found = [
        Change(f"{count} accelerators of {name} free", f"free {name} gpus={count}")
        for count in dict.fromkeys((each, each * num_nodes))
        if 0 < count <= most
    ]
    return [*found, Change(f"nobody else on {name}", f"free {name}")]
