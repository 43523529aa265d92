"""Decides in which of a cluster's windows work would run, and by how much it misses one."""

from collections.abc import Iterable

from msgspec import Struct

ROUNDING_S = 1e-6
"""Less than this is a matter of how numbers are kept, not of being late."""


class Fit(Struct, frozen=True):
    """``opens_in_s`` from now until the window can be used; ``late_s`` 0 = it is over in time.

    ``closes_ms`` is None where the cluster may always be used.
    """

    opens_in_s: float
    late_s: float = 0.0
    closes_ms: int | None = None


def fit(windows: Iterable[tuple[int, int]], now_ms: int, span_s: float) -> Fit | None:
    """The first window that holds the span, else the one that is missed by least.

    None = every window is over. No windows at all = always open.
    """
    given = tuple(windows)
    if not given:
        return Fit(0.0)
    nearest: Fit | None = None
    for opens_ms, closes_ms in join(given):
        if closes_ms <= now_ms:
            continue
        opens_in_s = max(0, opens_ms - now_ms) / 1000
        late_s = opens_in_s + span_s - (closes_ms - now_ms) / 1000
        if late_s <= ROUNDING_S:
            return Fit(opens_in_s, 0.0, closes_ms)
        if nearest is None or late_s < nearest.late_s:
            nearest = Fit(opens_in_s, late_s, closes_ms)
    return nearest


def join(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows in order; those that touch or overlap are one, those that close first are none."""
    joined: list[tuple[int, int]] = []
    for opens_ms, closes_ms in sorted(windows):
        if closes_ms <= opens_ms:
            continue
        if joined and opens_ms <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], closes_ms))
        else:
            joined.append((opens_ms, closes_ms))
    return joined
