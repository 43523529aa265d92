"""Finds what a fleet says of data, links and prices that no number can be made of, all at once.

Estimates stay safe without it: a link that is no use is left out with its reason, a negative amount
counts as nothing. But whoever described the fleet should know.
"""

import math
from collections.abc import Iterator

from stellwerk.core.data.catalogue import Catalogue
from stellwerk.core.data.sources import usable
from stellwerk.core.model.cluster import Cluster, Held
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.fleet import Fleet


def check(fleet: Fleet) -> tuple[Problem, ...]:
    """Every problem, in the order of data, links and clusters."""
    return (*_data(fleet), *_links(fleet), *_clusters(fleet))


def _data(fleet: Fleet) -> Iterator[Problem]:
    for one in fleet.data:
        path = f"data.{one.name}@{one.revision}"
        if one.bytes < 0:
            yield Problem(
                "data/negative",
                f"{one.name} has {one.bytes} bytes",
                "write its size as 0 or more",
                path=path,
            )
        if not one.name:
            yield Problem("data/unnamed", "a data set has no name", "give it one", path=path)
    for said in Catalogue(fleet.data).contradictions():
        values = ", ".join(f"{source}: {value}" for source, value in said.said)
        yield Problem(
            "data/contradiction",
            f"the catalogue says different things of the {said.fact} ({values})",
            "keep one entry for one revision",
            path="data",
        )


def _links(fleet: Fleet) -> Iterator[Problem]:
    known = {cluster.name for cluster in fleet.clusters}
    stores = {one.origin for one in fleet.data if one.origin}
    for link in fleet.links:
        path = f"links.{link.source}->{link.target}"
        if not usable(link):
            yield Problem(
                "link/unusable",
                f"the link from {link.source} to {link.target} has {link.bits_per_s:g} bit/s at "
                f"{link.usd_per_gb:g} USD per GB",
                "its bandwidth must be more than 0, its price 0 or more",
                path=path,
            )
        if link.target not in known and link.target not in stores:
            yield Problem(
                "link/unknown-end",
                f"the link from {link.source} leads to `{link.target}`, which is no cluster",
                f"clusters are: {', '.join(sorted(known)) or 'none'}",
                path=path,
            )


def _clusters(fleet: Fleet) -> Iterator[Problem]:
    catalogue = Catalogue(fleet.data)
    for cluster in fleet.clusters:
        yield from _numbers(cluster)
        for held in cluster.held:
            yield from _held(catalogue, cluster.name, held)


def _numbers(cluster: Cluster) -> Iterator[Problem]:
    costs = cluster.costs
    amounts: dict[str, float] = {
        "price per hour": costs.usd_per_hour,
        "power": costs.watts,
        "wait": cluster.wait_s,
        "room for data": cluster.room_bytes or 0,
        "evictable data": cluster.evictable_bytes,
    }
    amounts |= {f"price of {kind}": usd for kind, usd in costs.usd_per_device_hour.items()}
    for what, value in amounts.items():
        if not math.isfinite(value) or value < 0:
            yield Problem(
                "cluster/negative",
                f"the {what} of {cluster.name} is {value:g}",
                "write a number of 0 or more",
                path=f"clusters.{cluster.name}",
            )
    if not math.isfinite(cluster.speed) or cluster.speed <= 0:
        yield Problem(
            "cluster/speed",
            f"the speed of {cluster.name} is {cluster.speed:g}",
            "1 is the speed of the machine that runtimes were told for; write more than 0",
            path=f"clusters.{cluster.name}",
        )


def _held(catalogue: Catalogue, cluster: str, held: Held) -> Iterator[Problem]:
    path = f"clusters.{cluster}.held.{held.data}@{held.revision}"
    if (held.bytes or 0) < 0 or held.shared_bytes < 0:
        yield Problem(
            "data/negative",
            f"{cluster} is said to hold less than nothing of {held.data}",
            "write 0 or more, or leave it out",
            path=path,
        )
    if not 0 <= held.lost_probability <= 1:
        yield Problem(
            "data/probability",
            f"{held.data} on {cluster} is lost with a probability of {held.lost_probability:g}",
            "write a number from 0 to 1",
            path=path,
        )
    known = catalogue.revisions(held.data)
    if known and held.revision not in known and not held.shared_bytes:
        yield Problem(
            "data/unknown-revision",
            f"{cluster} holds `{held.data}` at revision `{held.revision}`, which the catalogue "
            "doesn't have",
            f"it has: {', '.join(known)}; until then it counts for none of them",
            path=path,
        )
