"""Says all that is known of a cluster, from whom, and how old it is; contradictions are shown."""

from collections.abc import Iterable

from msgspec.structs import replace

from stellwerk.core.data.units import show_data
from stellwerk.core.model.cluster import Cluster, ScoreObject
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.fleet import SET_LABEL, Contradiction, Fleet, Told
from stellwerk.core.model.standing import FactRow, Standing
from stellwerk.core.place.matching import matches
from stellwerk.core.place.written import written
from stellwerk.engine.placements import Placements
from stellwerk.server import fleet_models, standing_models, views
from stellwerk.store import Store

DECLARED = "declared"
DEFAULT_NAMESPACE = "default"

_PLAIN = (
    ("driver", ""), ("kind", ""), ("owner", ""), ("available", ""), ("deleting", False),
    ("speed", 1.0), ("wait_s", 0.0), ("reliability", None), ("lease_s", 0), ("kubernetes", ""),
    ("windows", ()),
)  # fmt: skip
"""Facts that are one value, with what they are where nobody said anything."""


def with_declared(known: fleet_models.Clusters, placements: Placements) -> fleet_models.Clusters:
    """The clusters with drivers, and those that are only declared."""
    here = {one.name for one in known.items}
    declared = [
        declared_view(row) for name, row in sorted(placements.rows().items()) if name not in here
    ]
    items = sorted((*known.items, *declared), key=lambda one: one.name)
    return replace(known, items=items)


def declared_view(row: FactRow) -> fleet_models.ClusterView:
    """A cluster that no driver here reaches; what is in use is as it was declared."""
    taken = {f"taken/{number}": one for number, one in enumerate(row.taken)}
    seen = views.cluster_view(row.cluster, taken, None)
    nodes = [
        replace(node, devices=[replace(device, runs=[]) for device in node.devices])
        for node in seen.nodes
    ]
    return replace(seen, state=DECLARED, nodes=nodes, runs=[])


def facts_of(
    store: Store, placements: Placements, name: str, now_ms: int
) -> fleet_models.ClusterPage:
    """Everything about one cluster."""
    found = placements.row(name)
    if found is None:
        raise _unknown(name, placements.rows())
    row, contradictions = found
    fleet = placements.fleet((DEFAULT_NAMESPACE,))
    return fleet_models.ClusterPage(
        cluster=declared_view(row),
        facts=_facts(store.placements(), row, contradictions, fleet, now_ms),
        seq=store.seq(),
    )


def _unknown(name: str, known: Iterable[str]) -> StellwerkError:
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name, names, 1)
    help = f"did you mean `{close[0]}`?" if close else f"there are: {', '.join(names[:8])}"
    return StellwerkError.of("find/cluster", f"there is no cluster `{name[:80]}`", help)


def _facts(
    standing: list[Standing],
    row: FactRow,
    contradictions: tuple[Contradiction, ...],
    fleet: Fleet,
    now_ms: int,
) -> standing_models.ClusterFacts:
    cluster, told = row.cluster, row.told
    name = cluster.name
    return standing_models.ClusterFacts(
        sets=_sets(cluster, fleet),
        taints=[
            standing_models.TaintView(one.key, one.value, one.effect, one.added_ms)
            for one in cluster.taints
        ],
        facts=_listed(cluster, told, now_ms),
        scores=[
            score
            for resource, one in sorted(cluster.scores.items())
            for score in _scores(resource, one, told, now_ms)
        ],
        held=[
            standing_models.HeldView(
                f"{one.data}@{one.revision}",
                one.bytes,
                one.source,
                now_ms - one.observed_ms if one.observed_ms else None,
            )
            for one in cluster.held
        ],
        links=[
            standing_models.LinkView(one.source, one.target, one.bits_per_s, one.usd_per_gb)
            for one in fleet.links
            if name in {one.source, one.target}
        ],
        contradictions=[
            standing_models.ContradictionView(one.fact, [list(pair) for pair in one.said], one.used)
            for one in contradictions
        ],
        placements=[
            one.placement.key
            for one in standing
            if one.decided is not None and name in one.decided.clusters
        ],
    )


def _sets(cluster: Cluster, fleet: Fleet) -> list[str]:
    own = cluster.labels.get(SET_LABEL)
    return [
        one.name
        for one in fleet.sets
        if (one.exclusive and own == one.name)
        or (one.selector is not None and matches(cluster, one.selector))
    ]


def _listed(cluster: Cluster, told: dict[str, Told], now_ms: int) -> list[standing_models.FactView]:
    found: list[standing_models.FactView] = []

    def say(fact: str, value: object, block: str) -> None:
        speaker = told.get(fact) or told.get(block)
        age = now_ms - speaker.at_ms if speaker is not None and speaker.at_ms else None
        source = speaker.source if speaker is not None else ""
        found.append(standing_models.FactView(fact, str(value), source, age))

    for block, values in (
        ("labels", cluster.labels),
        ("claims", cluster.claims),
        ("capacity", {key: written(key, number) for key, number in cluster.capacity.items()}),
        ("allocatable", {key: written(key, n) for key, n in cluster.allocatable.items()}),
    ):
        for key, value in sorted(values.items()):
            say(f"{block}.{key}", value, block)
    for field, nothing in _PLAIN:
        value = getattr(cluster, field)
        if value != nothing:
            say(field, value, field)
    costs = cluster.costs
    if costs.usd_per_hour:
        say("usd_per_hour", costs.usd_per_hour, "costs")
    for kind, usd in sorted(costs.usd_per_device_hour.items()):
        say(f"usd_per_hour.{kind}", usd, "costs")
    if costs.watts:
        say("watts", f"{costs.watts:g}", "costs")
    if cluster.room_bytes is not None:
        say("room", show_data(cluster.room_bytes), "room_bytes")
    if cluster.nodes:
        say("nodes", len(cluster.nodes), "nodes")
    return found


def _scores(
    resource: str, one: ScoreObject, told: dict[str, Told], now_ms: int
) -> list[standing_models.ScoreView]:
    speaker = told.get(f"scores.{resource}") or told.get("scores")
    observed = one.observed_ms or (speaker.at_ms if speaker is not None else 0)
    source = one.source or (speaker.source if speaker is not None else "")
    return [
        standing_models.ScoreView(
            name=f"{resource}/{name}",
            value=value,
            source=source,
            age_ms=now_ms - observed if observed else None,
            valid_until_ms=one.valid_until_ms,
            stale=0 < one.valid_until_ms < now_ms,
        )
        for name, value in sorted(one.values.items())
    ]
