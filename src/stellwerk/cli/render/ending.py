"""Says how a workload ended: where, how long, with how much memory; and of a failure, why."""

from stellwerk.cli.render.phases import doing
from stellwerk.cli.render.reasons import in_full
from stellwerk.cli.render.units import duration, size
from stellwerk.client.wire import RunView, Show

LAST_LINES = 10


def ending(show: Show) -> list[str]:
    """The lines after the output."""
    run = show.runs[-1] if show.runs else None
    lines = [" ".join([show.name, doing(show.phase), *_where(run)]) + _numbers(show, run)]
    if show.phase != "Succeeded":
        reasons = show.reasons or ([run.reason] if run and run.reason else [])
        lines += in_full(reasons, name=show.name)
        lines += runtime_says(run, lines)
    if show.phase == "Failed" and run and run.end and run.end.last_lines:
        lines.append("  last lines:")
        lines += [f"  | {line}" for line in run.end.last_lines[-LAST_LINES:]]
    lines.append(f"  details: stw show {show.name}   files: stw ls {show.name}")
    return lines


def runtime_says(run: RunView | None, lines: list[str]) -> list[str]:
    """What was noted on the machine, such as which rank failed first, if it isn't told already."""
    message = run.end.message if run and run.end else ""
    return [] if not message or any(message in line for line in lines) else [f"  {message}"]


def _where(run: RunView | None) -> list[str]:
    return ["on", run.cluster] if run and run.cluster else []


def _numbers(show: Show, run: RunView | None) -> str:
    parts = []
    count = len(show.runs)
    if run and run.started_ms and (run.ended_ms or show.ended_ms):
        took = duration((run.ended_ms or show.ended_ms or 0) - run.started_ms)
        parts.append(f"ran {took}" + (f" in the last of {count} runs" if count > 1 else ""))
    first = show.runs[0].started_ms if show.runs else None
    if first and first - show.submitted_ms >= 1000:
        parts.append(f"waited {duration(first - show.submitted_ms)}")
    if run and run.end and run.end.peak_memory_bytes:
        parts.append(f"peak memory {size(run.end.peak_memory_bytes)}")
    if show.exit_code is not None:
        parts.append(f"exit {show.exit_code}")
    return ": " + ", ".join(parts) if parts else ""
