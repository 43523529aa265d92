"""What one cycle gathers before it becomes durable together, and the engine in numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from stellwerk.core.model import events as ev
from stellwerk.core.model.decisions import Decision
from stellwerk.core.standing import OwnMade, on_answers, on_own_answers
from stellwerk.core.state import State

if TYPE_CHECKING:
    from stellwerk.engine.deciding import Made


class Status(Struct, frozen=True):
    """The engine in numbers; ``facts_ms`` is when each cluster was last looked at."""

    epoch: int
    seq: int
    live: int
    pending: int
    running: int
    facts_ms: dict[str, int]


class Happened:
    """The facts of a cycle, and what is stored beside them."""

    def __init__(self) -> None:
        self.records: list[ev.Record] = []
        self.decisions: list[tuple[Decision, int]] = []
        self.inbox_upto: int | None = None
        self.again: list[ev.RunPlanned | ev.NoticeGiven | ev.WindowMoved] = []
        self.made: dict[str, Made] = {}
        self.answers = 0

    def answered(self, state: State, made: "Sequence[Made | OwnMade]") -> list[ev.Event]:
        """Takes answers for placements, standing and own; gives what follows from them."""
        own = [one for one in made if isinstance(one, OwnMade)]
        standing = [one for one in made if not isinstance(one, OwnMade)]
        self.answers = len(made)
        self.made = {one.answer.decided.decision: one for one in standing}
        answers = on_answers(state, (one.answer for one in standing))
        return [*answers, *on_own_answers(state, own)]
