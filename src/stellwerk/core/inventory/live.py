"""Keeps one fleet of all that sources say, and merges anew only the clusters they speak of anew."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.inventory.health import LEASE, at_moment, lapses_ms
from stellwerk.core.inventory.merge import Source, merge, with_global_set
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.fleet import Contradiction, Fleet, Told
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.scoring import ScoreSource
from stellwerk.core.model.standing import FactRow

NOTHING = Fleet(clusters=())


class FleetFacts(Struct, frozen=True):
    """What was read of a fleet file, as it is kept; ``placements`` are the keys of those in it."""

    sources: tuple[Source, ...]
    placements: tuple[str, ...] = ()
    score_sources: tuple[ScoreSource, ...] = ()


class Inventory:
    """All sources by a key of the caller's; of equals the one with the lower key is believed.

    ``rows`` are the clusters that are there, by name, as they are at the moment that `at` told: one
    that has been silent for too long is unreachable, and has the taint for it. ``changed``,
    ``gone`` and ``reshaped`` (all that isn't a cluster: sets, bindings, links) tell what `refresh`
    found since `seen`.
    """

    def __init__(self) -> None:
        self.rows: dict[str, FactRow] = {}
        self.contradictions: dict[str, tuple[Contradiction, ...]] = {}
        self.around = NOTHING
        self.changed: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        self.reshaped = True
        self._parts: dict[str, dict[str, Source]] = {}
        self._rest: dict[str, Source] = {}
        self._spoken: dict[str, None] = {}
        self._around_is_old = True
        self._now_ms = 0
        self._lapses: dict[str, int] = {}

    def copy(self) -> "Inventory":
        """The same again, to ask what if."""
        twin = Inventory()
        twin._parts = {name: dict(parts) for name, parts in self._parts.items()}
        twin._rest = dict(self._rest)
        twin._spoken = dict.fromkeys(self._parts)
        twin._now_ms = self._now_ms
        return twin

    def at(self, now_ms: int) -> None:
        """Takes over what time it is: who has become silent since is looked at anew."""
        self._now_ms = now_ms
        self._spoken.update((name, None) for name, at in self._lapses.items() if at <= now_ms)

    def next_lapse_ms(self) -> int:
        """When the next cluster becomes unreachable if it stays silent; 0 = never."""
        return min(self._lapses.values(), default=0)

    def say_file(self, name: str, sources: Sequence[Source]) -> None:
        """Takes what a fleet file says now in the place of what it said before."""
        beginning = f"file/{name}/"
        old = [key for key in self._rest if key.startswith(beginning)]
        new = {f"{beginning}{number:02}": source for number, source in enumerate(sources)}
        for key in dict.fromkeys((*old, *new)):
            self.say(key, new.get(key))

    def say(self, key: str, source: Source | None) -> None:
        """Takes what a source says now in the place of what it said before; None = nothing."""
        for name, parts in self._parts.items():
            if parts.pop(key, None) is not None:
                self._spoken[name] = None
        before = self._rest.pop(key, None)
        fleet = NOTHING
        if source is not None:
            fleet = source.fleet
            self._rest[key] = replace(source, fleet=replace(fleet, clusters=(), taken=(), told={}))
            self._speak(key, source)
        bare = replace(fleet, clusters=(), taken=(), told={}, contradictions=())
        if before is None or before.fleet != bare:
            self._around_is_old = True

    def probed(self, cluster: Cluster, taken: tuple[Allocation, ...], at_ms: int) -> None:
        """Takes what a driver found of its cluster and what runs hold there."""
        fleet = Fleet(clusters=(cluster,), taken=taken)
        source = Source(f"probe of {cluster.name}", "probed", fleet, at_ms)
        key = f"probe/{cluster.name}"
        self._parts.setdefault(cluster.name, {})[key] = source
        self._spoken[cluster.name] = None

    def _speak(self, key: str, source: Source) -> None:
        taken: dict[str, list[Allocation]] = {}
        for one in source.fleet.taken:
            taken.setdefault(one.cluster, []).append(one)
        for cluster in source.fleet.clusters:
            name = cluster.name
            told = source.fleet.told.get(name, {})
            part = Fleet((cluster,), taken=tuple(taken.get(name, ())), told={name: told})
            self._parts.setdefault(name, {})[key] = replace(source, fleet=part)
            self._spoken[name] = None
            taken.pop(name, None)
        for name, held in taken.items():
            part = Fleet((), taken=tuple(held))
            self._parts.setdefault(name, {})[key] = replace(source, fleet=part)
            self._spoken[name] = None

    def refresh(self) -> None:
        """Merges what was spoken of since the last time."""
        for name in self._spoken:
            self._merge(name)
        self._spoken.clear()
        if self._around_is_old:
            self._around_is_old = False
            around = merge([self._rest[key] for key in sorted(self._rest)])
            if around != self.around:
                self.around, self.reshaped = around, True

    def _merge(self, name: str) -> None:
        parts = self._parts.get(name, {})
        found = merge([parts[key] for key in sorted(parts)])
        self._lapses.pop(name, None)
        if not found.clusters:
            if not parts:
                self._parts.pop(name, None)
            self.contradictions.pop(name, None)
            if self.rows.pop(name, None) is not None:
                self.gone[name] = None
                self.changed.pop(name, None)
            return
        row = self._now(FactRow(found.clusters[0], found.taken, found.told.get(name, {})))
        before = self.rows.get(name)
        self.rows[name] = row
        self.contradictions[name] = found.contradictions
        if before is None or (before.cluster, before.taken) != (row.cluster, row.taken):
            self.changed[name] = None
            self.gone.pop(name, None)

    def _now(self, row: FactRow) -> FactRow:
        """A row as it is at this moment; of a cluster that is silent its lease says so."""
        lapse = lapses_ms(row.cluster, row.told)
        cluster = at_moment(row.cluster, row.told, self._now_ms)
        if lapse is None or lapse > self._now_ms:
            if lapse is not None:
                self._lapses[row.cluster.name] = lapse
            return replace(row, cluster=cluster)
        silent = Told(row.told[LEASE].source, lapse)
        return replace(row, cluster=cluster, told={**row.told, "available": silent})

    def seen(self) -> None:
        """What was found is taken over; from here on only what is new is told."""
        self.changed, self.gone, self.reshaped = {}, {}, False

    def fleet(self, namespaces: Iterable[str] = ()) -> Fleet:
        """The fleet as it is believed to be; those namespaces to which nobody bound any set may
        choose from everything.
        """
        rows = [self.rows[name] for name in sorted(self.rows)]
        whole = fleet_of_rows(rows, with_global_set(self.around, namespaces))
        names = sorted(self.contradictions)
        told = tuple(one for name in names for one in self.contradictions[name])
        return replace(whole, contradictions=(*told, *whole.contradictions))


def fleet_of_rows(rows: Iterable[FactRow], around: Fleet) -> Fleet:
    """Puts clusters and what is around them together."""
    listed = list(rows)
    return replace(
        around,
        clusters=tuple(row.cluster for row in listed),
        taken=tuple(one for row in listed for one in row.taken),
        told={row.cluster.name: row.told for row in listed if row.told},
    )
