"""Decides which replicas could feed a cluster, and says of each other one why it can't.

A replica is a cluster that holds all of a data set, or a store outside: anything that a link
starts from and that is no cluster. A store is taken to hold what the catalogue names it the origin
of; data whose origin is no end of any link is taken to lie in every store.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from stellwerk.core.data.catalogue import Catalogue, Key, in_caches
from stellwerk.core.data.regions import lies_in, region_of
from stellwerk.core.data.units import show_data
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.fleet import Data, Fleet, Link
from stellwerk.core.model.reasons import Reason

DEAREST = 1e9
"""USD for a GB: beyond it a price is a slip of the hand."""


class Need(Struct, frozen=True):
    """A data set of a job with what the catalogue says of its content, looked up once."""

    data: Data
    key: Key
    residency: tuple[tuple[str, ...], ...]
    movable: bool


class Offer(Struct, frozen=True):
    """A replica with a link to the cluster; with a reason it can't be used."""

    link: Link
    reason: Reason | None = None


class Grounds:
    """A fleet prepared for estimates: its catalogue, and its links by where they lead."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        declared = {(one.name, one.revision): True for one in fleet.data}
        found = (
            one for one in in_caches(fleet.clusters) if (one.name, one.revision) not in declared
        )
        self.catalogue = Catalogue((*fleet.data, *found))
        self.clusters: Mapping[str, Cluster] = {one.name: one for one in fleet.clusters}
        self.links: dict[str, list[Link]] = {}
        self.starts: dict[str, bool] = {}
        for link in sorted(fleet.links, key=_by_ends):
            self.links.setdefault(link.target, []).append(link)
            self.starts[link.source] = True

    def need(self, data: Data) -> Need:
        """What the catalogue knows of a data set."""
        catalogue = self.catalogue
        return Need(data, catalogue.key(data), catalogue.residency(data), catalogue.may_move(data))

    def inner(self, cluster: str) -> Link | None:
        """The network inside a cluster: a usable link from it to itself."""
        return next(
            (one for one in self.links.get(cluster, ()) if one.source == cluster and usable(one)),
            None,
        )

    def offers(self, cluster: Cluster, need: Need) -> list[Offer]:
        """Every replica with a link to the cluster, by name; those of no use with the reason."""
        found = []
        for link in self.links.get(cluster.name, ()):
            if link.source == cluster.name:
                continue
            source = self.clusters.get(link.source)
            if source is None:
                if self._lies_in_store(need.data, link.source):
                    found.append(Offer(link, _of_link(link, need)))
                continue
            part = self.catalogue.held(source, need.data, need.key)
            if part.found_bytes == 0:
                continue
            found.append(Offer(link, _of_link(link, need) or self._of_replica(source, need)))
        return found

    def _lies_in_store(self, data: Data, store: str) -> bool:
        return data.origin == store or data.origin not in self.starts

    def _of_replica(self, source: Cluster, need: Need) -> Reason | None:
        """Why what a cluster holds can't be read from there."""
        part = self.catalogue.held(source, need.data, need.key)
        if (broken := broken_rule(source, need)) is not None:
            return broken
        if part.found_bytes is None or part.found_bytes < part.size_bytes:
            held = "an unknown part" if part.found_bytes is None else show_data(part.found_bytes)
            size = show_data(part.size_bytes)
            return Reason(
                "source_incomplete",
                {"source": source.name, "held": held, "size": size, "data": need.data.name},
            )
        if source.available == "False" or source.deleting:
            return Reason("source_away", {"source": source.name})
        return None


def usable(link: Link) -> bool:
    """Whether numbers can be made of a link: some bandwidth, a price that is one."""
    return 1 <= link.bits_per_s < math.inf and 0 <= link.usd_per_gb <= DEAREST


def broken_rule(cluster: Cluster, need: Need) -> Reason | None:
    """The residency rule of a data set that a cluster breaks."""
    for rule in need.residency:
        if not lies_in(cluster, rule):
            region = region_of(cluster)
            return Reason(
                "data_residency",
                {
                    "data": need.data.name,
                    "allowed": _listed(rule),
                    "cluster": cluster.name,
                    "where": f"in {region}" if region else "in a region that nobody tells",
                },
            )
    return None


def _listed(places: tuple[str, ...]) -> str:
    """`EU`, `EU or UK`, `EU, UK or CH`."""
    *most, last = places
    return f"{', '.join(most)} or {last}" if most else last


def _of_link(link: Link, need: Need) -> Reason | None:
    if not usable(link):
        return Reason(
            "link_unusable",
            {"source": link.source, "cluster": link.target, "note": _what_is_wrong(link)},
        )
    if link.egress == "deny" or not need.movable:
        return Reason("data_egress_denied", {"data": need.data.name, "source": link.source})
    return None


def _what_is_wrong(link: Link) -> str:
    if not 1 <= link.bits_per_s < math.inf:
        return f"its bandwidth is {link.bits_per_s:g} bit/s"
    return f"its price is {link.usd_per_gb:g} USD per GB"


def _by_ends(link: Link) -> tuple[str, str, bool, float, float]:
    if not usable(link):
        return link.source, link.target, True, 0.0, 0.0
    return link.source, link.target, False, -link.bits_per_s, link.usd_per_gb


def without_worse(offers: Sequence[Offer]) -> list[Offer]:
    """The usable offers that no other one beats in both speed and price (shared links stay)."""
    usable_ones = [one for one in offers if one.reason is None]
    return [
        one
        for place, one in enumerate(usable_ones)
        if not any(
            _beats(other.link, one.link, earlier=other_place < place)
            for other_place, other in enumerate(usable_ones)
            if other_place != place
        )
    ]


def _beats(other: Link, link: Link, *, earlier: bool) -> bool:
    if other.shared and not link.shared:
        return False
    mine = (link.bits_per_s, -link.usd_per_gb)
    theirs = (other.bits_per_s, -other.usd_per_gb)
    if mine == theirs:
        return earlier
    return theirs[0] >= mine[0] and theirs[1] >= mine[1]
