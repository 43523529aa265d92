"""What a queue said of each flavor, with the way of its quota from the queue to the root."""

from collections.abc import Iterable, Iterator

from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.model.decisions import FlavorVerdict, QuotaLevel, QuotaSaid


def quota_said(said: QuotaSaid | None) -> list[str]:
    """Lines below the candidates; none where there are no queues."""
    if said is None:
        return []
    if not said.queue:
        return ["quota: no ClusterQueue stands behind its queue, so it counts nowhere"]
    if not said.flavors:
        return []
    return [f"quota of {said.queue}:", *(f"  {line}" for line in _flavors(said.flavors))]


def _flavors(verdicts: Iterable[FlavorVerdict]) -> Iterator[str]:
    for one in verdicts:
        if not one.path:
            yield f"{one.flavor or one.resource}: {one.note or one.outcome}"
            continue
        numbers = f"{write_kubernetes(one.wanted)} {one.resource} asked"
        free = f"{write_kubernetes(one.available)} available"
        yield f"{one.flavor}: {one.outcome}, {numbers}, {free}"
        for level in one.path:
            yield f"  {level.kind} {level.name}: {_level(level)}"


def _level(level: QuotaLevel) -> str:
    told = f"{write_kubernetes(level.used)} of {write_kubernetes(level.quota)} used"
    if level.nominal != level.quota:
        told += f", {write_kubernetes(level.nominal)} of its own"
    if level.borrowing_limit is not None:
        told += f", may borrow {write_kubernetes(level.borrowing_limit)}"
    if level.lending_limit is not None:
        told += f", lends {write_kubernetes(level.lending_limit)}"
    return told
