"""Tells at the end of a cycle why work waits, where that differs in kind from what was told."""

from __future__ import annotations

from collections.abc import Callable, Container

from msgspec import Struct

from stellwerk.core.model.actions import Action, TellWaiting
from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.place.by_flavor import ByFlavor, unbound
from stellwerk.core.place.decide import reasons_of, waiting
from stellwerk.core.place.keeping import Keeping
from stellwerk.core.place.preempting import STOPS_USED_UP
from stellwerk.core.place.quotas import NOT_BOUND, Quotas, Why
from stellwerk.core.place.rooms import Memory
from stellwerk.core.view import ShapeView, View


class Telling(Struct, frozen=True):
    """A cycle as it is at its end. ``promised`` are those who are stopped for a shape's head, and
    ``resting`` says why nobody more is, though somebody could be.
    """

    view: View
    anywhere: ByFlavor
    quotas: Quotas | None
    keeping: Keeping
    promised: dict[ShapeId, tuple[str, ...]]
    room_state: int
    resting: dict[ShapeId, Reason]

    def tell(
        self,
        memory: Memory,
        blocked: Container[ShapeId],
        generation: int,
        inputs_of: Callable[[ShapeId], Inputs],
    ) -> tuple[list[Action], list[Decision]]:
        """Gives what is new of the shapes that are blocked; ``generation`` is that of the rooms."""
        told: list[Action] = []
        decisions: list[Decision] = []
        for shape in self.view.shapes:
            waits = shape.waits
            if shape.id not in blocked:
                continue
            if waits is not None and self._is_told(memory, shape, generation):
                continue
            why = self._why(shape)
            reasons = tuple(self.keeping.told(shape.heads[0], one) for one in why.reasons)
            if waits is None or _kind(waits.reasons) != _kind(reasons):
                rooms, inputs = (
                    unbound(self.anywhere, shape.shape).allowed(shape.shape, shape.id),
                    inputs_of(shape.id),
                )
                decision = waiting(shape.shape, why.found(), rooms, reasons, inputs, why.said())
                decisions.append(decision)
                told.append(TellWaiting(shape.id, decision.id, reasons))
            elif why.state is not None:
                memory.told_bound[shape.id] = why.state
            elif generation >= 0:
                memory.told[shape.id] = generation
        memory.forget_all_but(len(self.view.shapes))
        return told, decisions

    def _is_told(self, memory: Memory, shape: ShapeView, generation: int) -> bool:
        """Whether nothing has changed since it was found that nothing new is to be told."""
        known = shape.waits.reasons if shape.waits is not None else ()
        rests = self.resting.get(shape.id)
        told = tuple(one for one in known if one.code == STOPS_USED_UP)
        if _kind(told) != _kind(() if rests is None else (rests,)):
            return False
        door = self.quotas.door(shape.shape) if self.quotas is not None else None
        if self.quotas is None or door is None:
            return memory.told.get(shape.id) == generation
        stopped = self.promised.get(shape.id, ())
        return self.quotas.is_told(door, shape.id, stopped, self.room_state)

    def _why(self, shape: ShapeView) -> Why:
        """Why a shape waits, as it is at the end of the cycle."""
        door = self.quotas.door(shape.shape) if self.quotas is not None else None
        if self.quotas is not None and door is not None:
            stopped = self.promised.get(shape.id, ())
            why = self.quotas.why(door, shape, stopped, self.room_state)
            rests = self.resting.get(shape.id)
            return why if rests is None else why._replace(reasons=(*why.reasons, rests))
        found = unbound(self.anywhere, shape.shape).candidates(shape.shape, shape.id)
        said = NOT_BOUND if self.quotas is not None else None
        return Why(reasons_of(found), lambda: found, lambda: said)


def _kind(reasons: tuple[Reason, ...]) -> tuple[tuple[str, str, str], ...]:
    """What makes reasons the same to a reader; the numbers may drift without being told again.

    Where many clusters are told as one, it doesn't matter which is the nearest of them.
    """
    kinds = (
        (
            reason.code,
            "" if "others" in reason.params else str(reason.params.get("cluster", "")),
            str(reason.params.get("resource", "") or reason.params.get("rule", "")),
        )
        for reason in reasons
    )
    return tuple(sorted(kinds))
