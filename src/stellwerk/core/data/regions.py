"""Decides where a cluster lies, and whether data may lie there."""

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.domains import REGION_KEYS


def region_of(cluster: Cluster) -> str:
    """The region by claim, else by label; "" where nobody says."""
    for key in REGION_KEYS:
        for told in (cluster.claims, cluster.labels):
            if told.get(key):
                return told[key]
    return ""


def lies_in(cluster: Cluster, allowed: tuple[str, ...]) -> bool:
    """Whether a cluster is one of, or in one of, the places; no places = everywhere.

    `eu-central-1` lies in `EU`: a region contains those whose name continues it after a `-`. A
    cluster of unknown region lies nowhere.
    """
    if not allowed:
        return True
    region = region_of(cluster).casefold()
    for place in allowed:
        wanted = place.casefold()
        if cluster.name.casefold() == wanted:
            return True
        if region and (region == wanted or region.startswith(f"{wanted}-")):
            return True
    return False
