"""Everything about one workload, from the answer to "is it well?" down to its timeline."""

from typing import Any

from stellwerk.cli.render.ending import runtime_says
from stellwerk.cli.render.explain import place_in_line
from stellwerk.cli.render.phases import STYLES
from stellwerk.cli.render.reasons import in_full
from stellwerk.cli.render.table import Cell, Column, table
from stellwerk.cli.render.units import age, clock, duration, plural, size
from stellwerk.cli.terminal import Terminal
from stellwerk.client.checkpoints import Checkpoint, Saved
from stellwerk.client.wire import RunView, Show, Usage
from stellwerk.core.model.admission import CheckState
from stellwerk.core.model.catalogue import WHY_STOPPED
from stellwerk.core.model.gates import ArrayPart

LAST_LINES = 10


def lines_of(show: Show, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole page."""
    phase = terminal.style(show.phase, STYLES.get(show.phase, ""))
    head = f"{terminal.style(show.name, 'strong')}  {phase}  {show.id}"
    lines = [head, *(f"  {label:<12}{text}" for label, text in _facts(show, now_ms) if text)]
    if show.reasons:
        lines += ["", *in_full(show.reasons, name=show.name)]
    if show.runs:
        lines += ["", *_runs(show.runs, terminal, now_ms)]
    if show.phase == "Failed":
        lines += _last_words(show, lines)
    if show.metrics:
        lines += ["", *_metrics(show.metrics, terminal, now_ms)]
    if show.timeline:
        lines += ["", *(f"  {clock(m.at_ms, now_ms)}  {m.what}" for m in show.timeline)]
    return lines


def _check(one: CheckState) -> str:
    """`budget Ready by ada (within 400 h)`"""
    by = f" by {one.by}" if one.by else ""
    return f"{one.name} {one.state}{by}{f' ({one.message})' if one.message else ''}"


def _facts(show: Show, now_ms: int) -> list[tuple[str, str]]:
    snapshot = show.snapshot
    code = ""
    if snapshot:
        code = f"{plural(snapshot.files, 'file')}, {size(snapshot.bytes)}"
        if snapshot.commit:
            code += f", commit {snapshot.commit[:12]}{' with changes' if snapshot.dirty else ''}"
    place = show.position
    return [
        ("owner", f"{show.owner} in {show.project}" if show.project else show.owner),
        ("wants", show.wants),
        ("queue", f"{show.queue}, priority {show.priority}"),
        ("place", place_in_line(place) if place and place.place else ""),
        ("submitted", f"{clock(show.submitted_ms, now_ms)} ({age(show.submitted_ms, now_ms)} ago)"),
        ("cluster", _where(show)),
        ("task", show.task.strip() if len(show.task.strip().splitlines()) == 1 else ""),
        ("element", _element(show.element)),
        ("uses", _uses(show.usage)),
        ("warning", _warning(show.runs)),
        ("advice", show.gpu_advice),
        ("code", code),
        ("wishes", ", ".join(show.wishes)),
        ("checks", ", ".join(map(_check, show.checks))),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(show.labels.items()))),
        ("folder", show.work_dir or ""),
        ("outputs", show.output_dir or ""),
        ("checkpoints", show.checkpoint_dir or ""),
        ("at home", _at_home(show.checkpoint, now_ms)),
        ("not there", _not_at_home(show.checkpoint)),
        ("decision", show.decision or ""),
    ]


def _at_home(checkpoint: Checkpoint | None, now_ms: int) -> str:
    """`step-300.pt (step 300), 1.2 GiB, copied 4 min ago from room/pc1`."""
    if checkpoint is None or checkpoint.at_home is None:
        return ""
    when = f"copied {age(checkpoint.home_ms or 0, now_ms)} ago"
    machines = ", ".join(checkpoint.machines)
    told = f"{_saved(checkpoint.at_home)}, {size(checkpoint.at_home.bytes)}, {when} from {machines}"
    next_ms = checkpoint.next_copy_ms
    return f"{told}; the next takes about {duration(next_ms)}" if next_ms else told


def _not_at_home(checkpoint: Checkpoint | None) -> str:
    """What would be lost with its machine, and why it isn't at home."""
    if checkpoint is None or checkpoint.newer is None:
        return ""
    where = f"{_saved(checkpoint.newer)} is on {', '.join(checkpoint.newer_on)} alone"
    return f"{where}: {checkpoint.trouble}" if checkpoint.trouble else f"{where} as yet"


def _saved(one: Saved) -> str:
    return one.name if one.step is None else f"{one.name} (step {one.step:,})"


def _element(element: ArrayPart | None) -> str:
    if element is None:
        return ""
    values = " ".join(f"{name}={value}" for name, value in element.env.items())
    return f"index {element.index}, one of {element.count:,}" + (f": {values}" if values else "")


def _warning(runs: list[RunView]) -> str:
    """What the newest run was told that may end it, with what helps, while it goes on."""
    last = runs[-1] if runs else None
    if last is None or last.warning is None or last.end is not None:
        return ""
    return f"{last.warning.sentence}: {last.warning.remedy}"


def _uses(usage: Usage | None) -> str:
    """`1.9 CPUs, 340 MiB (at most 512 MiB), 3 processes`; of what is over the peaks alone."""
    if usage is None:
        return ""
    parts = []
    if usage.cpus is not None:
        parts.append(f"{usage.cpus:.1f} CPUs")
    parts.append(_with_peak(usage.memory_bytes, usage.peak_memory_bytes, "memory"))
    if usage.processes is not None:
        parts.append(plural(usage.processes, "process", "processes"))
    if usage.gpu_memory_bytes is not None or usage.peak_gpu_memory_bytes:
        gpu = _with_peak(usage.gpu_memory_bytes, usage.peak_gpu_memory_bytes or 0, "GPU memory")
        busy = "" if usage.gpu_busy_percent is None else f" {usage.gpu_busy_percent} % busy"
        parts.append(gpu + busy)
    return ", ".join(filter(None, parts))


def _with_peak(now: int | None, peak: int, what: str) -> str:
    if now is None:
        return f"{what} at most {size(peak)}" if peak else ""
    return f"{what} {size(now)} (at most {size(peak)})" if peak > now else f"{what} {size(now)}"


def _where(show: Show) -> str:
    if not show.cluster:
        return ""
    nodes = [node for node in show.nodes if node != show.cluster]
    return f"{show.cluster} ({', '.join(nodes)})" if nodes else show.cluster


def _runs(runs: list[RunView], terminal: Terminal, now_ms: int) -> list[str]:
    columns: list[Column[RunView]] = [
        Column("run", "RUN", lambda run: str(run.number), right=True),
        Column("phase", "PHASE", lambda run: run.phase),
        Column("cluster", "CLUSTER", lambda run: run.cluster),
        Column(
            "started",
            "STARTED",
            lambda run: clock(run.started_ms, now_ms) if run.started_ms else "-",
        ),
        Column("ran", "RAN", lambda run: _ran(run, now_ms), right=True),
        Column("memory", "PEAK", _peak, right=True),
        Column("cpu", "CPU", lambda run: duration(run.end.cpu_ms) if run.end else "-", right=True),
        Column("exit", "EXIT", _exit, right=True),
        Column("why", "HOW", _how, grows=True),
    ]
    return [
        f"  {line}"
        for line in table(columns, runs, terminal._replace(width=max(0, terminal.width - 2)))
    ]


def _ran(run: RunView, now_ms: int) -> str:
    if not run.started_ms:
        return "-"
    return duration(max(0, (run.ended_ms or now_ms) - run.started_ms))


def _peak(run: RunView) -> str:
    return size(run.end.peak_memory_bytes) if run.end and run.end.peak_memory_bytes else "-"


def _exit(run: RunView) -> str:
    if run.end is None:
        return "-"
    if run.end.code is not None:
        return str(run.end.code)
    return f"signal {run.end.signal}" if run.end.signal is not None else "-"


def _how(run: RunView) -> str:
    if run.reason is not None:
        return run.reason.sentence
    if run.end is not None:
        return run.end.message or run.end.how
    if not run.reachable:
        return "its machine can't be reached"
    return f"told to stop: {WHY_STOPPED.get(run.notice, run.notice)}" if run.notice else ""


def _last_words(show: Show, told: list[str]) -> list[str]:
    """What the last run's machine noted of its end, if it isn't told already, and its output."""
    run = show.runs[-1] if show.runs else None
    lines = runtime_says(run, told)
    if run and run.end and run.end.last_lines:
        lines.append("  last lines:")
        lines += [f"  | {line}" for line in run.end.last_lines[-LAST_LINES:]]
    return ["", *lines] if lines else []


def _metrics(metrics: dict[str, dict[str, Any]], terminal: Terminal, now_ms: int) -> list[str]:
    columns: list[Column[tuple[str, dict[str, Any]]]] = [
        Column("metric", "METRIC", lambda item: item[0]),
        Column("last", "LAST", lambda item: _last(item[1]), right=True),
        Column("step", "STEP", lambda item: _number(item[1].get("step")), right=True),
        Column("min", "MIN", lambda item: _number(item[1].get("min")), right=True),
        Column("max", "MAX", lambda item: _number(item[1].get("max")), right=True),
        Column("values", "VALUES", lambda item: _number(item[1].get("n")), right=True),
        Column("age", "AGE", lambda item: age(item[1].get("at_ms"), now_ms), right=True),
    ]
    return [f"  {line}" for line in table(columns, sorted(metrics.items()), terminal)]


def _last(metric: dict[str, Any]) -> Cell:
    """The last value; it is marked when one of all wasn't a number."""
    bad = metric.get("not_finite") or 0
    text = _number(metric.get("last"))
    return Cell(f"{text} ({bad} not finite)", "bad") if bad else Cell(text)


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
