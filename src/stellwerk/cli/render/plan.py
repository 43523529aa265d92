"""What would become of a task: where it would go, what it waits for, what would change that."""

from stellwerk.cli.render.ahead import start_line
from stellwerk.cli.render.explain import candidate_columns, meanings
from stellwerk.cli.render.reasons import in_full
from stellwerk.cli.render.table import Cell, Column, table
from stellwerk.cli.render.units import duration, plural
from stellwerk.cli.terminal import Terminal
from stellwerk.client.ahead import Planned
from stellwerk.client.wire import CandidateView

USUAL_GRACE_MS = 30_000


def lines_of(planned: Planned, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole answer."""
    head = f"{terminal.style(planned.name, 'strong')}  {', '.join(_facts(planned))}"
    narrow = terminal._replace(width=max(0, terminal.width - 2))
    matrix = table(_columns(planned), planned.candidates, narrow)
    notes = meanings(planned.candidates)
    lines = [head, *(f"  {line}" for line in (*matrix, *notes))]
    lines += [_outcome(planned), *in_full(planned.reasons)]
    if planned.forecast is not None:
        lines.append(start_line(planned.forecast, now_ms))
    if planned.runner_up:
        lines.append(f"next best: {planned.runner_up}")
    lines += [f"what would change it: {change}" for change in planned.change]
    return [*lines, f"plan {planned.id} is valid until facts change"]


def _facts(planned: Planned) -> list[str]:
    """What it wants, and how it wants to be treated where that isn't the usual."""
    policies = planned.policies
    facts = [planned.wants]
    if limit_ms := policies.get("time_limit_ms"):
        facts.append(f"at most {duration(limit_ms)}")
    if restarts := policies.get("max_restarts_on_errors"):
        facts.append(f"up to {plural(restarts, 'restart')} after errors")
    if (grace_ms := policies.get("grace_ms", USUAL_GRACE_MS)) != USUAL_GRACE_MS:
        facts.append(f"{duration(grace_ms)} to save when it must stop")
    if planned.priority:
        facts.append(f"priority {planned.priority}")
    if planned.queue not in {"", "default"}:
        facts.append(f"queue {planned.queue}")
    return facts


def _columns(planned: Planned) -> list[Column[CandidateView]]:
    columns = candidate_columns(planned.candidates)
    verdict = next(i for i, column in enumerate(columns) if column.key == "verdict")
    columns[verdict] = Column("verdict", "VERDICT", _verdict)
    return [Column("mark", "", lambda one: "->" if _starts(one) else ""), *columns]


def _starts(candidate: CandidateView) -> bool:
    return candidate.verdict == "chosen"


def _verdict(candidate: CandidateView) -> Cell | str:
    return Cell("starts now", "good") if _starts(candidate) else candidate.verdict


def _outcome(planned: Planned) -> str:
    before = f"{plural(planned.ahead, 'workload')} before it"
    if planned.starts_now:
        told = f", though {before} in line" if planned.ahead else ""
        return f"would start now on {planned.chosen}{told}"
    return f"would wait, {before} in line" if planned.ahead else "would wait, first in line"
