"""Reads from the settings how many runs may share a GPU, and marks clusters with it.

`gpu_jobs = "4; k017: 1; big: 0"`: four on a card, alone on each of k017, on those of big as many as
their memory holds.
"""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.config import Settings
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.place.node import JOBS_LABEL

_WAY = 'write it like gpu_jobs = "4; k017: 1"; 0 is as many as the memory holds, 1 nobody shares'


class GpuSharing:
    """How many runs may hold memory of one card at a time, by cluster; 0 = any number."""

    def __init__(self, everywhere: int = 0, on: dict[str, int] | None = None) -> None:
        self.everywhere = everywhere
        self.on = on or {}

    @classmethod
    def of(cls, settings: Settings) -> GpuSharing:
        """As the settings say; raises StellwerkError that names every mistake."""
        everywhere, on, problems = 0, dict[str, int](), list[Problem]()
        for part in filter(None, map(str.strip, settings.text("gpu_jobs").split(";"))):
            name, colon, number = part.rpartition(":")
            number, name = number.strip(), name.strip()
            if not number.isdecimal() or len(number) > 4 or bool(colon) != bool(name):
                message = f"`gpu_jobs` says `{part[:60]}`"
                problems.append(Problem("config/value", message, _WAY))
            elif name:
                on[name] = int(number)
            else:
                everywhere = int(number)
        if problems:
            raise StellwerkError(problems)
        return cls(everywhere, on)

    def marked(self, cluster: Cluster) -> Cluster:
        """A cluster with the label that placement looks at; one that has it keeps its own."""
        most = self.on.get(cluster.name, self.everywhere)
        if not most or JOBS_LABEL in cluster.labels:
            return cluster
        return replace(cluster, labels={**cluster.labels, JOBS_LABEL: str(most)})
