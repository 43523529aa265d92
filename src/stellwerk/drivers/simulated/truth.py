"""Keeps what really happened on a simulated place, whatever anybody was told about it.

The checks here need no trust in the engine, in the driver or in the reports: they see processes
begin and end. A violation is a sentence; a simulation that ends with one has found a fault.
"""

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId, WorkloadId, workload_of
from stellwerk.core.model.resources import Allocation, NodeAllocation

Key = tuple[RunId, int]


class Truth:
    """Sees every begin and every end of a run, and says what must never have happened."""

    def __init__(self, cluster: Cluster) -> None:
        self.starts: dict[Key, int] = {}
        self.started_at_ms: dict[Key, int] = {}
        self.ended_at_ms: dict[Key, int] = {}
        self.running: dict[Key, Allocation | None] = {}
        self.most_at_once = 0
        self.violations: list[str] = []
        self._nodes = {node.name: node for node in cluster.nodes}

    def began(self, key: Key, allocation: Allocation | None, now_ms: int) -> None:
        """Processes of a run began to exist."""
        run, generation = key
        self.starts[key] = self.starts.get(key, 0) + 1
        if self.starts[key] > 1:
            self._violated(now_ms, f"run {run} generation {generation} was started twice")
        for other, other_generation in self.running:
            if workload_of(other) == workload_of(run):
                self._violated(
                    now_ms,
                    f"run {run} generation {generation} began while run {other} generation "
                    f"{other_generation} of the same workload was running",
                )
        self.started_at_ms[key] = now_ms
        self.running[key] = allocation
        self.most_at_once = max(self.most_at_once, len(self.running))
        self._check_capacity(now_ms)

    def ended(self, key: Key, now_ms: int) -> None:
        """The last process of a run is gone."""
        self.running.pop(key)
        self.ended_at_ms[key] = now_ms

    def runs_of(self, workload: WorkloadId) -> tuple[Key, ...]:
        """All runs of a workload that ever began, in the order of their starts."""
        return tuple(key for key in self.starts if workload_of(key[0]) == workload)

    def _violated(self, now_ms: int, sentence: str) -> None:
        self.violations.append(f"at {now_ms} ms: {sentence}")

    def _check_capacity(self, now_ms: int) -> None:
        shares = [
            share
            for allocation in self.running.values()
            if allocation is not None
            for share in allocation.nodes
        ]
        for name, node in self._nodes.items():
            mine = [share for share in shares if share.node == name]
            limits = [
                ("CPU (milli)", sum(share.cpus_milli for share in mine), node.cpus_milli),
                ("memory (bytes)", sum(share.memory_bytes for share in mine), node.memory_bytes),
            ]
            limits += [
                (f"memory of device {device.index} (bytes)", _held(mine, device.index),
                 device.memory_bytes)
                for device in node.devices
            ]  # fmt: skip
            for what, held, limit in limits:
                if held > limit:
                    self._violated(now_ms, f"node {name} gave {held} of {limit} {what}")


def _held(shares: list[NodeAllocation], index: int) -> int:
    return sum(
        device.memory_bytes for share in shares for device in share.devices if device.index == index
    )
