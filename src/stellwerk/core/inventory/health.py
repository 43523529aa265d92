"""Decides how a cluster is at a moment: by its own word, and by how long it has been silent.

As in Open Cluster Management a cluster that has not renewed its lease for five times its length is
Unknown, whatever it said before; one that is not available gets the taint that the hub's own
controller would set, unless it has it, with the time since when. One of which nobody says anything
gets none.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.cluster import Available, Cluster, Taint
from stellwerk.core.model.fleet import Fleet, Told

LEASE = "lease"
"""The key of `Fleet.told` under which the time of the last renewal stands."""
GRACE = 5
DEFAULT_LEASE_S = 60
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"


class Health(Struct, frozen=True):
    """Whether a cluster can be worked with, since when (0 = unknown), and why that is said."""

    available: Available
    since_ms: int
    reason: str


def health_of(cluster: Cluster, told: Mapping[str, Told], now_ms: int) -> Health:
    """The health of a cluster at a moment."""
    lapse = lapses_ms(cluster, told)
    if lapse is not None and now_ms >= lapse:
        return Health("Unknown", lapse, "LeaseUpdateStopped")
    said = told.get("available")
    return Health(cluster.available, said.at_ms if said else 0, "Told" if cluster.available else "")


def lapses_ms(cluster: Cluster, told: Mapping[str, Told]) -> int | None:
    """When a cluster counts as unreachable if it stays silent; None if it has no lease."""
    renewed = told.get(LEASE)
    if renewed is None or not renewed.at_ms or not cluster.lease_s:
        return None
    return renewed.at_ms + GRACE * cluster.lease_s * 1000


def at_moment(cluster: Cluster, told: Mapping[str, Told], now_ms: int) -> Cluster:
    """The cluster as it is at a moment, with the taints that its health gives it."""
    health = health_of(cluster, told, now_ms)
    key = {"False": UNAVAILABLE, "Unknown": UNREACHABLE}.get(health.available, "")
    taints = cluster.taints
    if key and all(taint.key != key for taint in taints):
        taints = (*taints, Taint(key, "NoSelect", added_ms=health.since_ms))
    if health.available == cluster.available and taints is cluster.taints:
        return cluster
    return replace(cluster, available=health.available, taints=taints)


def fleet_at(fleet: Fleet, now_ms: int) -> Fleet:
    """The fleet as it is at a moment; the same object if nothing in it is due."""
    clusters = tuple(
        at_moment(each, fleet.told.get(each.name, {}), now_ms) for each in fleet.clusters
    )
    if all(new is old for new, old in zip(clusters, fleet.clusters, strict=True)):
        return fleet
    return replace(fleet, clusters=clusters)


def next_lapse_ms(fleet: Fleet, now_ms: int) -> int | None:
    """The next moment at which a cluster that stays silent becomes unreachable."""
    lapses = (lapses_ms(each, fleet.told.get(each.name, {})) for each in fleet.clusters)
    return min((lapse for lapse in lapses if lapse is not None and lapse > now_ms), default=None)
