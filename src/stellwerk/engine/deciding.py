"""Decides for placements in a worker thread, and packs each answer with what it was made of.

This module and what it imports (numpy, expressions) are loaded when there is a first placement.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.inventory.live import Inventory
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import DIGEST_LENGTH
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Choice, PlacingContext
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.standing import Decided, Inputs, Refusal, Standing, StoredDecision
from stellwerk.core.place.explained import unpacked_bits
from stellwerk.core.place.failures import Facts, failures
from stellwerk.core.place.placer import Placer
from stellwerk.core.place.placing import stored
from stellwerk.core.standing import Answer, without_job
from stellwerk.core.version import CORE_VERSION
from stellwerk.engine.kept_facts import KeptFacts, named, packed

MOST_REFUSALS = 16
"""Of so many clusters that can run work here it is told why they weren't chosen."""
WORDS_KEPT = 10_000
BEHIND = Refusal("others are better", "it passes, but ranks behind those chosen")

_encode = msgspec.msgpack.Encoder().encode


class Made(Struct, frozen=True):
    """An answer, with what is stored of it and what it refers to that isn't stored yet."""

    answer: Answer
    data: bytes
    parts: dict[str, bytes]


class Decider:
    """All placements over one inventory. Used by one thread at a time."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._standing: dict[str, Standing] = {}
        self._specs: dict[str, str] = {}
        self._facts = KeptFacts()
        self._placer: Placer | None = None
        self._namespaces: tuple[str, ...] = ()
        self._words: dict[tuple[str, str], Refusal] = {}
        self._choices: dict[str, Choice] = {}
        self._here: dict[str, None] = {}
        self._held: dict[str, tuple[Allocation, ...]] = {}

    def apply(self, put: Iterable[Standing], dropped: Iterable[str], here: Iterable[str]) -> None:
        """Takes over placements; ``here`` are the clusters that can run work."""
        self._here = dict.fromkeys(sorted(here)[:MOST_REFUSALS])
        for key in dropped:
            if self._standing.pop(key, None) is not None and self._placer is not None:
                self._placer.drop(key)
            self._choices.pop(key, None)
        for one in put:
            key = one.placement.key
            one = replace(one, placement=without_job(one.placement))  # noqa: PLW2901
            self._standing[key] = one
            self._specs[key] = self._spec(one.placement)
            self._choices.pop(key, None)
            if self._placer is not None:
                self._put(self._placer, one)

    def hold(self, own: Mapping[str, tuple[Allocation, ...]]) -> None:
        """Takes what the work of placements holds now; it is asked anew where it matters."""
        for key, held in own.items():
            self._held[key] = held
            if not held:
                del self._held[key]
            one = self._standing.get(key)
            if one is not None and one.placement.demand is not None:
                self._choices.pop(key, None)
                if self._placer is not None:
                    self._placer.know(key, held)

    def _own(self, key: str) -> tuple[Allocation, ...]:
        """What a placement's own work holds; of one that asks for no room nobody looks at it."""
        asks = self._standing[key].placement.demand is not None
        return self._held.get(key, ()) if asks else ()

    def _spec(self, placement: Placement) -> str:
        id, data = packed(placement)
        self._facts.part(id, data)
        return id

    def _put(self, placer: Placer, one: Standing) -> None:
        key = one.placement.key
        placer.put(one.placement)
        placer.know(key, self._own(key))
        placer.ledger.set(key, one.decided.clusters if one.decided else ())

    def _resume(self, placer: Placer, one: Standing) -> None:
        """What was decided for this very spec isn't decided anew without need.

        One whose own work holds something isn't as the others of its class, so it is asked.
        """
        decided = one.decided
        if self._own(one.placement.key):
            return
        if decided is not None and one.decided_for == one.version and not decided.kept:
            placer.resume(one.placement.key, decided.clusters, decided.totals)

    def answers(self, now_ms: int, used: Sequence[str] = ()) -> Iterator[Made]:
        """Decides what must be decided anew; gives the answers that are others than before.

        Of placements that are ``used`` by work it is also told anew why clusters are refused.
        """
        placer = self._take_facts(now_ms)
        for choice in placer.replan(now_ms):
            self._choices.pop(choice.placement, None)
            made = self._made(placer, choice, now_ms)
            if made is not None:
                yield made
        for key in used:
            if key in self._standing:
                again = self._choices.get(key) or placer.decide(key, now_ms)
                made = self._made(placer, again, now_ms)
                if made is not None:
                    yield made
                self._choices[key] = again

    def requeue_at_ms(self) -> int:
        """When time alone changes something; 0 = never."""
        if self._placer is None:
            return 0
        times = (self._placer.requeue_at_ms(), self._inventory.next_lapse_ms())
        return min((at_ms for at_ms in times if at_ms), default=0)

    def _take_facts(self, now_ms: int) -> Placer:
        """Brings the columns up to date."""
        inventory = self._inventory
        inventory.at(now_ms)
        inventory.refresh()
        namespaces = tuple(sorted({one.placement.namespace for one in self._standing.values()}))
        reshaped = inventory.reshaped or namespaces != self._namespaces
        placer = self._placer
        if not (placer is None or reshaped or inventory.gone or inventory.changed):
            return placer
        self._choices = {}
        self._namespaces = namespaces
        if placer is None:
            placer = self._anew(namespaces)
        else:
            self._update(placer, namespaces if reshaped else None)
        inventory.seen()
        return placer

    def _anew(self, namespaces: tuple[str, ...]) -> Placer:
        fleet = self._inventory.fleet(namespaces)
        placer = self._placer = Placer(FleetColumns(fleet))
        for one in self._standing.values():
            self._put(placer, one)
            self._resume(placer, one)
        self._keep_facts(fleet)
        return placer

    def _keep_facts(self, fleet: Fleet) -> None:
        around = replace(fleet, clusters=(), taken=(), told={}, contradictions=())
        self._facts.around(around)
        self._facts.rows(self._inventory.rows)

    def store_anew(self) -> None:
        """Parts may have been removed from the store: all that is needed from now on is stored."""
        self._facts = KeptFacts()
        for key, one in self._standing.items():
            self._specs[key] = self._spec(one.placement)
        if self._placer is not None:
            self._keep_facts(self._inventory.fleet(self._namespaces))

    def _update(self, placer: Placer, namespaces: tuple[str, ...] | None) -> None:
        columns, inventory = placer.columns, self._inventory
        changed = {name: inventory.rows[name] for name in inventory.changed}
        taken = {
            name: row.taken
            for name, row in changed.items()
            if columns.taken.get(name, ()) != row.taken
        }
        columns.update((row.cluster for row in changed.values()), inventory.gone)
        if taken:
            columns.take(taken)
        if namespaces is not None:
            fleet = self._inventory.fleet(namespaces)
            columns.around(fleet)
            around = replace(fleet, clusters=(), taken=(), told={}, contradictions=())
            self._facts.around(around)
        self._facts.rows(changed, inventory.gone)

    def _made(self, placer: Placer, choice: Choice, now_ms: int) -> Made | None:
        key = choice.placement
        one = self._standing[key]
        refused = self._refused(placer, choice, now_ms)
        decided = decided_of(choice, refused)
        if one.says(decided):
            return None
        shared = choice.explanation.shared
        shared_id = choice.explanation.shared_id
        if shared is not None and not self._facts.knows(shared_id):
            self._facts.part(shared_id, named(_encode(shared))[1])
        looked_ms = shared.now_ms if shared is not None else now_ms
        inputs = Inputs(
            spec=self._specs[key],
            facts=self._facts.table(),
            now_ms=now_ms,
            looked_ms=looked_ms,
            core_version=CORE_VERSION,
            own=self._own_part(key),
        )
        data = _encode(StoredDecision(inputs, stored(choice)))
        id = f"pd-{hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]}"
        decided = replace(decided, decision=id)
        self._standing[key] = replace(one, decided=decided, decided_for=one.version)
        return Made(Answer(key, one.version, decided), data, self._facts.fresh())

    def _own_part(self, key: str) -> str:
        own = self._own(key)
        if not own:
            return ""
        id, data = packed(own)
        self._facts.part(id, data)
        return id

    def _refused(self, placer: Placer, choice: Choice, now_ms: int) -> dict[str, Refusal]:
        rows = placer.columns.row
        chosen = (*choice.clusters, *choice.standby)
        names = [name for name in self._here if name in rows and name not in chosen]
        return {name: self._why_not(placer, choice, name, now_ms) for name in names}

    def _why_not(self, placer: Placer, choice: Choice, name: str, now_ms: int) -> Refusal:
        shared = choice.explanation.shared_id
        own = self._own(choice.placement)
        known = self._words.get((shared, name)) if shared and not own else None
        if known is None:
            placement = self._standing[choice.placement].placement
            context = PlacingContext(now_ms, own=own)
            known = why_not(placement, choice, placer.columns, name, context)
            if own:
                return known
            if len(self._words) >= WORDS_KEPT:
                self._words.clear()
            self._words[shared, name] = known
        return known


def why_not(
    placement: Placement, choice: Choice, columns: FleetColumns, name: str, context: PlacingContext
) -> Refusal:
    """The first rule that keeps a cluster from being chosen, in words."""
    shared, row = choice.explanation.shared, columns.row[name]
    facts = Facts(placement, columns, context)
    if shared is None:
        return Refusal("the placement is broken", choice.status.message)
    if not unpacked_bits(shared.candidates, shared.size)[row]:
        for rule in facts.membership(row):
            return Refusal(rule.rule, rule.found)
        return Refusal("it is in the sets that may be chosen from")
    for column in shared.filters:
        if unpacked_bits(column.failed, shared.size)[row]:
            for rule in failures(facts, row, column.name, column.details.get(row, ())):
                return Refusal(rule.rule, rule.found)
            return Refusal(column.name)
    return BEHIND


def decided_of(choice: Choice, refused: dict[str, Refusal]) -> Decided:
    """What a choice gives, without an id: `refused` says why clusters here weren't chosen."""
    passed = choice.explanation.passed
    return Decided(
        decision="",
        clusters=choice.clusters,
        totals=choice.totals,
        standby=choice.standby,
        groups=choice.groups,
        conditions=choice.conditions,
        unscheduled=choice.unscheduled,
        moves=choice.moves,
        refused=refused,
        candidates=int.from_bytes(passed, "little").bit_count(),
        kept=choice.kept,
    )
