"""A plan over a fleet for people: what changes, where each task goes, every cluster and its why."""

import textwrap
from collections.abc import Callable, Iterable, Sequence

from stellwerk.cli.render.table import Cell, Column, table
from stellwerk.cli.render.units import plural
from stellwerk.cli.terminal import Terminal
from stellwerk.core.data.units import show_data, show_energy, show_span, show_usd
from stellwerk.core.model.estimates import Move
from stellwerk.core.model.fleet_plan import (
    CandidateRecord,
    FleetPlanRecord,
    Given,
    TaskRecord,
)

OBJECTIVES = {
    "finish": "over soonest",
    "start": "starts soonest",
    "cost": "costs the least",
    "weighted": "money and time until the end together",
    "score": "the highest sum of scores",
}
VERDICTS = {"chosen": "good", "standby": "busy", "refused": "bad"}
SPARED = ("energy", "moves", "with", "Steady", "Balance")
"""Columns that a narrow terminal goes without, the first first; what is chosen is told above."""

MOST_REFUSED = 20
"""So many refused clusters are shown to a person who doesn't ask for `wide`."""


def lines_of(
    plan: FleetPlanRecord, terminal: Terminal, *, wide: bool = False, closely: bool = False
) -> list[str]:
    """The whole answer; with a change, what it changes first. ``closely``: what it rests on."""
    lines: list[str] = []
    if plan.asked_if:
        lines += [f"if {' and '.join(plan.asked_if)}:", *_changes(plan, terminal), ""]
    for index, task in enumerate(plan.tasks):
        lines += ([""] if index else []) + _task(task, terminal, wide=wide)
        lines += _closely(task, terminal) if closely else []
    return lines


def _changes(plan: FleetPlanRecord, terminal: Terminal) -> list[str]:
    if not plan.changes:
        return ["  nothing changes"]
    lines = []
    for one in plan.changes:
        sentence = one.sentence if terminal.unicode else one.sentence.replace("→", "->")
        lines += _wrapped(sentence, terminal, "  ", "    ")
    return lines


def _wrapped(text: str, terminal: Terminal, first: str, then: str) -> list[str]:
    """A sentence over as many lines as the terminal needs; one line where nobody reads it there."""
    if not terminal.is_tty:
        return [first + text]
    width = max(40, terminal.width)
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _task(task: TaskRecord, terminal: Terminal, *, wide: bool) -> list[str]:
    lines = _wrapped(f"{task.name}  {', '.join(_wants(task))}", terminal, "", "  ")
    policy = task.placement or "no placement, so every cluster may be chosen"
    lines += _wrapped(f"policy: {policy}; best is what {_best(task)}", terminal, "  ", "    ")
    for problem in task.problems:
        lines += _wrapped(str(problem), terminal, "  ", "    ")
    lines += _outcome(task, terminal)
    if task.candidates:
        lines += ["", *_passed(task, terminal, wide=wide), *_refused(task, terminal, wide=wide)]
    return lines


def _best(task: TaskRecord) -> str:
    told = OBJECTIVES.get(task.objective, task.objective)
    return (
        f"has {told}"
        if task.objective == "score"
        else f"is {told}"
        if (task.objective in {"finish", "weighted"})
        else told
    )


def _size(data_bytes: int) -> str:
    return show_data(data_bytes) if data_bytes >= 0 else "of unknown size"


def _wants(task: TaskRecord) -> list[str]:
    wants = [" or ".join(task.asks)]
    if task.nodes > 1:
        wants[0] = f"{task.nodes} nodes with {wants[0]}"
    if task.kind == "service":
        wants[0] = f"{plural(task.replicas, 'replica')} with {wants[0]}"
    if task.expected_runtime_s is not None:
        wants.append(f"~{show_span(task.expected_runtime_s)}")
    elif task.kind == "job":
        wants.append("of unknown length")
    data = [f"{one.name}@{one.revision} ({_size(one.bytes)})" for one in task.data]
    return [*wants, *([f"reads {' and '.join(data)}"] if data else [])]


def _outcome(task: TaskRecord, terminal: Terminal) -> list[str]:
    """Where it goes, what that takes, what comes next; or that it goes nowhere, and what would."""
    lines = [line for one in task.clusters for line in _given(task, one, terminal)]
    if task.unplaced and task.clusters:
        lines.append(f"  {plural(task.unplaced, 'replica')} found no room")
    if task.missing_clusters and task.clusters:
        found, wanted = len(task.clusters), len(task.clusters) + task.missing_clusters
        lines.append(f"  {wanted} clusters were asked for, {found} found")
    if not task.clusters:
        lines.append(f"  -> {'nowhere' if task.verdict != 'broken' else 'not decided'}")
        for turn in task.turns:
            lines += _wrapped(f"would do: {turn}", terminal, "     ", "       ")
    if len(task.groups) > 1:
        told = [f"{', '.join(one.clusters)} ({one.name or 'the rest'})" for one in task.groups]
        lines += _wrapped(f"in this order: {', then '.join(told)}", terminal, "  ", "    ")
    if task.standby:
        lines += _wrapped(f"standby: {', '.join(task.standby)}", terminal, "  ", "    ")
    if task.course:
        lines += _wrapped(f"course: {task.course}", terminal, "  ", "    ")
    if task.margin:
        lines += _wrapped(f"margin: {task.margin}", terminal, "  ", "    ")
    return lines


def _given(task: TaskRecord, one: Given, terminal: Terminal) -> list[str]:
    nodes = [part.node for part in one.nodes if part.node not in {"", one.cluster}]
    on = f" {','.join(dict.fromkeys(nodes))}" if nodes else ""
    what = one.devices or one.asks
    if task.nodes > 1:
        what += " each"
    if task.kind == "service":
        what = f"{plural(one.replicas, 'replica')} with {what}"
    group = f", group {one.group}" if one.group else ""
    parts = [_starts(one.figures.starts_s)]
    if one.after:
        parts[0] += f", when {one.after} is over"
    if one.figures.opens_s:
        parts[0] += ", when it has opened"
    if one.figures.finishes_s is not None:
        parts.append(f"over in {show_span(one.figures.finishes_s)}")
    parts += _money(one.figures.cost_usd, one.figures.usd_per_hour, service=task.kind == "service")
    if one.figures.energy_kwh is not None:
        parts.append(show_energy(one.figures.energy_kwh))
    head = f"{one.cluster}{on} ({what}{group}): {', '.join(parts)}"
    lines = _wrapped(head, terminal, "  -> ", "     ")
    for move in one.figures.moves:
        told = f"moves {_move(move)} in {show_span(move.seconds)}"
        lines += _wrapped(told, terminal, "     ", "       ")
    return lines


def _money(cost: float | None, per_hour: float | None, *, service: bool) -> list[str]:
    if cost is not None and not service:
        return [show_usd(cost)]
    if per_hour is None:
        return ["price unknown"]
    return [f"{show_usd(per_hour)} an hour{' each' if service else ''}"]


def _move(move: Move) -> str:
    price = f" for {show_usd(move.usd)}" if move.usd else ""
    return f"{show_data(move.bytes)} of {move.data} from {move.source}{price}"


def _starts(seconds: float | None) -> str:
    if seconds is None:
        return "start unknown"
    return f"starts in {show_span(seconds)}" if seconds else "starts now"


def _passed(task: TaskRecord, terminal: Terminal, *, wide: bool) -> list[str]:
    rows = [one for one in task.candidates if one.verdict != "refused"]
    if not rows:
        return []
    columns = _head(task)
    by_score = task.objective == "score"
    columns += _scores(rows, raw=wide) if by_score or wide else []
    columns += _figures(task, wide=wide) if not by_score or wide else []
    if any(map(_note, rows)):
        columns.append(Column("note", "NOTE", _note, grows=True))
    lines = _indented(columns, rows, terminal, cut=not wide)
    for key in SPARED:
        if wide or not terminal.is_tty or max(map(len, lines)) <= terminal.width:
            break
        columns = [column for column in columns if column.key != key]
        lines = _indented(columns, rows, terminal, cut=True)
    return lines


def _closely(task: TaskRecord, terminal: Terminal) -> list[str]:
    """Of those that passed, by how much they are behind and what their numbers rest on."""
    lines = []
    for one in task.candidates:
        if one.verdict != "refused":
            told = [one.behind, *(fact.sentence for fact in one.facts)]
            lines += [f"  {one.cluster}:"]
            for sentence in filter(None, told):
                lines += _wrapped(sentence, terminal, "    ", "      ")
    return lines


def _indented(
    columns: Sequence[Column[CandidateRecord]],
    rows: Sequence[CandidateRecord],
    terminal: Terminal,
    *,
    cut: bool,
) -> list[str]:
    narrow = terminal._replace(width=max(0, terminal.width - 2))
    return [f"  {line}".rstrip() for line in table(columns, rows, narrow, cut=cut)]


def _head(task: TaskRecord) -> list[Column[CandidateRecord]]:
    columns: list[Column[CandidateRecord]] = [
        Column("mark", "", lambda one: "->" if one.verdict == "chosen" else ""),
        Column("cluster", "CLUSTER", lambda one: one.cluster),
        Column("verdict", "VERDICT", lambda one: Cell(one.verdict, VERDICTS.get(one.verdict, ""))),
    ]
    if len({one.devices or one.asks for one in task.candidates if one.verdict != "refused"}) > 1:
        columns.append(Column("with", "WITH", lambda one: one.devices or one.asks))
    return columns


def _scores(rows: Sequence[CandidateRecord], *, raw: bool) -> list[Column[CandidateRecord]]:
    """A column for each score, as it counts in the sum; with ``raw`` what was measured too."""
    titles = {score.title: score.weight for one in rows for score in one.scores}
    columns: list[Column[CandidateRecord]] = [
        Column(title, f"{title} x{weight}", _contribution(title, raw=raw), right=True)
        for title, weight in titles.items()
    ]
    total: Column[CandidateRecord] = Column(
        "total", "=", lambda one: "" if one.total is None else str(one.total), right=True
    )
    return [*columns, total]


def _contribution(title: str, *, raw: bool) -> Callable[[CandidateRecord], str]:
    def cell(one: CandidateRecord) -> str:
        found = next((score for score in one.scores if score.title == title), None)
        if found is None:
            return ""
        if found.value is None:
            return "unknown"
        measured = f" ({found.raw:g} {found.unit})" if raw and found.raw is not None else ""
        return f"{found.contribution}{measured}"

    return cell


def _figures(task: TaskRecord, *, wide: bool) -> list[Column[CandidateRecord]]:
    columns: list[Column[CandidateRecord]] = [
        Column("starts", "STARTS IN", lambda one: _in(one.figures.starts_s)),
    ]
    if task.expected_runtime_s is not None:
        columns += [
            Column("over", "OVER IN", lambda one: _in(one.figures.finishes_s)),
            Column("cost", "COST", lambda one: _usd(one.figures.cost_usd), right=True),
            Column("energy", "ENERGY", lambda one: _kwh(one.figures.energy_kwh), right=True),
        ]
    else:
        columns.append(
            Column("hour", "AN HOUR", lambda one: _usd(one.figures.usd_per_hour), right=True)
        )
    if task.data:
        columns.append(Column("moves", "MOVES", _moves(wide=wide)))
    return columns


def _in(seconds: float | None) -> str:
    return "?" if seconds is None else show_span(seconds) if seconds else "now"


def _usd(amount: float | None) -> str:
    return "?" if amount is None else show_usd(amount)


def _kwh(amount: float | None) -> str:
    return "?" if amount is None else show_energy(amount)


def _moves(*, wide: bool) -> Callable[[CandidateRecord], str]:
    """How much must come; with ``wide`` also from where."""

    def cell(one: CandidateRecord) -> str:
        if wide:
            moved = [f"{show_data(each.bytes)} from {each.source}" for each in one.figures.moves]
            return ", ".join(moved) or "nothing"
        missing = sum(each.bytes for each in one.figures.moves)
        return show_data(missing) if missing else "nothing"

    return cell


def _note(one: CandidateRecord) -> str:
    ages = [
        f"{score.title} {score.note}" for score in one.scores if score.note and score.value is None
    ]
    return "; ".join(filter(None, (one.note, *ages)))


def _refused(task: TaskRecord, terminal: Terminal, *, wide: bool) -> list[str]:
    """Every failed rule of those that are out, and under each the change that turns it.

    Of very many, those that are the nearest to passing; they come first.
    """
    rows = [one for one in task.candidates if one.verdict == "refused"]
    if not rows:
        return []
    left = 0 if wide or not terminal.is_tty else len(rows) - MOST_REFUSED
    rows = rows[:MOST_REFUSED] if left > 0 else rows
    width = max(len(one.cluster) for one in rows)
    lines = ["  refused:"]
    for one in rows:
        for index, refusal in enumerate(one.refusals):
            name = one.cluster if not index else ""
            change = refusal.rule.change.text if refusal.rule.change else "nothing turns it"
            if wide and refusal.change_if:
                change += f"  (--if '{refusal.change_if}')"
            needed = "" if refusal.rule.needed else " (another predicate is nearer)"
            if not terminal.is_tty:
                texts: Iterable[str] = (one.cluster, refusal.sentence + needed, change)
                lines.append("\t".join(texts))
                continue
            pad = " " * (width + 6)
            first = f"    {name:<{width}}  "
            lines += _wrapped(refusal.sentence + needed, terminal, first, pad)
            lines += _wrapped(f"-> {change}", terminal, pad + "  ", pad + "     ")
    if left > 0:
        lines.append(f"    and {left:,} more: --only CLUSTER, or -o wide")
    return lines


def changes_help() -> list[str]:
    """Every change that `--if` takes, with what it means."""
    from stellwerk.core.place.changes import CHANGES

    forms = {one.form.replace("` or `", " | "): one.about for one in CHANGES.values()}
    width = max(map(len, forms))
    return [f"{form:<{width}}  {about}" for form, about in forms.items()]
