"""How a waiting workload stands in its queue, and the queue itself, as people read it."""

from collections.abc import Sequence

from stellwerk.cli.render.quota import can_get
from stellwerk.cli.render.table import Column, table
from stellwerk.cli.render.units import clock, plural
from stellwerk.cli.terminal import Terminal
from stellwerk.client.queueing import PairOf, QueueRow, QuotaRow
from stellwerk.client.standing import Contender, Standing


def standing_lines(found: Standing | None, terminal: Terminal, now_ms: int) -> list[str]:
    """Place, what is narrowest, who may be stopped and why not, and what would let it start."""
    if found is None:
        return []
    lines = [_place(found)] if found.queue else []
    lines += [  # of one alone its reason tells the same
        f"  {one.wanted} {one.resource} of {one.flavor} asked, {one.available} to be had: "
        f"{one.level} lets the least through"
        for one in (found.narrow if len(found.narrow) > 1 else ())
    ]
    lines += _rising(found, now_ms)
    if found.contenders:
        narrow = terminal._replace(width=max(0, terminal.width - 2))
        lines += ["", *(f"  {line}" for line in table(_columns(now_ms), found.contenders, narrow))]
    if found.more_contenders:
        lines.append(f"  and {found.more_contenders} more")
    return lines + _ways(found)


def _rising(found: Standing, now_ms: int) -> list[str]:
    one = found.rises
    if one is None:
        return []
    line = f"  rises by {one.per_hour} an hour: {one.gained} so far, {one.most} at most"
    if one.at_ms > now_ms:
        line += f"; new work of priority {one.passes} comes after it from "
        line += f"{clock(one.at_ms, now_ms)} on"
    return [line]


def _place(found: Standing) -> str:
    line = f"  in {found.queue}: #{found.place} of {found.waiting}"
    if found.place > 1:
        wants = ", ".join(f"{amount} {name}" for name, amount in found.ahead_wants.items())
        line += f"; the {found.place - 1} before it want {wants}" if wants else ""
    return line


def _columns(now_ms: int) -> list[Column[Contender]]:
    return [
        Column("name", "HELD BY", lambda one: one.name),
        Column("owner", "OWNER", lambda one: one.owner or "-"),
        Column("queue", "QUEUE", lambda one: one.queue),
        Column("priority", "PRIO", lambda one: str(one.priority), right=True),
        Column("holds", "HOLDS", _holds),
        Column("standing", "FOR IT", lambda one: _standing(one, now_ms)),
        Column("why", "WHY", lambda one: one.why, grows=True),
    ]


def _holds(one: Contender) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in one.holds.items())


def _standing(one: Contender, now_ms: int) -> str:
    if one.until_ms is None:
        return one.standing
    return f"from {clock(one.until_ms, now_ms)} on"


def _ways(found: Standing) -> list[str]:
    """What was tried, and would do; the rest of the line says what follows."""
    lines = []
    for at, one in enumerate(found.ways):
        head = "what would let it start: " if at == 0 else " " * 25
        lines.append(f"{head}stw whatif {one.change}  ({one.then})")
    return lines


def queue_lines(row: QueueRow | None, way: Sequence[QuotaRow]) -> list[str]:
    """A ClusterQueue above its list: what runs, and each flavor with the way to the root."""
    if row is None:
        return []
    coming = row.reserving - row.admitted
    parts = [
        plural(row.pending, "waits", "wait"),
        f"{coming} waiting for those to go who make room" if coming > 0 else "",
        f"{row.admitted} run",
        row.strategy,
    ]
    status = f"; takes nothing in: {row.status} ({row.about})"
    if row.status == "Ready":
        status = f"; {row.about}" if row.about else ""
    lines = [f"ClusterQueue {row.name}: {', '.join(filter(None, parts))}{status}"]
    at = next((i for i, one in enumerate(way) if one.name == row.name), None)
    if at is None:
        return lines
    above = [one for one in way[:at] if one.depth < way[at].depth]
    for pair in way[at].pairs:
        told = f"  {pair.flavor} {pair.resource}: {_used(pair)}"
        for one in reversed(above):
            same = next(
                (p for p in one.pairs if (p.flavor, p.resource) == (pair.flavor, pair.resource)),
                None,
            )
            told += f"  <- {one.name}: {same.used} of {same.quota}" if same is not None else ""
        lines.append(told)
    return lines


def _used(pair: PairOf) -> str:
    told = f"{pair.used} of {pair.quota} used"
    if pair.borrowed not in {"", "0"}:
        told += f", {pair.borrowed} borrowed"
    return f"{told}, {can_get(pair)} more to be had"
