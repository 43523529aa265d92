"""Decides what "if …" means: a change of a fleet or a placement, in words, applied to a copy.

Each change is one phrase: a verb, where it applies, and the value. Nothing here is carried out; the
changed copies are planned on, and thrown away.
"""

from collections.abc import Callable
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Held, ScoreObject, Taint
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Placement, Prioritizer, Toleration
from stellwerk.core.model.quantity import SECOND_MS, BadQuantity, parse_duration

EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
SCORE_MAX = 100
WEIGHT_MAX = 10


class World(Struct, frozen=True):
    """What a change applies to."""

    fleet: Fleet
    placements: tuple[Placement, ...]
    now_ms: int


class _Bad(Exception):
    """A phrase that means nothing; says why."""


def apply_changes(world: World, phrases: tuple[str, ...]) -> World:
    """Applies changes in their order; raises a StellwerkError with every phrase that is wrong."""
    problems = []
    for phrase in phrases:
        try:
            world = _apply(world, phrase)
        except _Bad as bad:
            problems.append(Problem("if/change", f"`{phrase}`: {bad}", _help(phrase)))
    if problems:
        raise StellwerkError(problems)
    return world


def _apply(world: World, phrase: str) -> World:
    verb, *words = phrase.split() or [""]
    change = CHANGES.get(verb)
    if change is None:
        raise _Bad(f"`{verb}` is no change")
    if len(words) != change.words:
        raise _Bad(f"`{verb}` takes {change.words} word{'s' * (change.words > 1)} after it")
    return change.apply(world, *words)


def _help(phrase: str) -> str:
    verb = (phrase.split() or [""])[0]
    known = CHANGES.get(verb) or CHANGES.get((get_close_matches(verb, CHANGES, 1) or [""])[0])
    if known is not None:
        return f"write `{known.form}`"
    return f"changes are {', '.join(CHANGES)}"


def _clusters(world: World, name: str, change: Callable[[Cluster], Cluster]) -> World:
    found = [one.name for one in world.fleet.clusters]
    if name not in found:
        near = get_close_matches(name, found, 1)
        instead = f"; did you mean `{near[0]}`?" if near else ""
        raise _Bad(f"there is no cluster `{name}`{instead}")
    clusters = (change(one) if one.name == name else one for one in world.fleet.clusters)
    return _with_clusters(world, tuple(clusters))


def _with_clusters(world: World, clusters: tuple[Cluster, ...]) -> World:
    return World(replace(world.fleet, clusters=clusters), world.placements, world.now_ms)


def _lose(world: World, which: str) -> World:
    key, is_domain, value = which.partition("=")
    lost = [
        one.name
        for one in world.fleet.clusters
        if (value in {one.labels.get(key), one.claims.get(key)} if is_domain else one.name == which)
    ]
    if not lost:
        raise _Bad(f"no cluster is `{which}`")
    return _with_clusters(world, tuple(one for one in world.fleet.clusters if one.name not in lost))


def _taint(world: World, name: str, written: str) -> World:
    key, value, effect = _tainted(written)
    taint = Taint(key, effect, value, world.now_ms)  # type: ignore[arg-type]
    return _clusters(world, name, lambda one: replace(one, taints=(*one.taints, taint)))


def _tainted(written: str) -> tuple[str, str, str]:
    pair, _, effect = written.partition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in EFFECTS:
        raise _Bad(f"the effect is one of {', '.join(EFFECTS)}")
    return key, value, effect


def _untaint(world: World, name: str, key: str) -> World:
    def without(one: Cluster) -> Cluster:
        left = tuple(taint for taint in one.taints if taint.key != key)
        if len(left) == len(one.taints):
            raise _Bad(f"`{name}` has no taint `{key}`")
        return replace(one, taints=left)

    return _clusters(world, name, without)


def _pairs(before: dict[str, str], written: str) -> dict[str, str]:
    """A map with one pair set (`key=value`) or taken out (`key-`)."""
    key, sets, value = written.partition("=")
    if sets and key:
        return {**before, key: value}
    if key.endswith("-"):
        return {name: value for name, value in before.items() if name != key[:-1]}
    raise _Bad("write KEY=VALUE, or KEY- to take it away")


def _label(world: World, name: str, written: str) -> World:
    return _clusters(world, name, lambda one: replace(one, labels=_pairs(one.labels, written)))


def _claim(world: World, name: str, written: str) -> World:
    return _clusters(world, name, lambda one: replace(one, claims=_pairs(one.claims, written)))


def _price(world: World, name: str, written: str) -> World:
    usd = _number(written, 0, 1e6)
    costs = {"usd_per_hour": usd, "usd_per_device_hour": {}}
    return _clusters(world, name, lambda one: replace(one, costs=replace(one.costs, **costs)))


def _wait(world: World, name: str, written: str) -> World:
    span = parse_duration(written, bare=SECOND_MS)
    if isinstance(span, BadQuantity):
        raise _Bad(span.message)
    return _clusters(world, name, lambda one: replace(one, wait_s=span / SECOND_MS))


def _free(world: World, name: str) -> World:
    changed = _clusters(world, name, _without_others)
    taken = tuple(one for one in world.fleet.taken if one.cluster != name)
    return replace(changed, fleet=replace(changed.fleet, taken=taken))


def _without_others(cluster: Cluster) -> Cluster:
    """A cluster on whose devices nobody else holds memory."""
    nodes = tuple(
        replace(node, devices=tuple(replace(device, foreign_bytes=0) for device in node.devices))
        for node in cluster.nodes
    )
    return replace(cluster, nodes=nodes)


def _drain(world: World, which: str) -> World:
    name, _, node_name = which.partition("/")

    def drained(one: Cluster) -> Cluster:
        if node_name and node_name not in {node.name for node in one.nodes}:
            raise _Bad(f"`{name}` has no node `{node_name}`")
        nodes = tuple(
            replace(node, state="drained") if node_name in {"", node.name} else node
            for node in one.nodes
        )
        return replace(one, nodes=nodes)

    return _clusters(world, name, drained)


def _score(world: World, name: str, written: str) -> World:
    path, _, value = written.partition("=")
    resource, _, item = path.partition("/")
    if not resource or not item:
        raise _Bad("a score is written RESOURCE/NAME=VALUE")
    number = round(_number(value, -SCORE_MAX, SCORE_MAX))

    def scored(one: Cluster) -> Cluster:
        before = one.scores.get(resource, ScoreObject({}))
        after = ScoreObject({**before.values, item: number}, 0, world.now_ms, "what if")
        return replace(one, scores={**one.scores, resource: after})

    return _clusters(world, name, scored)


def _window(world: World, name: str, written: str) -> World:
    if written not in {"open", "closed"}:
        raise _Bad("a window is `open` or `closed`")
    windows = () if written == "open" else ((0, 0),)
    return _clusters(world, name, lambda one: replace(one, windows=windows))


def _hold(world: World, name: str, written: str) -> World:
    data, _, revision = written.partition("@")
    known = [one for one in world.fleet.data if one.name == data and revision in {"", one.revision}]
    if not known:
        raise _Bad(f"the fleet has no data `{written}`")
    one = known[-1]
    held = Held(one.name, one.revision, one.bytes, observed_ms=world.now_ms, source="what if")

    def holding(cluster: Cluster) -> Cluster:
        others = (h for h in cluster.held if (h.data, h.revision) != (one.name, one.revision))
        return replace(cluster, held=(*others, held))

    return _clusters(world, name, holding)


def _weight(world: World, written: str) -> World:
    title, _, value = written.partition("=")
    number = _number(value, -WEIGHT_MAX, WEIGHT_MAX)
    if number != int(number):
        raise _Bad("a weight is a whole number")

    def weighted(placement: Placement) -> Placement:
        others = tuple(one for one in placement.prioritizers if one.title != title)
        kind, _, rest = title.partition("/")
        resource, _, item = rest.partition("/")
        changed = (
            Prioritizer(item, int(number), resource)
            if kind == "AddOn" and item
            else Prioritizer(title, int(number))
        )
        return replace(placement, prioritizers=(*others, changed))

    return replace(world, placements=tuple(map(weighted, world.placements)))


def _tolerate(world: World, written: str) -> World:
    key, value, effect = _tainted(written)
    given = Toleration(key, "Equal" if value else "Exists", value, effect)
    changed = (replace(one, tolerations=(*one.tolerations, given)) for one in world.placements)
    return replace(world, placements=tuple(changed))


def _number(written: str, least: float, most: float) -> float:
    try:
        value = float(written)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise _Bad(f"`{written}` is no number from {least:g} to {most:g}")
    return value


class Change(Struct, frozen=True):
    """How a change is written, how many words follow the verb, and what it does."""

    form: str
    words: int
    apply: Callable[..., World]


CHANGES: dict[str, Change] = {
    "lose": Change("lose CLUSTER` or `lose zone=eu-1", 1, _lose),
    "drain": Change("drain CLUSTER[/NODE]", 1, _drain),
    "free": Change("free CLUSTER", 1, _free),
    "taint": Change("taint CLUSTER KEY=VALUE:NoSelect", 2, _taint),
    "untaint": Change("untaint CLUSTER KEY", 2, _untaint),
    "tolerate": Change("tolerate KEY=VALUE:NoSelect", 1, _tolerate),
    "label": Change("label CLUSTER KEY=VALUE", 2, _label),
    "claim": Change("claim CLUSTER KEY=VALUE", 2, _claim),
    "price": Change("price CLUSTER 2.50", 2, _price),
    "wait": Change("wait CLUSTER 2h", 2, _wait),
    "window": Change("window CLUSTER open", 2, _window),
    "hold": Change("hold CLUSTER DATA@REVISION", 2, _hold),
    "score": Change("score CLUSTER RESOURCE/NAME=50", 2, _score),
    "weight": Change("weight Cost=5", 1, _weight),
}
"""Every change that can be asked about."""
