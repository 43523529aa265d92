"""Why here, why not there: the candidates of a decision as a matrix, and what would change it."""

from collections.abc import Callable, Sequence

from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.quota_said import quota_said
from stellwerk.cli.render.reasons import in_a_row, in_full
from stellwerk.cli.render.standing import standing_lines
from stellwerk.cli.render.table import Column, table
from stellwerk.cli.render.units import age, clock
from stellwerk.cli.terminal import Terminal
from stellwerk.client.wire import CandidateView, DecisionView, Explained, Holder, Position
from stellwerk.core.data.units import show_span, show_usd

WAITING = {"Pending", "Held"}
ENDED = {"Succeeded", "Failed", "Cancelled"}


def lines_of(explained: Explained, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole answer."""
    lines = [_headline(explained, now_ms)]
    if explained.wishes:
        lines.append(f"  its task wishes: {', '.join(explained.wishes)}")
    if explained.gpu_advice:
        lines.append(f"  it {explained.gpu_advice}")
    if explained.nearness:
        lines.append(f"  it is {explained.nearness}")
    lines += in_full(explained.reasons, name=explained.name)
    lines += standing_lines(explained.standing, terminal, now_ms)
    lines += _holders(explained, terminal, now_ms)
    lines += _passing(explained, now_ms)
    if decision := explained.current or explained.decision:
        narrow = terminal._replace(width=max(0, terminal.width - 2))
        matrix = table(candidate_columns(decision.candidates), decision.candidates, narrow)
        lines += ["", *(f"  {line}" for line in matrix)] if decision.candidates else []
        lines += [f"  {line}" for line in meanings(decision.candidates)]
        lines += _runner_up(decision)
        lines += quota_said(decision.quota)
        for i, change in enumerate(decision.change):
            lines.append(
                ("what would change it: " if i == 0 else "                      ") + change
            )
    return lines


def _holders(explained: Explained, terminal: Terminal, now_ms: int) -> list[str]:
    """Who holds what it waits for, and when that is free again."""
    if not explained.holders:
        return []
    columns: list[Column[Holder]] = [
        Column("name", "HELD BY", lambda one: one.name),
        Column("owner", "OWNER", lambda one: one.owner),
        Column("cluster", "CLUSTER", lambda one: one.cluster),
        Column("holds", "HOLDS", lambda one: one.holds),
        Column("for", "FOR", lambda one: age(one.since_ms, now_ms)),
        Column("free", "FREE AGAIN", lambda one: _free_again(one, now_ms), grows=True),
    ]
    narrow = terminal._replace(width=max(0, terminal.width - 2))
    lines = ["", *(f"  {line}" for line in table(columns, explained.holders, narrow))]
    more = explained.more_holders
    return [*lines, f"  and {more} more hold less"] if more else lines


def _passing(explained: Explained, now_ms: int) -> list[str]:
    """Who passed it, and until when others may; a blocked one isn't kept waiting for ever."""
    passed = ", ".join(one.name for one in explained.holders if one.passed)
    until_ms = explained.passed_until_ms
    lines = (
        [f"  {passed} came later and passed it, into room that it couldn't use"] if passed else []
    )
    if until_ms is None:
        return lines
    at = clock(until_ms, now_ms)
    if until_ms > now_ms:
        return [*lines, f"  smaller work may pass it until {at}; then what it needs is kept for it"]
    return [*lines, f"  since {at} what it needs is kept for it, where it is nearest to having it"]


def _free_again(holder: Holder, now_ms: int) -> str:
    """As usual for the same work, and by its time limit at the latest; else that nobody knows."""
    told = []
    if holder.likely_ms is not None:
        told.append(f"likely ~{clock(holder.likely_ms, now_ms)[:-3]}")
    if holder.latest_ms is not None:
        told.append(f"by {clock(holder.latest_ms, now_ms)[:-3]} at the latest")
    return ", ".join(told) or "not known: no time limit, no earlier run of it"


MEANINGS = {
    "room": "percent of its CPUs that would stay free",
    "devices": "less where it would take a node with accelerators and needs none",
    "preference": "less for each place down the ordered choice",
    "wishes": "less for each place down the order of what its task wishes, which decides",
}
"""What the columns of points mean; those that a policy adds have its words."""


def meanings(candidates: Sequence[CandidateView]) -> list[str]:
    """What the columns of points say, under the table that has them."""
    names = list(dict.fromkeys(name for one in candidates for name in one.scores))
    told = [f"{name}: {MEANINGS[name]}" for name in names if name in MEANINGS]
    return [f"({'; '.join(told)}; =: the sum, the most wins)"] if told else []


def place_in_line(place: Position) -> str:
    """`#3 of 7 in line`."""
    of = f" of {place.waiting}" if place.waiting > 1 else ""
    return f"#{place.place}{of} in line"


def _headline(explained: Explained, now_ms: int) -> str:
    name, decision = explained.name, explained.decision
    where = decision.chosen if decision else None
    if explained.phase in WAITING:
        place = explained.position
        line = f", {place_in_line(place)}" if place and place.place else ""
        head = f"{name} {'waits' if explained.phase == 'Pending' else 'is held'}{line}"
    elif explained.phase in ENDED:
        run = f", run {explained.run}" if explained.run else ""
        head = f"{name} was on {where}{run}" if where else f"{name} never ran"
    else:
        head = f"{name} is on {where}" if where else f"{name} is {explained.phase}"
    if decision is None:
        return f"{head} (no decision recorded)"
    if explained.current is not None:
        return f"{head} (as of {clock(explained.current.at_ms, now_ms)})"
    made = clock(decision.at_ms, now_ms)
    return f"{head} (decision {decision.id}, made {made}, {age(decision.at_ms, now_ms)} ago)"


def candidate_columns(candidates: Sequence[CandidateView]) -> list[Column[CandidateView]]:
    """The columns that these candidates need: their scores, and what for if that differs."""
    scores = list(dict.fromkeys(name for one in candidates for name in one.scores))
    columns: list[Column[CandidateView]] = [
        Column("cluster", "CLUSTER", lambda one: one.cluster),
        Column("verdict", "VERDICT", lambda one: phase_cell(one.verdict)),
    ]
    if len({one.alternative for one in candidates}) > 1:
        columns.append(Column("wants", "FOR", lambda one: one.wants or f"#{one.alternative + 1}"))
    columns += [Column(name, name, _score(name), right=True) for name in scores]
    if scores:
        columns.append(
            Column("total", "=", lambda one: str(one.total) if one.scores else "", right=True)
        )
    if any(one.figures for one in candidates):
        columns.append(Column("figures", "WOULD TAKE", lambda one: would_take(one.figures)))
    columns.append(Column("why", "WHY", _why, grows=True))
    return columns


def would_take(figures: dict[str, float]) -> str:
    """`3.20 USD, over in 2 h 10 min`; what is unknown is left out."""
    told = []
    if "cost_usd" in figures:
        told.append(show_usd(figures["cost_usd"]))
    elif "usd_per_hour" in figures:
        told.append(f"{show_usd(figures['usd_per_hour'])} an hour")
    if "finishes_s" in figures:
        told.append(f"over in {show_span(figures['finishes_s'])}")
    elif figures.get("starts_s"):
        told.append(f"starts in {show_span(figures['starts_s'])}")
    return ", ".join(told)


def _score(name: str) -> Callable[[CandidateView], str]:
    return lambda one: str(one.scores[name]) if name in one.scores else ""


def _why(candidate: CandidateView) -> str:
    if candidate.reasons:
        return in_a_row(candidate.reasons)
    return "; ".join(short.text or short.resource for short in candidate.shortfalls)


def _runner_up(decision: DecisionView) -> list[str]:
    return [f"next best: {decision.runner_up}"] if decision.runner_up else []
