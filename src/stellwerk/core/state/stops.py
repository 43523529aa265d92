"""When, in the last hour, runs of each cluster were stopped for others."""

from collections.abc import Mapping, Sequence

HOUR_MS = 3_600_000


class Stops:
    """Those of an hour before the newest one of each cluster."""

    def __init__(self, known: Mapping[str, Sequence[int]] | None = None) -> None:
        self._times = {name: list(times) for name, times in (known or {}).items()}

    def note(self, cluster: str, at_ms: int) -> None:
        """One more is stopped."""
        times = [one for one in self._times.get(cluster, ()) if one > at_ms - HOUR_MS]
        self._times[cluster] = [*times, at_ms]

    def image(self) -> dict[str, list[int]]:
        """As it is stored."""
        return {name: list(times) for name, times in self._times.items()}
