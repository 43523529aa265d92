"""A world in which much may pass what room is kept for, with limits that nothing keeps."""

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.workload import Policies
from tests.world.queued import QueuedWorld


class PassingWorld(QueuedWorld):
    """As any with queues; some of the work has a short time limit, and runs as long as all else."""

    def __init__(self, seed: int) -> None:
        self.passed = 0
        super().__init__(seed)

    def _policies(self) -> Policies:
        limit_ms = self.dice.choice((0, 1_000))
        return replace(super()._policies(), time_limit_ms=limit_ms, grace_ms=1_000)

    def _fold(self, events: list[ev.Event]) -> None:
        """As any world; counts who passed."""
        super()._fold(events)
        self.passed += sum(
            bool(event.allocation.passed) for event in events if isinstance(event, ev.RunPlanned)
        )
