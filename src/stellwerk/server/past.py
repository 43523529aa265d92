"""Rebuilds what was known when something was decided, from the journal.

A decision names the record that the journal ended with when it was made. The state after that
record, with the moment of the decision, is what it was made of; so nothing need be stored beside
the journal to look at it again. Limits of people alone stand in a file: they count as they are now.
"""

import time
from typing import NamedTuple

import msgspec

from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.limits import NO_LIMITS, Limits
from stellwerk.core.model.placement import Placement
from stellwerk.core.state import IMAGE_SCHEMA, State, StateImage, fold
from stellwerk.core.view import View, Viewer
from stellwerk.store import Store

AT_A_TIME, PAUSE_S = 500, 0.001
"""After so many records the threads that work have their turn: nobody waits for who only looks."""


class Moment(NamedTuple):
    """What a decision was made of: the view, and the placements as they were applied then."""

    view: View
    placements: dict[str, Placement]


class Past:
    """Goes through the journal once; moments must be asked for in the order of their records."""

    def __init__(self, store: Store, limits: Limits = NO_LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._state: State | None = None

    def of(self, decision: Decision) -> Moment:
        """What a decision was made of; raises where the version that made it didn't note that."""
        inputs = decision.inputs
        if not inputs.seq:
            raise StellwerkError.of(
                "find/inputs",
                f"{decision.id} was made by a version that didn't note what it was made of",
                "newer decisions can be looked at again",
            )
        state = self._after(inputs.seq)
        standing = state.standing.placements.items()
        placements = {key: one.placement for key, one in standing}
        return Moment(Viewer(state, self._limits).take(inputs.now_ms, inputs.seed), placements)

    def _after(self, seq: int) -> State:
        state = self._state = self._state or self._begin(seq)
        for record in self._store.records(state.seq, seq - state.seq):
            fold(state, record)
            if record.seq % AT_A_TIME == 0:
                time.sleep(PAUSE_S)
        state.touched.clear()
        return state

    def _begin(self, seq: int) -> State:
        found = self._store.load_image(IMAGE_SCHEMA)
        if found is None or found[0] > seq:
            return State()
        return State.from_image(msgspec.json.decode(found[1], type=StateImage))
