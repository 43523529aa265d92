"""Whose runs hold quota, and who was promised a place: both follow from the workloads."""

from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.workload import Workload


class QuotaIndex:
    """The workloads whose live run holds quota, and those that wait with a claim.

    No two states of these workloads share a ``version``.
    """

    def __init__(self) -> None:
        self.holders: dict[WorkloadId, None] = {}
        self.claims: dict[WorkloadId, None] = {}
        self.version = 0

    def keep_up(self, workload: Workload) -> None:
        """Notes what a workload has become."""
        run = workload.live_run
        self._note(self.holders, workload.id, run is not None and run.holding is not None)
        self._note(self.claims, workload.id, workload.claim is not None)

    def leave(self, id: WorkloadId) -> None:
        """Forgets one that is over."""
        self._note(self.holders, id, False)
        self._note(self.claims, id, False)

    def _note(self, among: dict[WorkloadId, None], id: WorkloadId, is_one: bool) -> None:
        if is_one:
            among[id] = None
            self.version += 1
        elif id in among:
            del among[id]
            self.version += 1
