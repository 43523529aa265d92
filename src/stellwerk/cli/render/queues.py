"""What queues would do: who starts, who goes, why the others wait, and how full each queue is."""

from collections.abc import Iterator

from stellwerk.cli.render.reasons import in_short
from stellwerk.cli.render.table import Cell, Column, table
from stellwerk.cli.render.units import plural
from stellwerk.cli.terminal import Terminal
from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.model.queueing import PodSetAssignment
from stellwerk.core.queue.explain import FlavorSaid, Level, UsageView, WaitingView
from stellwerk.core.queue.planned import AdmittedView, PreemptedView, QueuesPlanned

BAR = 20
MOST_WAITING = 40
TOO_LITTLE = ("short", "exceeds", "topology")
OUTCOMES = {
    "fits": "fits",
    "borrows": "fits by borrowing",
    "short": "too little",
    "exceeds": "never",
}


def lines_of(planned: QueuesPlanned, terminal: Terminal, *, wide: bool) -> list[str]:
    """The whole answer; ``wide`` shows every waiting workload and every flavor that was tried."""
    narrow = terminal._replace(width=max(0, terminal.width - 2))
    lines: list[str] = []
    for title, rows in (
        (f"admitted: {len(planned.admitted):,}", _admitted(planned.admitted, narrow)),
        (f"preempted: {len(planned.preempted):,}", _preempted(planned.preempted, narrow)),
        (f"waiting: {len(planned.waiting):,}", list(_waiting(planned.waiting, wide=wide))),
        ("quota", _quota(planned.usage, narrow)),
    ):
        if rows or not title.startswith(("preempted", "quota")):
            lines.append(terminal.style(title, "strong"))
            lines += [f"  {row}" for row in rows]
    count = plural(planned.cycles, "cycle")
    lines.append(f"after {count}" + (", nothing changes any more" if planned.settled else ""))
    return lines


def _full(name: str, namespace: str) -> str:
    return f"{namespace}/{name}"


def _admitted(rows: tuple[AdmittedView, ...], terminal: Terminal) -> list[str]:
    columns: list[Column[AdmittedView]] = [
        Column("cycle", "CYCLE", lambda one: str(one.cycle), right=True),
        Column("name", "WORKLOAD", lambda one: _full(one.name, one.namespace)),
        Column("queue", "QUEUE", lambda one: one.queue),
        Column("flavors", "FLAVORS", lambda one: "; ".join(map(_given, one.pod_sets))),
        Column("note", "NOTE", _note, grows=True),
    ]
    return table(columns, rows, terminal) if rows else []


def _given(one: PodSetAssignment) -> str:
    """`main 4x h100 (cpu, memory)`, with the domains of its pods."""
    by_flavor: dict[str, list[str]] = {}
    for resource, flavor in one.flavors.items():
        by_flavor.setdefault(flavor, []).append(resource)
    parts = [f"{flavor} ({', '.join(names)})" for flavor, names in by_flavor.items()]
    told = f"{one.name} {one.count}x {' '.join(parts) or '-'}"
    if one.domains:
        told += " on " + " ".join(f"{name}:{count}" for name, count in one.domains.items())
    return told


def _note(one: AdmittedView) -> str:
    notes = [f"borrows {plural(one.borrows, 'level')} up"] if one.borrows else []
    if one.checks:
        notes.append(f"starts after {', '.join(one.checks)}")
    return ", ".join(notes)


def _preempted(rows: tuple[PreemptedView, ...], terminal: Terminal) -> list[str]:
    columns: list[Column[PreemptedView]] = [
        Column("cycle", "CYCLE", lambda one: str(one.cycle), right=True),
        Column("name", "WORKLOAD", lambda one: _full(one.name, one.namespace)),
        Column("queue", "QUEUE", lambda one: one.queue),
        Column("reason", "REASON", lambda one: one.reason),
        Column("by", "FOR", lambda one: one.by or "-"),
    ]
    return table(columns, rows, terminal) if rows else []


def _waiting(rows: tuple[WaitingView, ...], *, wide: bool) -> Iterator[str]:
    """Those that only wait for their turn are counted, if not asked for."""
    told = [one for one in rows if wide or one.reason.code != "queue_behind"]
    shown = told if wide else told[:MOST_WAITING]
    for one in shown:
        place = f"{one.position + 1}." if one.position >= 0 else "-"
        name = _full(one.name, one.namespace)
        yield f"{place} {name} in {one.queue or '-'}: {in_short(one.reason)}  [{one.reference}]"
        who = "" if one.reason.who == "you" else f"{one.reason.who}: "
        yield f"   -> {who}{one.reason.remedy}"
        yield from _flavors(one.flavors, wide=wide)
    if len(told) > len(shown):
        yield f"and {len(told) - len(shown):,} more: -o wide"
    behind = len(rows) - len(told)
    if behind:
        yield f"{plural(behind, 'workload')} behind others in their queue: -o wide lists them"


def _flavors(said: tuple[FlavorSaid, ...], *, wide: bool) -> Iterator[str]:
    """What each flavor said, with the quota on every level from the queue up."""
    for one in said if wide else [one for one in said if one.outcome in TOO_LITTLE][:3]:
        if not one.path:
            yield f"   {one.pod_set}: {one.note}"
            continue
        outcome = OUTCOMES.get(one.outcome, one.outcome)
        yield (
            f"   {one.pod_set}: {one.resource} of {one.flavor}: {one.wanted} asked, "
            f"{one.available} available: {outcome}"
        )
        yield f"     {' < '.join(map(_level, one.path))}"


def _level(one: Level) -> str:
    limits = [f"may borrow {one.borrowing_limit}"] if one.borrowing_limit else []
    limits += [f"lends {one.lending_limit}"] if one.lending_limit else []
    told = f", {', '.join(limits)}" if limits else ""
    kind = "cohort " if one.kind == "cohort" else ""
    return f"{kind}{one.name} {one.used} of {one.quota}{told}"


def _quota(rows: tuple[UsageView, ...], terminal: Terminal) -> list[str]:
    columns: list[Column[UsageView]] = [
        Column("name", "QUEUE", lambda one: "  " * one.depth + one.name),
        Column("kind", "KIND", lambda one: one.kind),
        Column("flavor", "FLAVOR", lambda one: one.flavor),
        Column("resource", "RESOURCE", lambda one: one.resource),
        Column("used", "USED", lambda one: bar(one, terminal)),
        Column("borrowed", "BORROWED", _borrowed, grows=True),
    ]
    return table(columns, rows, terminal) if rows else []


def _borrowed(one: UsageView) -> Cell | str:
    if not one.borrowed:
        return ""
    limit = one.borrowing_limit
    most = f" of {write_kubernetes(limit)}" if limit is not None else ""
    return Cell(f"{write_kubernetes(one.borrowed)}{most}", "warn")


def bar(one: UsageView, terminal: Terminal) -> str:
    """`[########xx..........] 10/8`: in use (#), borrowed (x), free (.)."""
    numbers = f"{write_kubernetes(one.used)}/{write_kubernetes(one.quota)}"
    if not terminal.is_tty:
        return numbers
    full, over, empty = ("█", "▒", "·") if terminal.unicode else ("#", "x", ".")
    whole = max(one.quota, one.used, 1)
    own = round(BAR * (one.used - one.borrowed) / whole)
    borrowed = min(BAR - own, round(BAR * one.borrowed / whole))
    return f"[{full * own}{over * borrowed}{empty * (BAR - own - borrowed)}] {numbers}"
