"""Placements as people read them: a list, one of them, and why its clusters were chosen."""

from collections.abc import Sequence

from stellwerk.cli.render.table import Column, table
from stellwerk.cli.render.units import age, clock, duration, plural
from stellwerk.cli.terminal import Terminal
from stellwerk.client.placements import (
    Applied,
    AppliedPlacement,
    CandidateOf,
    Condition,
    DecisionRow,
    Difference,
    MoveOf,
    PlacementExplained,
    PlacementRow,
    PlacementShow,
    Replayed,
    ScoreLine,
)
from stellwerk.core.model.quantity import show_duration
from stellwerk.core.rollout.waves import Wave

SHOWN = 8
CANDIDATES = 30
GOOD = {("PlacementSatisfied", "True"), ("PlacementMisconfigured", "False")}


def columns(now_ms: int) -> list[Column[PlacementRow]]:
    """What `placement ls` shows."""
    return [
        Column("key", "PLACEMENT", lambda one: one.key),
        Column("clusters", "CHOSEN", lambda one: names(one.clusters), grows=True),
        Column("wanted", "OF", of_how_many, lambda one: one.candidates, right=True),
        Column("conditions", "CONDITION", lambda one: in_short(one.conditions)),
        Column(
            "since", "SINCE", lambda one: age(one.since_ms, now_ms), lambda one: one.since_ms or 0
        ),
        Column("by", "BY", lambda one: one.by, wide=True),
        Column("decision", "DECISION", lambda one: one.decision, wide=True),
    ]


def names(clusters: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    if not clusters:
        return "-"
    more = f" and {len(clusters) - SHOWN} more" if len(clusters) > SHOWN else ""
    return ", ".join(clusters[:SHOWN]) + more


def of_how_many(one: PlacementRow) -> str:
    """`2 of 5`: as many as are wanted, of as many as pass."""
    if one.wanted is None and not one.candidates:
        return "none"
    wanted = "all" if one.wanted is None else str(one.wanted)
    return f"{wanted} of {one.candidates}"


def _wanted(one: PlacementRow) -> str:
    if one.wanted is None and not one.candidates:
        return "all that pass, and none does"
    return f"{of_how_many(one)} that pass"


def in_short(conditions: Sequence[Condition]) -> str:
    """The first condition that isn't as it should be, or `Satisfied`."""
    for one in conditions:
        if (one.type, one.status) not in GOOD:
            return one.reason
    return conditions[0].reason if conditions else "not decided yet"


def show_lines(show: PlacementShow, terminal: Terminal, now_ms: int) -> list[str]:
    """One placement."""
    one = show.row
    lines = [f"{terminal.style(one.key, 'strong')}  {in_short(one.conditions)}"]
    totals = dict(zip(one.clusters, show.totals, strict=False))
    chosen = [f"{name} ({totals[name]})" if name in totals else name for name in one.clusters]
    facts = [
        ("chosen", names(chosen)),
        ("wanted", _wanted(one)),
        ("standby", ", ".join(show.standby)),
        ("missing", str(show.unscheduled) if show.unscheduled > 0 else ""),
        ("applied", f"{clock(one.applied_ms, now_ms)} by {one.by}"),
        ("since", f"{age(one.since_ms, now_ms)}" if one.since_ms else ""),
        ("decision", one.decision),
        ("of jobs", " and ".join(show.left_to_jobs)),
        ("kept", "the spec is broken: these are of the last good decision" if one.kept else ""),
    ]
    lines += [f"  {label:<11}{text}" for label, text in facts if text]
    lines += ["", *(f"  {line}" for line in condition_lines(one.conditions))]
    if len(show.groups) > 1:
        lines += ["", "  groups"]
        lines += [f"    {g.index} {g.name or '-':<12}{names(g.clusters)}" for g in show.groups]
    if show.moves:
        lines += ["", "  last change", *(f"    {move_line(one)}" for one in show.moves)]
    if show.refused:
        lines += ["", "  not chosen here"]
        lines += [f"    {name}: {why}" for name, why in sorted(show.refused.items())]
    return lines


def wave_lines(waves: Sequence[Wave]) -> list[str]:
    """Who gets a change together, and not before when."""
    if not waves:
        return ["no cluster is chosen"]
    when = [f"after {show_duration(one.after_ms)}" if one.after_ms else "" for one in waves]
    return [
        f"  wave {number:<4}{names(one.clusters)}  {later}".rstrip()
        for number, (one, later) in enumerate(zip(waves, when, strict=True), 1)
    ]


def condition_lines(conditions: Sequence[Condition]) -> list[str]:
    """Each condition as the reference writes it."""
    return [
        f"{one.type}={one.status} ({one.reason})" + (f"  {one.message}" if one.message else "")
        for one in conditions
    ]


def move_line(one: MoveOf) -> str:
    """`+ spoke-eu1 for atlas: …`."""
    if one.taken and one.left:
        return f"{one.left} -> {one.taken}: {one.why}"
    return f"{'+' if one.taken else '-'} {one.taken or one.left}: {one.why}"


def explain_lines(one: PlacementExplained, terminal: Terminal, now_ms: int) -> list[str]:
    """Why these clusters and not others."""
    lines = [f"{terminal.style(one.key, 'strong')}  {in_short(one.conditions)}"]
    if one.changes:
        lines += [f"  if {change}" for change in one.changes]
        same = one.clusters == one.before
        then = f"as now: {names(one.clusters)}" if same else names(one.clusters)
        lines.append(f"  it would choose {then}")
        if not same:
            lines.append(f"  instead of      {names(one.before)}")
    else:
        lines.append(f"  chosen {names(one.clusters)}")
        lines.append(f"  decided {age(one.at_ms, now_ms)} ago as {one.decision}")
    if one.standby:
        lines.append(f"  standby {names(one.standby)}")
    if one.margin is not None:
        tie = f"; {one.tied} have the same total, the name decides" if one.tied > 1 else ""
        lines.append(f"  the last one chosen is {one.margin} better than the next{tie}")
    lines += [f"  {line}" for line in condition_lines(one.conditions)]
    for trouble in one.troubles:
        where = f"{trouble.path}: " if trouble.path else ""
        lines.append(f"  {where}{trouble.message}")
        lines += [f"    -> {trouble.help}"] if trouble.help else []
    lines += [f"  {move_line(each)}" for each in one.moves]
    for candidate in one.candidates[:CANDIDATES]:
        lines += ["", *_candidate(candidate)]
    if len(one.candidates) > CANDIDATES:
        more = len(one.candidates) - CANDIDATES
        lines += ["", f"  and {plural(more, 'cluster')} more: --cluster NAME, or -o json"]
    return lines


def _candidate(one: CandidateOf) -> list[str]:
    head = f"  {one.cluster}  {one.verdict}"
    if one.total is not None:
        head += f", place {one.rank}, total {one.total}"
    if one.margin is not None:
        head += f" ({one.margin:+})"
    lines = [head + (f": {one.note}" if one.note else "")]
    lines += [f"    {score_line(score)}" for score in one.scores]
    for rule in one.failed:
        aside = "" if rule.needed else "  (another predicate is nearer)"
        lines.append(f"    fails {rule.filter}: {rule.rule}, and {rule.found}{aside}")
        if rule.change is not None:
            lines.append(f"      -> {rule.change.text}")
    return lines


def score_line(one: ScoreLine) -> str:
    """`Cost: 80 of 2.5 usd x 3 = 240, 4 min old`."""
    value = "unknown" if one.value is None else str(one.value)
    raw = "" if one.raw is None else f" of {one.raw:g}{f' {one.unit}' if one.unit else ''}"
    old = "" if one.age_ms is None else f", {duration(one.age_ms)} old"
    note = f"  ({one.note})" if one.note else ""
    return f"{one.title}: {value}{raw} x {one.weight} = {one.contribution}{old}{note}"


def applied_lines(one: Applied) -> list[str]:
    """What a fleet file changed, or would change."""
    would = "would be " if one.dry_run else ""
    lines = []
    for label, clusters in (
        ("new", one.added),
        ("changed", one.changed),
        ("not declared any more", one.removed),
    ):
        if clusters:
            lines.append(f"{plural(len(clusters), 'cluster')} {would}{label}: {names(clusters)}")
    lines += [_applied_line(each, one.dry_run) for each in one.placements]
    for each in one.moved:
        lines.append(f"{each.key} {_other(each, one.dry_run)}")
    verb = "changes" if one.dry_run else "has changed"
    return lines or [f"no cluster and no placement {verb}"]


def _applied_line(one: AppliedPlacement, dry_run: bool) -> str:
    word = {"new": "new", "changed": "changed", "same": "as it was"}[one.change]
    condition = f"  {in_short(one.conditions)}" if one.conditions else ""
    if one.before == one.clusters:
        return f"{one.key} {word}: {names(one.clusters)}{condition}"
    said = word if one.change != "same" else "says the same"
    return f"{one.key} {said}: {_other(one, dry_run)}{condition}"


def _other(one: AppliedPlacement, dry_run: bool) -> str:
    verb = "would choose" if dry_run else "chooses"
    chosen = names(one.clusters) if one.clusters else "nothing"
    if not one.before:
        return f"{verb} {chosen}"
    return f"{verb} {chosen} instead of {names(one.before)}"


def history_columns(now_ms: int) -> list[Column[DecisionRow]]:
    """What `placement history` shows."""
    return [
        Column("decision", "DECISION", lambda one: one.decision or "-"),
        Column("at", "WHEN", lambda one: clock(one.at_ms, now_ms), lambda one: one.at_ms),
        Column("clusters", "CHOSEN", lambda one: "deleted" if one.deleted else names(one.clusters)),
        Column("moves", "WHY", _why, grows=True),
        Column("seq", "SEQ", lambda one: str(one.seq), lambda one: one.seq, right=True, wide=True),
    ]


def _why(one: DecisionRow) -> str:
    if one.moves or one.clusters or not one.conditions:
        return "; ".join(move_line(each) for each in one.moves)
    return one.conditions[0].message


def difference_lines(one: Difference) -> list[str]:
    """Why a decision changed."""
    lines = [f"{one.key}: {one.first} -> {one.second}"]
    lines += [f"  + {name}" for name in one.taken] + [f"  - {name}" for name in one.left]
    if not (one.taken or one.left):
        lines.append("  the same clusters")
    return [*lines, *differing_lines(one)]


def differing_lines(one: Difference) -> list[str]:
    """What of the inputs differs, and what turned for each cluster."""
    lines = ["  what it was made of differs in", *(f"    {text}" for text in one.inputs)]
    for each in one.clusters:
        lines += ["", f"  {each.cluster}"]
        lines += [f"    {text}" for text in (*each.verdict, *each.facts, *each.scores)]
    if one.more:
        lines += ["", f"  and {plural(one.more, 'cluster')} more"]
    return lines


def replay_lines(one: Replayed) -> list[str]:
    """Whether a decision comes out again."""
    if one.identical:
        return [f"{one.decision} of {one.key}: computed again, it is identical"]
    if not one.same_version:
        head = f"{one.decision} of {one.key} was made by version {one.core_version}"
        return [head, f"  this version would decide {names(one.now)} now"]
    head = f"{one.decision} of {one.key} does not come out again"
    return [head, *(f"  {text}" for text in one.differences)]


def explained_table(rows: Sequence[PlacementRow], terminal: Terminal, now_ms: int) -> list[str]:
    """The list as lines."""
    return table(columns(now_ms), rows, terminal)
