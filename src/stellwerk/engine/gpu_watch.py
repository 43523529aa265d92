"""Watches how much of shared GPUs runs hold, by their samples, and reports who takes too much.

A run is told of once, and again where it harms another; it is stopped only if it does so in looks
that are some time apart. Runs over several machines aren't watched: their samples don't say of
which machine a card is.
"""

from __future__ import annotations

from collections.abc import Callable

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report, RuleHeld, RunSample, RunWarned
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.core.model.workload import Run
from stellwerk.core.recover.over_memory import Holder, Over, SharedCard, judged

HARM_FOR_MS = 8_000
OLD_MS = 60_000
"""What was sampled longer ago says nothing of now."""

Place = tuple[str, str]


class _Watched:
    """A run that shares cards of one machine, with what it was last seen to hold."""

    def __init__(self, run: Run, name: str, labels: dict[int, str]) -> None:
        self.run, self.generation, self.name = run.id, run.generation, name
        self.place: Place = (run.allocation.cluster, run.allocation.nodes[0].node)
        self.asked = asked_of_cards(run)
        self.labels = labels
        self.seen: dict[int, GpuUse] = {}
        self.seen_ms = 0
        self.told = ""
        self.harms_since_ms = 0


def asked_of_cards(run: Run) -> dict[int, int]:
    """What a run on one machine asked for of each card, all its shares of a card together."""
    asked: dict[int, int] = {}
    for part in run.allocation.nodes:
        for share in part.devices:
            asked[share.index] = asked.get(share.index, 0) + share.memory_bytes
    return asked


class GpuWatch:
    """The runs that hold part of a card, by machine."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._at: dict[Place, dict[RunId, _Watched]] = {}
        self._watched: dict[RunId, _Watched] = {}

    def begin(self, run: Run, name: str, cluster: Cluster | None) -> None:
        """Watches a run, if it is on one machine and shares some of its cards."""
        parts = run.allocation.nodes
        if run.id in self._watched or cluster is None or len({part.node for part in parts}) != 1:
            return
        cards = {
            device.index: device
            for node in cluster.nodes
            if node.name == parts[0].node
            for device in node.devices
        }
        if not any(
            index in cards and asked < cards[index].usable_bytes
            for index, asked in asked_of_cards(run).items()
        ):
            return
        labels = {index: device.label for index, device in cards.items()}
        watched = self._watched[run.id] = _Watched(run, name, labels)
        self._at.setdefault(watched.place, {})[run.id] = watched

    def end(self, run: RunId) -> None:
        """Watches a run no more."""
        watched = self._watched.pop(run, None)
        if watched is not None:
            beside = self._at[watched.place]
            del beside[run]
            if not beside:
                del self._at[watched.place]

    def take(self, sample: RunSample) -> None:
        """Takes what a run was sampled to hold, and judges its machine anew."""
        watched = self._watched.get(sample.run)
        if watched is None or watched.place[0] != sample.cluster or not sample.gpus:
            return
        watched.seen = {gpu.index: gpu for gpu in sample.gpus}
        watched.seen_ms = sample.at_ms
        found = {one.run: one for one in judged(self._cards(watched.place, sample))}
        for one in self._at[watched.place].values():
            self._tell(one, found.get(one.run), sample.at_ms)

    def _cards(self, place: Place, sample: RunSample) -> list[SharedCard]:
        free = {gpu.index: gpu.free_bytes for gpu in sample.gpus}
        beside = self._at[place].values()
        indices = sorted({index for one in beside for index in one.asked})
        return [
            SharedCard(
                label=next(one.labels.get(index, str(index)) for one in beside),
                free_bytes=free.get(index),
                holders=tuple(
                    Holder(one.run, one.name, one.asked[index], _held(one, index, sample.at_ms))
                    for one in beside
                    if index in one.asked
                ),
            )
            for index in indices
        ]

    def _tell(self, watched: _Watched, found: Over | None, at_ms: int) -> None:
        if found is None or not found.harms:
            watched.harms_since_ms = 0
        if found is None:
            return
        if found.harms and not watched.harms_since_ms:
            watched.harms_since_ms = at_ms
        if found.harms and at_ms - watched.harms_since_ms >= HARM_FOR_MS:
            if watched.told != "stop":
                watched.told = "stop"
                cluster = watched.place[0]
                told = RuleHeld(cluster, watched.run, watched.generation, found.reason)
                self._report(told)
        elif not watched.told and not found.harms:
            watched.told = "warned"
            cluster = watched.place[0]
            self._report(RunWarned(cluster, watched.run, watched.generation, found.reason))


def _held(watched: _Watched, index: int, at_ms: int) -> int | None:
    use = watched.seen.get(index)
    return None if use is None or at_ms - watched.seen_ms > OLD_MS else use.memory_bytes
