"""Keeps the own placements of work with wishes decided, in the worker thread.

Loaded when there is a first such work: deciding needs numpy.
"""

from collections.abc import Iterable, Iterator, Mapping

from stellwerk.core.inventory.live import Inventory
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Shape
from stellwerk.core.place.own import OwnAnswer, OwnGround, decide_own, own_policy
from stellwerk.core.standing import OwnMade


class OwnDecider:
    """All shapes with wishes over one inventory. Used by one thread at a time."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._shapes: dict[ShapeId, Shape] = {}
        self._placements: dict[str, Placement] = {}
        self._here: dict[str, None] = {}
        self._ground: OwnGround | None = None
        self._last: dict[ShapeId, tuple[Placement, OwnGround, OwnAnswer]] = {}
        self._said: dict[ShapeId, OwnDecided] = {}

    def apply(
        self,
        shapes: Mapping[ShapeId, Shape],
        known: Mapping[ShapeId, OwnDecided],
        placements: Mapping[str, Placement],
        here: Iterable[str],
    ) -> None:
        """Takes over which shapes are alive, what was decided for them, all placements, and which
        clusters can run work.
        """
        self._shapes = dict(shapes)
        self._said = dict(known)
        kept = self._last if self._here == dict.fromkeys(sorted(here)) else {}
        self._last = {id: one for id, one in kept.items() if id in shapes}
        self._placements = dict(placements)
        self._here = dict.fromkeys(sorted(here))

    def answers(self, now_ms: int) -> Iterator[OwnMade]:
        """What is decided otherwise than it is known to be."""
        if not self._shapes:
            self._ground = None
            return
        ground = self._at_present(now_ms)
        for id, shape in self._shapes.items():
            policy = own_policy(shape, self._placements)
            if policy is None:
                continue
            decided = self._decided(id, shape, policy, ground, now_ms).decided
            known = self._said.get(id)
            if known is None or known.matters != decided.matters:
                self._said[id] = decided
                yield OwnMade(id, decided)

    def once(
        self, shape: Shape, placements: Mapping[str, Placement], here: Iterable[str], now_ms: int
    ) -> OwnDecided | None:
        """What would be decided for work that nobody has submitted; None = its placement isn't."""
        self._placements = dict(placements)
        reached = dict.fromkeys(sorted(here))
        policy = own_policy(shape, self._placements)
        if policy is None:
            return None
        return decide_own(shape, policy, self._at_present(now_ms), now_ms, reached).decided

    def requeue_at_ms(self) -> int:
        """When time alone changes something; 0 = never."""
        return min((one.due_ms for _, _, one in self._last.values() if one.due_ms), default=0)

    def _decided(
        self, id: ShapeId, shape: Shape, policy: Placement, ground: OwnGround, now_ms: int
    ) -> OwnAnswer:
        """What was found last, where it was found in the same fleet and its time hasn't come."""
        last = self._last.get(id)
        if last is not None and last[0] == policy and last[1] is ground:
            answer = last[2]
            if not answer.due_ms or now_ms < answer.due_ms:
                return answer
        answer = decide_own(shape, policy, ground, now_ms, self._here)
        self._last[id] = (policy, ground, answer)
        return answer

    def _at_present(self, now_ms: int) -> OwnGround:
        """The fleet as it is, prepared once for as long as it stays as it is."""
        self._inventory.at(now_ms)
        self._inventory.refresh()
        namespaces = sorted({one.namespace for one in self._placements.values()})
        fleet = self._inventory.fleet(namespaces)
        before = self._ground
        if before is None or not before.is_of(fleet):
            self._ground = before = OwnGround(fleet, before)
        return before
