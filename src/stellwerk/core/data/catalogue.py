"""Decides which data sets and models there are, and how much of them each cluster has.

What is the same is decided by content hash: two names for one hash are one thing, and one name with
two hashes is two. Where no hash is known, name and revision together stand for the content.
"""

import math
from collections.abc import Iterable, Iterator

from msgspec import Struct

from stellwerk.core.data.names import on_hub
from stellwerk.core.data.regions import lies_in, region_of
from stellwerk.core.data.units import show_data
from stellwerk.core.model.cluster import Cluster, Held
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.estimates import HeldPart
from stellwerk.core.model.fleet import Contradiction, Data

Key = tuple[str, ...]
UNKNOWN_BYTES = -1
"""The size of data of which nobody has told how much it is."""


def in_caches(clusters: Iterable[Cluster]) -> Iterator[Data]:
    """Revisions of the hub whose size some machine knows, as it has the list of their files."""
    known: dict[tuple[str, str], Data] = {}
    for cluster in clusters:
        for held in (*cluster.held, *(held for node in cluster.nodes for held in node.held)):
            if on_hub(held.data) and held.bytes is not None and held.missing_bytes is not None:
                size = held.bytes + held.missing_bytes
                one = Data(held.data, held.revision, size, origin=held.data)
                known.setdefault((held.data, held.revision), one)
    yield from known.values()


class Replica(Struct, frozen=True):
    """A cluster that has something of a data set; ``allowed`` False breaks its residency."""

    cluster: str
    part: HeldPart
    region: str
    allowed: bool


class Catalogue:
    """The data sets and models of a fleet, by name and revision, and by content."""

    def __init__(self, data: Iterable[Data]) -> None:
        self._named: dict[str, dict[str, list[Data]]] = {}
        self._same: dict[Key, list[Data]] = {}
        for one in data:
            self._named.setdefault(one.name, {}).setdefault(one.revision, []).append(one)
            self._same.setdefault(_own_key(one), []).append(one)

    def find(self, written: str) -> Data | Problem:
        """The data set that `name` or `name@revision` means, or what is wrong with that."""
        name, _, revision = written.partition("@")
        revisions = self._named.get(name)
        if on_hub(name) and revision and revision not in (revisions or {}):
            return Data(name, revision, UNKNOWN_BYTES, origin=name)
        if revisions is None:
            known = ", ".join(sorted(self._named)) or "none yet"
            return Problem("data/unknown", f"no data set `{name}`", f"known are: {known}")
        listed = ", ".join(sorted(revisions))
        if not revision and len(revisions) > 1:
            return Problem(
                "data/which-revision",
                f"`{name}` has {len(revisions)} revisions",
                f"write `{name}@REVISION`: {listed}",
            )
        chosen = revisions.get(revision) if revision else next(iter(revisions.values()))
        if chosen is None:
            return Problem(
                "data/unknown-revision",
                f"`{name}` has no revision `{revision}`",
                f"it has: {listed}",
            )
        return chosen[0]

    def revisions(self, name: str) -> tuple[str, ...]:
        """The revisions of a data set that are in the catalogue, in order."""
        return tuple(sorted(self._named.get(name, ())))

    def key(self, data: Data) -> Key:
        """What a data set is the same as: its hash, from itself or from the catalogue."""
        if data.content:
            return _own_key(data)
        return self._key_of(data.name, data.revision)

    def residency(self, data: Data) -> tuple[tuple[str, ...], ...]:
        """All residency rules that hold for this content, under whatever name they were written."""
        rules = [one.residency for one in self._alike(data) if one.residency]
        return tuple(dict.fromkeys(rules))

    def may_move(self, data: Data) -> bool:
        """Whether the content may leave a cluster that holds it."""
        return all(one.movable for one in self._alike(data))

    def held(self, cluster: Cluster, data: Data, key: Key = ()) -> HeldPart:
        """How much of it a cluster has; what nobody knows counts as nothing.

        ``key`` is that of the data, where the caller has it already.
        """
        nothing = HeldPart(data.name, data.revision, max(0, data.bytes), 0.0)
        if not cluster.held:
            return nothing
        wanted = key or self.key(data)
        parts = [part for held in cluster.held if (part := self._part(held, data, wanted))]
        return max(parts, key=_preference, default=nothing)

    def replicas(self, data: Data, clusters: Iterable[Cluster]) -> tuple[Replica, ...]:
        """The clusters that have something of it, whole replicas first."""
        rules = self.residency(data)
        found = [
            Replica(
                cluster.name,
                part,
                region_of(cluster),
                all(lies_in(cluster, rule) for rule in rules),
            )
            for cluster in clusters
            if (part := self.held(cluster, data)).found_bytes != 0
        ]
        return tuple(sorted(found, key=lambda one: (-(one.part.found_bytes or 0), one.cluster)))

    def contradictions(self, clusters: Iterable[Cluster] = ()) -> tuple[Contradiction, ...]:
        """What is said twice and differently: by the catalogue, or by it and a cluster."""
        groups = [
            (f"{name}@{revision}", entries)
            for name, revisions in sorted(self._named.items())
            for revision, entries in sorted(revisions.items())
        ]
        groups += [
            (f"content {key[1]}", entries)
            for key, entries in sorted(self._same.items())
            if len({one.name for one in entries}) > 1
        ]
        said = [
            Contradiction("", f"{what} of {group}", told, told[0][0])
            for group, entries in groups
            for what, told in _differences(entries)
        ]
        for cluster in clusters:
            for held in cluster.held:
                said += self._against(cluster, held)
        return tuple(said)

    def _key_of(self, name: str, revision: str) -> Key:
        for one in self._named.get(name, {}).get(revision, ()):
            if one.content:
                return _own_key(one)
        return ("named", name, revision)

    def _alike(self, data: Data) -> list[Data]:
        return [data, *self._same.get(self.key(data), ())]

    def _part(self, held: Held, data: Data, wanted: Key) -> HeldPart | None:
        named_so = held.revision == data.revision and held.data in {data.name, data.origin}
        if held.content:
            same = ("content", held.content) == wanted or (named_so and wanted[0] == "named")
        else:
            same = named_so or self._key_of(held.data, held.revision) == wanted
        if same:
            return _counted(held, data, held.bytes, "")
        if held.shared_bytes > 0 and held.data == data.name:
            return _counted(held, data, held.shared_bytes, held.revision)
        return None

    def _against(self, cluster: Cluster, held: Held) -> list[Contradiction]:
        source = held.source or "told"
        entries = self._named.get(held.data, {}).get(held.revision, [])
        found = []
        for one in entries[:1]:
            what = f"{one.name}@{one.revision}"
            if held.content and one.content and held.content != one.content:
                told = (("catalogue", one.content), (source, held.content))
                found.append(Contradiction(cluster.name, f"content of {what}", told, source))
            if held.bytes is not None and held.bytes > max(0, one.bytes):
                told = (("catalogue", show_data(one.bytes)), (source, show_data(held.bytes)))
                found.append(Contradiction(cluster.name, f"size of {what}", told, "catalogue"))
        return found


def _own_key(data: Data) -> Key:
    return ("content", data.content) if data.content else ("named", data.name, data.revision)


def _counted(held: Held, data: Data, found: int | None, through: str) -> HeldPart:
    size = max(0, data.bytes)
    kept = 1.0 - _probability(held.lost_probability)
    clamped = None if found is None else min(max(0, found), size)
    return HeldPart(
        data=data.name,
        revision=data.revision,
        size_bytes=size,
        counted_bytes=(clamped or 0) * kept,
        found_bytes=clamped,
        lost_probability=1.0 - kept,
        through=through,
        partial_bytes=max(0, held.partial_bytes),
        source=held.source,
        observed_ms=held.observed_ms,
    )


def _probability(written: float) -> float:
    """A probability inside 0..1; one that is no number loses everything."""
    return 1.0 if math.isnan(written) else min(max(0.0, written), 1.0)


def _preference(part: HeldPart) -> tuple[float, bool, bool]:
    return part.counted_bytes, part.found_bytes is None, not part.through


def _differences(entries: list[Data]) -> Iterable[tuple[str, tuple[tuple[str, str], ...]]]:
    sizes = dict.fromkeys(f"{one.bytes} bytes" for one in entries)
    hashes = dict.fromkeys(one.content for one in entries if one.content)
    for what, values in (("size", sizes), ("content", hashes)):
        if len(values) > 1:
            yield what, tuple((f"entry {n}", value) for n, value in enumerate(values, 1))
