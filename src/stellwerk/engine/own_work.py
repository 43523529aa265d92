"""Notes what the work of each placement holds: it counts against others, not against itself."""

from collections.abc import Iterable

from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.core.model.resources import Allocation
from stellwerk.core.state import State

Held = dict[str, tuple[Allocation, ...]]
"""What is held by placement; nothing is held any more where it is empty."""


class OwnWork:
    """The runs of the workloads that name a placement, as long as they hold something."""

    def __init__(self) -> None:
        self._held: dict[str, dict[RunId, Allocation]] = {}
        self._of: dict[RunId, str] = {}
        self._changed: dict[str, None] = {}

    def adopt(self, state: State) -> None:
        """Takes over all that is held, as after a start."""
        self._changed = dict.fromkeys(self._held)
        self._held, self._of = {}, {}
        for workload in state.workloads.values():
            for run in workload.runs:
                held = state.allocations.get(run.allocation.cluster, {}).get(run.id)
                if held is not None:
                    self._take(state, workload.id, run.id, held)

    def planned(self, state: State, event: ev.RunPlanned) -> None:
        """A run is given what it holds."""
        self._take(state, event.workload, event.run, event.allocation)

    def ended(self, run: RunId) -> None:
        """A run holds nothing any more."""
        key = self._of.pop(run, "")
        if key:
            del self._held[key][run]
            self._changed[key] = None

    def changes(self) -> Held:
        """What has changed since this was asked last."""
        changed, self._changed = self._changed, {}
        return {key: self._of_placement(key) for key in changed}

    def again(self, keys: Iterable[str]) -> None:
        """Tells these once more."""
        self._changed.update(dict.fromkeys(keys))

    def _take(self, state: State, id: WorkloadId, run: RunId, held: Allocation) -> None:
        workload = state.workloads.get(id)
        key = state.shapes[workload.shape].shape.placement if workload is not None else ""
        if key:
            self._held.setdefault(key, {})[run] = held
            self._of[run] = key
            self._changed[key] = None

    def _of_placement(self, key: str) -> tuple[Allocation, ...]:
        held = self._held.get(key, {})
        if not held:
            self._held.pop(key, None)
        return tuple(held[run] for run in sorted(held))
