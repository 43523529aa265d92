"""Every cluster as a candidate for a shape: filters in order, then scores for what is left."""

from collections.abc import Iterator

from stellwerk.core.describe.infra import WHOLE_REST
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Candidate, Shortfall, Verdict
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import (
    IMAGES,
    NAMESPACES,
    Alternative,
    GpuRequest,
    NodeAllocation,
    Shape,
)
from stellwerk.core.place.amounts import amount, apart
from stellwerk.core.place.found import Found
from stellwerk.core.place.lacks import NODES_AT_ONCE, lack
from stellwerk.core.place.node import right_kind
from stellwerk.core.place.room import Room, fit
from stellwerk.core.place.rooms import RESERVATION, WINDOW, ClusterRoom, Key
from stellwerk.core.place.with_data import fit_with_data

PREFERENCE_STEP = 1000
"""Each place further down in an ordered choice costs more than any other score can give."""

CANNOT = {NAMESPACES: "no_namespaces", IMAGES: "no_images"}
"""How it is told that a cluster can't do what a task needs."""

WITHOUT_DEVICES = -100
"""What it costs to put work that asks for no device on a node that has some."""


def answers_to(cluster: Cluster, infra: str) -> bool:
    """Says whether a cluster is meant by ``infra``: ``ssh/k017``, ``local``, its name, ``""``."""
    if not infra or infra == "*":
        return True
    kind, _, rest = infra.partition("/")
    if kind == cluster.name:
        return not rest
    if kind not in {cluster.driver, "*"}:
        return False
    name = rest if cluster.driver in WHOLE_REST else rest.partition("/")[0]
    return name in {"", "*", cluster.name}


def serves(cluster: Cluster, person: str) -> bool:
    """Whether a cluster can start something now as this user ("" = the server's own)."""
    return not cluster.serves or person in cluster.serves


def _not_served(cluster: Cluster, person: str) -> tuple[Reason, ...]:
    """Why nothing of a person's can start there now."""
    if serves(cluster, person):
        return ()
    params: dict[str, Param] = {"cluster": cluster.name, "person": person or "the server's user"}
    if cluster.owner:
        return (Reason("not_yours", {**params, "owner": cluster.owner}),)
    return (Reason("no_runtime", params),)


def reason_of(short: Shortfall, cluster: str) -> Reason:
    """Turns a shortfall into the reason it is: none there, never, or not now."""
    wanted = apart(short.wanted, short.largest, short.unit)
    params: dict[str, Param] = {
        "cluster": cluster,
        "resource": short.resource.removesuffix("s") if wanted == "1" else short.resource,
        "wanted": wanted,
    }
    if short.largest <= 0:
        return Reason("has_none", params)
    params["largest"] = amount(short.largest, short.unit, down=True)
    if short.wanted > short.largest:
        return Reason("never_fits", params)
    params["wanted"] = apart(short.wanted, short.free, short.unit)
    params["free"] = amount(short.free, short.unit, down=True)
    if short.free > 0:
        params["instead"] = params["free"]
    return Reason("no_room", params)


def answering(
    shape: Shape, rooms: list[ClusterRoom]
) -> Iterator[tuple[int, Alternative, ClusterRoom]]:
    """Pairs each alternative of a shape with the clusters that it may run on."""
    for index, alternative in enumerate(shape.alternatives):
        for room in rooms:
            if answers_to(room.cluster, alternative.infra):
                yield index, alternative, room


def fitting(shape: Shape, id: ShapeId, rooms: list[ClusterRoom]) -> list[Found]:
    """Finds where a shape fits now, without asking why it doesn't elsewhere."""
    avoid = avoided(shape, rooms)
    found = []
    for index, alternative, room in answering(shape, rooms):
        one = _fits(shape, (id, index, bool(avoid)), alternative, room, avoid)
        if one is not None:
            found.append(one)
    return found


def candidates(shape: Shape, id: ShapeId, rooms: list[ClusterRoom]) -> list[Found]:
    """Judges every (alternative, cluster), taking over the verdicts that still hold."""
    avoid = avoided(shape, rooms)
    found: list[Found] = []
    answered = set()
    for index, alternative, room in answering(shape, rooms):
        answered.add(index)
        key = (id, index, bool(avoid))
        one = room.verdicts.full.get(key)
        if one is None:
            one = _fits(shape, key, alternative, room, avoid)
            if one is None:
                one = _refused(shape, key, alternative, room.without(avoid))
            room.verdicts.full[key] = one
        found.append(one)
    found.extend(
        _nobody_answers(shape, alternative, index)
        for index, alternative in enumerate(shape.alternatives)
        if index not in answered
    )
    return found


def avoided(shape: Shape, rooms: list[ClusterRoom]) -> tuple[str, ...]:
    """The nodes that a shape is kept off: none where no other node that is ready could ever do."""
    if not shape.avoid:
        return ()
    for _, alternative, room in answering(shape, rooms):
        other = room.whole.room.without(shape.avoid).only_ready(room.cluster)
        fits = fit(other, alternative.request, shape.num_nodes) is not None
        if fits and not cannot(room.cluster, alternative):
            return shape.avoid
    return ()


def _nobody_answers(shape: Shape, alternative: Alternative, index: int) -> Found:
    if shape.topology is not None and not alternative.infra:
        level = shape.topology.level
        reason = Reason("near_nowhere", {"level": level} if level else {})
        return Found(Candidate("any", index, "later", (reason,)))
    if not alternative.infra:
        return Found(Candidate("any", index, "later", (Reason("no_cluster"),)))
    reason = Reason("no_such_infra", {"infra": alternative.infra})
    return Found(Candidate(alternative.infra, index, "never", (reason,)))


def _fits(
    shape: Shape, key: Key, alternative: Alternative, room: ClusterRoom, avoid: tuple[str, ...]
) -> Found | None:
    known = room.verdicts.fitting
    if key in known:
        return known[key]
    left = room.without(avoid)
    nodes = None
    if not cannot(room.cluster, alternative) and serves(room.cluster, shape.person):
        nodes = fit_with_data(left.open, alternative.request, shape)
    found = None
    if nodes is not None:
        index = key[1]
        scores = _scores(shape, index, left.free, nodes)
        total = sum(scores.values())
        found = Found(
            Candidate(room.cluster.name, index, "fits", scores=scores, total=total), nodes
        )
    known[key] = found
    return found


def cannot(cluster: Cluster, alternative: Alternative) -> tuple[Reason, ...]:
    """What a cluster says it can't do; one that says nothing is taken at its word when it tries."""
    reasons = []
    for need in alternative.needs:
        said = cluster.claims.get(need, "")
        if said.startswith("no"):
            why = said.partition(": ")[2]
            params: dict[str, Param] = {"cluster": cluster.name, **({"note": why} if why else {})}
            reasons.append(Reason(CANNOT[need], params))
    return tuple(reasons)


def _refused(shape: Shape, key: Key, alternative: Alternative, room: ClusterRoom) -> Found:
    name, request, index = room.cluster.name, alternative.request, key[1]
    if not room.cluster.nodes:
        return Found(Candidate(name, index, "later", (_not_ready(room.cluster),)))
    if refused := cannot(room.cluster, alternative):
        return Found(Candidate(name, index, "never", refused))
    is_served = serves(room.cluster, shape.person)
    if is_served and room.kept_for and fit(room.free, request, shape.num_nodes) is not None:
        kept_for = room.kept_for[0]
        code = "room_reserved" if kept_for.startswith(RESERVATION) else "room_kept"
        code = "window_closes" if kept_for.startswith(WINDOW) else code
        reason = Reason(code, {"cluster": name, "name": kept_for.removeprefix(RESERVATION)})
        return Found(Candidate(name, index, "later", (reason,)))
    if is_served and not room.free.nodes:
        return Found(Candidate(name, index, "later", (Reason("nodes_avoided", {"cluster": name}),)))
    can = room.whole.can(key, request, shape.num_nodes)
    short = lack(room.free, room.whole.room, request, shape.num_nodes, can)
    withheld = () if short.never else _not_served(room.cluster, shape.person)
    if withheld:
        final: Verdict = "never" if room.cluster.owner else "later"
        return Found(Candidate(name, index, final, withheld))
    if short.missing:
        all_are_missing = all(node.state != "ready" for node in room.cluster.nodes)
        node = "" if all_are_missing else short.missing
        return Found(Candidate(name, index, "later", (_not_ready(room.cluster, node),)))
    verdict: Verdict = "never" if short.never else "later"
    near = room.free.near
    reasons = tuple(
        reason_of(one, name) if near is None else _near_reason(one, name, near.asked)
        for one in short.shortfalls
    )
    if request.gpu is not None and not short.never:
        reasons += _sick(room.cluster, request.gpu)
    return Found(Candidate(name, index, verdict, reasons, short.shortfalls), far=short.far)


def _near_reason(short: Shortfall, cluster: str, asked: TopologyRequest) -> Reason:
    """The same where nodes are to be near to each other: of those it says where."""
    if short.resource != NODES_AT_ONCE:
        return reason_of(short, cluster)
    params: dict[str, Param] = {"cluster": cluster, "wanted": short.wanted, "free": short.free}
    if asked.spot == "required":
        params["level"] = asked.level
    elif asked.slice_level:
        params["level"], params["size"] = asked.slice_level, asked.slice_size
    params["largest"] = short.largest
    return Reason("near_never" if short.largest < short.wanted else "near_no_room", params)


def _sick(cluster: Cluster, gpu: GpuRequest) -> tuple[Reason, ...]:
    """Says which cards of the kind that is asked for are out of use, as the first of them is."""
    sick = [
        (node.name, device)
        for node in cluster.nodes
        if node.state == "ready"
        for device in node.devices
        if device.fault and right_kind(device, gpu)
    ]
    if not sick:
        return ()
    node, first = sick[0]
    params: dict[str, Param] = {"place": f"{cluster.name}/{node}", "gpu": first.index}
    params["fault"] = first.fault
    if len(sick) > 1:
        params["others"] = len(sick) - 1
    return (Reason("gpu_sick", params),)


def _not_ready(cluster: Cluster, name: str = "") -> Reason:
    """Says what state the cluster is in, or the one node of it that is needed."""
    node = next((one for one in cluster.nodes if not name or one.name == name), None)
    params: dict[str, Param] = {"cluster": f"{cluster.name}/{name}" if name else cluster.name}
    if node and node.note:
        params["note"] = node.note
    if node and node.state == "quarantined":
        return Reason("quarantined", params)
    if node and node.state == "drained":
        return Reason("drained", params)
    if node and node.state == "in_use":
        return Reason("console_in_use", params)
    return Reason("not_ready", {**params, "state": node.state if node else "without nodes"})


def _scores(
    shape: Shape, index: int, room: Room, nodes: tuple[NodeAllocation, ...]
) -> dict[str, int]:
    """Scores what fits.

    ``room``: percent of CPU left free; ``devices``: spares nodes with devices from work without;
    ``preference``: the place in an ordered choice.
    """
    left, total = room.cpus()
    left -= sum(node.cpus_milli for node in nodes)
    scores = {"room": 100 * left // total if total else 0}
    if shape.alternatives[index].request.gpu is None and any(
        room.nodes[part.node].node.devices for part in nodes
    ):
        scores["devices"] = WITHOUT_DEVICES
    if shape.ordered:
        scores["preference"] = -PREFERENCE_STEP * index
    return scores
