"""Every cluster as a candidate for a shape: filters in order, then scores for what is left."""

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Candidate, Shortfall
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Alternative, NodeAllocation, Shape
from stellwerk.core.place.room import Room, fit, shortfalls

PREFERENCE_STEP = 1000
"""Each place further down in an ordered choice costs more than any other score can give."""


class Found(Struct, frozen=True):
    """A candidate with the nodes it would take (none unless its verdict is ``fits``)."""

    candidate: Candidate
    nodes: tuple[NodeAllocation, ...] = ()


def answers_to(cluster: Cluster, infra: str) -> bool:
    """Says whether a cluster is meant by ``infra``: ``ssh/k017``, ``local``, its name, ``""``."""
    if not infra or infra == "*":
        return True
    kind, _, rest = infra.partition("/")
    if kind == cluster.name:
        return not rest
    if kind not in {cluster.driver, "*"}:
        return False
    name = rest.partition("/")[0]
    return name in {"", "*", cluster.name}


def amount(value: int, unit: str) -> str:
    """Writes an amount of a resource for people: ``1.5``, ``16 GiB``, ``2``."""
    if unit == "milli":
        return f"{value / 1000:g}"
    if unit == "bytes":
        gib = value / (1 << 30)
        return f"{gib:.3g} GiB" if gib >= 1 else f"{value / (1 << 20):.4g} MiB"
    return str(value)


def reason_of(short: Shortfall, cluster: str) -> Reason:
    """Turns a shortfall into the reason it is: never, or not now."""
    params: dict[str, str | int | float] = {
        "cluster": cluster, "resource": short.resource, "wanted": amount(short.wanted, short.unit),
        "free": amount(short.free, short.unit), "largest": amount(short.largest, short.unit)}
    return Reason("never_fits" if short.wanted > short.largest else "no_room", params)


def candidates(shape: Shape, rooms: list[Room], kept: dict[str, str]) -> list[Found]:
    """Judges every (alternative, cluster). ``kept``: clusters whose room is kept, for whom."""
    found = []
    for index, alternative in enumerate(shape.alternatives):
        answering = [room for room in rooms if answers_to(room.cluster, alternative.infra)]
        if not answering:
            reason = (Reason("no_such_infra", {"infra": alternative.infra}) if alternative.infra
                      else Reason("no_cluster"))
            verdict = "never" if alternative.infra else "later"
            found.append(Found(Candidate(
                alternative.infra or "any", index, verdict, (reason,))))  # type: ignore[arg-type]
        found.extend(
            _judge(shape, alternative, index, room, kept.get(room.cluster.name))
            for room in answering)
    return found


def _judge(
    shape: Shape, alternative: Alternative, index: int, room: Room, kept_for: str | None
) -> Found:
    name = room.cluster.name
    refused = _state_reason(room.cluster)
    if refused is not None:
        return Found(Candidate(name, index, "later", (refused,)))
    nodes = fit(room, alternative.request, shape.num_nodes)
    if nodes is None:
        short = shortfalls(room, alternative.request, shape.num_nodes)
        reasons = tuple(reason_of(one, name) for one in short)
        never = any(one.wanted > one.largest for one in short)
        return Found(Candidate(name, index, "never" if never else "later", reasons, short))
    if kept_for is not None:
        return Found(Candidate(
            name, index, "later", (Reason("room_kept", {"cluster": name, "name": kept_for}),)))
    scores = _scores(shape, index, room, nodes)
    return Found(
        Candidate(name, index, "fits", scores=scores, total=sum(scores.values())), nodes)


def _state_reason(cluster: Cluster) -> Reason | None:
    ready = [node for node in cluster.nodes if node.state == "ready"]
    if ready:
        return None
    first = cluster.nodes[0] if cluster.nodes else None
    return Reason("not_ready", {
        "cluster": cluster.name, "state": first.state if first else "without nodes",
        "note": first.note if first and first.note else "no more is known"})


def _scores(
    shape: Shape, index: int, room: Room, nodes: tuple[NodeAllocation, ...]
) -> dict[str, int]:
    """``preference``: the place in an ordered choice; ``room``: percent of CPU left free."""
    left = sum(node.cpus_milli for node in room.nodes.values())
    left -= sum(node.cpus_milli for node in nodes)
    total = sum(node.node.cpus_milli for node in room.nodes.values())
    scores = {"room": 100 * left // total if total else 0}
    if shape.ordered:
        scores["preference"] = -PREFERENCE_STEP * index
    return scores
