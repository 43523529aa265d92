"""Who had which share over time, what was borrowed and lent, as people read it."""

from collections.abc import Sequence
from typing import NamedTuple

from stellwerk.cli.render.table import Column, table
from stellwerk.cli.render.units import duration
from stellwerk.cli.terminal import Terminal
from stellwerk.client.queueing import Fair, FairPair, FairPerson, FairRow, PastUse


class Line(NamedTuple):
    """One flavor's resource of one node."""

    one: FairRow
    pair: FairPair


def lines_of(found: Fair, terminal: Terminal) -> list[str]:
    """Queues, people, past use; what isn't there is left out."""
    lines = [Line(one, pair) for one in found.queues for pair in one.pairs]
    told = table(_queues(), lines, terminal, cut=False) if lines else []
    if lines:
        told.append("(part: of what was held in the tree; fair: of the tree's quota; share: now)")
    if found.people:
        told += [*([""] if told else []), *table(_people(), found.people, terminal, cut=False)]
    if found.past_use:
        half = duration(found.half_life_ms)
        told += ["", f"past use of LocalQueues, half of it gone after {half}:"]
        told += table(_past(), found.past_use, terminal, cut=False)
    return told or ["nobody held anything"]


def _queues() -> list[Column[Line]]:
    return [
        Column("name", "COHORT / QUEUE", _name),
        Column("flavor", "FLAVOR", lambda line: line.pair.flavor),
        Column("resource", "RESOURCE", lambda line: line.pair.resource),
        Column("used", "NOW", lambda line: f"{line.pair.used}/{line.pair.nominal or '-'}"),
        Column("held", "HELD H", lambda line: hours(line.pair.held_h), right=True),
        Column("part", "PART", lambda line: percent(line.pair.part), right=True),
        Column("fair", "FAIR", lambda line: percent(line.pair.own_part), right=True),
        Column("borrowed", "BORROWED H", lambda line: hours(line.pair.borrowed_h), right=True),
        Column("lent", "LENT H", lambda line: hours(line.pair.lent_h), right=True),
        Column("share", "SHARE", lambda line: f"{line.one.share:.0f}", right=True),
        Column("weight", "WEIGHT", lambda line: f"{line.one.weight:g}", right=True),
    ]


def _name(line: Line) -> str:
    slash = "/" if line.one.kind == "cohort" else ""
    return f"{'  ' * line.one.depth}{line.one.name}{slash}"


def _people() -> list[Column[FairPerson]]:
    return [
        Column("who", "PERSON", lambda one: one.who),
        Column("gpu", "GPU H", lambda one: hours(one.gpu_h), right=True),
        Column("gpu_part", "PART", lambda one: percent(one.gpu_part), right=True),
        Column("cpu", "CPU H", lambda one: hours(one.cpu_h), right=True),
        Column("cpu_part", "PART", lambda one: percent(one.cpu_part), right=True),
        Column("live", "LIVE", lambda one: str(one.live), right=True),
    ]


def _past() -> Sequence[Column[PastUse]]:
    return [
        Column("queue", "LOCALQUEUE", lambda one: one.local_queue),
        Column("cluster_queue", "QUEUE", lambda one: one.queue),
        Column("used", "USED", _used),
        Column("weight", "WEIGHT", lambda one: f"{one.weight:g}", right=True),
        Column(
            "weighed", "COUNTS", lambda one: "last" if one.weighed is None else f"{one.weighed:.3g}"
        ),
    ]


def _used(one: PastUse) -> str:
    return ", ".join(f"{amount:.3g} {name}" for name, amount in one.used.items()) or "-"


def hours(value: float) -> str:
    """`0`, `0.02`, `3.5`, `1,204`."""
    digits = 0 if value >= 100 or value == 0 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f}"


def percent(part: float | None) -> str:
    """`25 %`, or nothing of nothing."""
    return "-" if part is None else f"{100 * part:.0f} %"
