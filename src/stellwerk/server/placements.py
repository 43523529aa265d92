"""Answers about placements from what is stored: lists, explanations, replays, differences.

Everything here may run in a thread. What needs columns is imported when it is first asked for.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stellwerk.core.describe.placement_objects import to_object
from stellwerk.core.inventory.live import fleet_of_rows
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Condition, DecisionGroup, Placement
from stellwerk.core.model.placing import (
    Choice,
    Existing,
    Explained,
    Move,
    PlacingContext,
    SharedExplanation,
)
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.standing import NOT_YET, FactRow, Standing, StoredDecision
from stellwerk.core.standing import left_to_jobs, without_job
from stellwerk.core.version import CORE_VERSION
from stellwerk.engine.kept_facts import read_rows, unpacked
from stellwerk.server import standing_models as models
from stellwerk.store import Placed, Store

if TYPE_CHECKING:
    from stellwerk.core.inventory.columns import FleetColumns


class Loaded:
    """A stored decision with all that it was made of."""

    def __init__(self, store: Store, placed: Placed) -> None:
        from stellwerk.core.inventory.columns import FleetColumns

        self.placed = placed
        self.decision = msgspec.msgpack.decode(placed.data, type=StoredDecision)
        inputs = self.decision.inputs
        self.rows: list[FactRow]
        self.rows, self.around = read_rows(store, inputs.facts)
        shared_id = self.decision.choice.explanation.shared_id
        parts = store.parts([id for id in (inputs.spec, inputs.own, shared_id) if id])
        self.placement = msgspec.msgpack.decode(unpacked(parts[inputs.spec]), type=Placement)
        self.own: tuple[Allocation, ...] = ()
        if inputs.own:
            data = unpacked(parts[inputs.own])
            self.own = msgspec.msgpack.decode(data, type=tuple[Allocation, ...])
        self.fleet: Fleet = fleet_of_rows(self.rows, self.around)
        self.columns: FleetColumns = FleetColumns(self.fleet)
        choice = self.decision.choice
        if shared_id:
            data = unpacked(parts[shared_id])
            shared = msgspec.msgpack.decode(data, type=SharedExplanation)
            choice = replace(choice, explanation=replace(choice.explanation, shared=shared))
        self.choice = choice
        self.context = PlacingContext(inputs.looked_ms, self._had(store), own=self.own)

    def _had(self, store: Store) -> tuple[Existing, ...]:
        """What the placement had when this was decided, where a taint asks for that."""
        tainted = (taint for one in self.fleet.clusters for taint in one.taints)
        if all(taint.effect != "NoSelectIfNew" for taint in tainted):
            return ()
        key, before = self.placed.key, store.placed_before(self.placed.seq)
        had = next((clusters_of(one) for one in before if one.key == key), ())
        return (Existing(self.placement.namespace, self.placement.name, had),)


def clusters_of(placed: Placed) -> tuple[str, ...]:
    """What was given by a stored decision; nothing by one that says it is gone."""
    if not placed.data:
        return ()
    return msgspec.msgpack.decode(placed.data, type=StoredDecision).choice.clusters


class PlacementPages:
    """Reads placements and their decisions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self) -> models.PlacementRows:
        """All placements."""
        seq = self._store.seq()
        return models.PlacementRows([row(one) for one in self._store.placements()], seq)

    def find(self, key: str) -> Standing:
        """One placement; raises if there is none, and says which may have been meant."""
        found = self._store.placement(key)
        if found is None:
            known = [one.placement.key for one in self._store.placements()]
            raise unknown(key, known)
        return found

    def show(self, key: str) -> models.PlacementShow:
        """Everything about one."""
        seq = self._store.seq()
        one = self.find(key)
        decided = one.decided or NOT_YET
        return models.PlacementShow(
            row=row(one),
            object=to_object(one.placement),
            totals=list(decided.totals),
            standby=list(decided.standby),
            groups=[group(each) for each in decided.groups],
            moves=[move(each) for each in decided.moves],
            refused={
                name: f"{why.rule}, and {why.found}" if why.found else why.rule
                for name, why in decided.refused.items()
            },
            unscheduled=decided.unscheduled,
            left_to_jobs=list(left_to_jobs(one.placement)),
            seq=seq,
        )

    def history(self, key: str, limit: int) -> models.History:
        """The decisions of a placement, also of one that is gone."""
        found = self._store.placement_history(key, limit)
        if not found:
            self.find(key)
        return models.History(key, [_decision_row(one) for one in found])

    def load(self, key: str, decision: str = "") -> Loaded:
        """A decision of a placement: the newest, or a named one."""
        if decision:
            placed = self._store.placed(decision)
            if placed is None or not placed.data or key not in {"", placed.key}:
                of = f" of {key}" if key else ""
                raise StellwerkError.of(
                    "find/decision",
                    f"there is no decision `{decision[:80]}`{of}",
                    "`stw placement history NAME` lists them",
                )
            return Loaded(self._store, placed)
        self.find(key)
        newest = [one for one in self._store.placement_history(key, 1) if one.data]
        if not newest:
            raise StellwerkError.of(
                "find/decision", f"{key} has not been decided yet", "wait a moment"
            )
        return Loaded(self._store, newest[0])

    def explain(self, key: str, body: models.ExplainBody) -> models.PlacementExplained:
        """Why these clusters, as it was decided."""
        loaded = self.load(key, body.decision)
        candidates = explained_clusters(
            loaded.placement, loaded.choice, loaded.columns, loaded.context, body
        )
        return msgspec.structs.replace(
            _answer(loaded.placement, loaded.choice, candidates, self._store.seq()),
            decision=loaded.placed.id,
            at_ms=loaded.placed.at_ms,
            core_version=loaded.decision.inputs.core_version,
        )

    def what_if(
        self,
        key: str,
        body: models.ExplainBody,
        fleet: Fleet,
        now_ms: int,
        own: tuple[Allocation, ...] = (),
    ) -> models.PlacementExplained:
        """What would be chosen now, if …; ``own`` is what the placement's own work holds."""
        from stellwerk.core.inventory.columns import FleetColumns
        from stellwerk.core.place.changes import World, apply_changes
        from stellwerk.core.place.live_changes import check_standing
        from stellwerk.core.place.placing import choose

        standing = self._store.placements()
        one, changes = self.find(key), tuple(body.changes)
        check_standing(changes)
        world = apply_changes(World(fleet, (without_job(one.placement),), now_ms), changes)
        columns = FleetColumns(world.fleet)
        existing = tuple(
            Existing(each.placement.namespace, each.placement.name, each.decided.clusters)
            for each in standing
            if each.decided is not None
        )
        placement = world.placements[0]
        context = PlacingContext(now_ms, existing, own=own)
        choice = choose(placement, columns, context)
        candidates = explained_clusters(placement, choice, columns, context, body)
        answer = _answer(placement, choice, candidates, self._store.seq())
        before = list((one.decided or NOT_YET).clusters)
        return msgspec.structs.replace(
            answer, at_ms=now_ms, before=before, changes=list(body.changes)
        )

    def replay(self, decision: str) -> models.Replayed:
        """Computes a decision again from what was stored of it."""
        from stellwerk.core.place.admitted import Tools, admit
        from stellwerk.core.place.ledger import Ledger
        from stellwerk.core.place.placing import decide, held_rows, stored

        loaded = self.load("", decision)
        inputs, columns, placement = loaded.decision.inputs, loaded.columns, loaded.placement
        ledger = Ledger(columns)
        for one in self._store.placed_before(loaded.placed.seq):
            ledger.set(one.key, clusters_of(one))
        tools = Tools(columns)
        held = held_rows(columns, ledger.of(placement.key))
        found = admit(tools, placement, inputs.looked_ms, {}, loaded.own, held)
        again = stored(decide(tools, placement, found, ledger, {}, inputs.now_ms))
        then = loaded.decision.choice
        differences = [
            f"{field} was {getattr(then, field)!r}, is {getattr(again, field)!r}"
            for field in Choice.__struct_fields__
            if getattr(then, field) != getattr(again, field) and field != "explanation"
        ]
        if then.explanation != again.explanation and not differences:
            differences = ["the scores or verdicts of clusters that weren't chosen"]
        return models.Replayed(
            decision=decision,
            key=placement.key,
            identical=then == again,
            same_version=inputs.core_version == CORE_VERSION,
            core_version=inputs.core_version,
            then=list(then.clusters),
            now=list(again.clusters),
            differences=differences,
        )


def unknown(key: str, known: Sequence[str]) -> StellwerkError:
    """Says that there is no such placement, and which one may have been meant."""
    close = get_close_matches(key, known, 1)
    listed = ", ".join(known[:8]) or "none yet: `stw placement apply -f FILE`"
    return StellwerkError.of(
        "find/placement",
        f"there is no placement `{key[:160]}`",
        f"did you mean `{close[0]}`?" if close else f"there are: {listed}",
    )


def explained_clusters(
    placement: Placement,
    choice: Choice,
    columns: "FleetColumns",
    context: PlacingContext,
    body: models.ExplainBody,
) -> list[Explained]:
    """The candidates that were asked for, in the order of rank."""
    from stellwerk.core.place.explained import explain

    wrong = [name for name in body.clusters if name not in columns.row]
    if wrong:
        close = get_close_matches(wrong[0], columns.row, 1)
        help = f"did you mean `{close[0]}`?" if close else "`stw clusters` lists them"
        raise StellwerkError.of("find/cluster", f"there is no cluster `{wrong[0][:80]}`", help)
    if choice.explanation.shared is None:
        return []
    return list(explain(placement, choice, columns, context, body.clusters))


def _answer(
    placement: Placement, choice: Choice, candidates: list[Explained], seq: int
) -> models.PlacementExplained:
    return models.PlacementExplained(
        key=placement.key,
        decision="",
        at_ms=0,
        core_version=CORE_VERSION,
        clusters=list(choice.clusters),
        standby=list(choice.standby),
        conditions=[condition(one) for one in choice.conditions],
        moves=[move(one) for one in choice.moves],
        troubles=list(choice.troubles),
        margin=choice.explanation.margin,
        tied=choice.explanation.tied,
        candidates=candidates,
        before=[],
        changes=[],
        seq=seq,
    )


def row(one: Standing) -> models.PlacementRow:
    """One line of a list."""
    placement, decided = one.placement, one.decided or NOT_YET
    return models.PlacementRow(
        key=placement.key,
        namespace=placement.namespace,
        name=placement.name,
        clusters=list(decided.clusters),
        wanted=placement.count,
        candidates=decided.candidates,
        conditions=[condition(each) for each in decided.conditions],
        since_ms=one.decided_ms or None,
        applied_ms=one.applied_ms,
        by=one.by,
        kept=decided.kept,
        decision=decided.decision,
    )


def condition(one: Condition) -> models.ConditionView:
    """A condition as it travels."""
    return models.ConditionView(one.type, one.status, one.reason, one.message)


def move(one: Move) -> models.MoveView:
    """A move with its reason in words."""
    return models.MoveView(one.left, one.taken, one.reason.code, render(one.reason).sentence)


def group(one: DecisionGroup) -> models.GroupView:
    """A decision group as it travels."""
    return models.GroupView(one.index, one.name, list(one.clusters))


def _decision_row(one: Placed) -> models.DecisionRow:
    if not one.data:
        return models.DecisionRow("", one.at_ms, [], [], [], "", one.seq, deleted=True)
    stored = msgspec.msgpack.decode(one.data, type=StoredDecision)
    choice = stored.choice
    return models.DecisionRow(
        decision=one.id,
        at_ms=one.at_ms,
        clusters=list(choice.clusters),
        moves=[move(each) for each in choice.moves],
        conditions=[condition(each) for each in choice.conditions],
        core_version=stored.inputs.core_version,
        seq=one.seq,
    )
