"""Decides what labels `stellwerk/…` and the flags of the same names say about a task.

A task file stays valid for `sky` because labels may hold any text. Each extra has one reader, used
for its label and its flag; a flag holds before a label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stellwerk.core.describe import arrays
from stellwerk.core.describe.environment import Environment
from stellwerk.core.describe.fields import (
    Reader,
    did_you_mean,
    duration,
    expected,
    filled_text,
    integer,
    one_of,
    text,
    unknown_field,
)
from stellwerk.core.describe.fill import fill
from stellwerk.core.describe.fleet_amounts import from_text
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.task_wishes import WISHES, wishes_of
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.quantity import SECOND_MS, BadQuantity, parse_duration, parse_size
from stellwerk.core.model.task import AbortRule, NoticeSignal

PREFIX = "stellwerk/"
EXTRAS_WITH_FLAGS = (
    "priority",
    "queue",
    "gpu-memory",
    "time-limit",
    "checkpoint-grace",
    "protected",
    "idle-limit",
)
LAUNCHERS = ("auto", "node", "processes", "torchrun", "accelerate", "jax", "mpi", "slurm")
SHELLS = ("snapshot", "interactive")
SIGNALS = (
    "HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "ALRM", "URG", "XCPU", "WINCH",
)  # fmt: skip
LOCK_FILES = (
    "requirements*.txt", "constraints*.txt", "pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock",
    "pylock*.toml", "Pipfile.lock", "setup.py", "setup.cfg", "environment*.y*ml",
    "conda-lock.yml", "pixi.lock", "package-lock.json", "Cargo.lock", "go.sum",
)  # fmt: skip
"""Files that say what an environment has, by the names that their tools give them."""
ABORT_KINDS = ("not-finite", "no-progress", "gpu-idle")
_NEEDS_SPAN = ("no-progress", "gpu-idle")
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_CLASS = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_QUEUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def span(report: Report, node: Node, path: str) -> int | None:
    """A time span that says its unit and is more than nothing."""
    written = str(node.value).strip()
    if _WHOLE.fullmatch(written) and int(written) > 0:
        remedy = f"write `{written}m` for minutes, `{written}h` for hours"
        report.problem("spec/value", node, path, f"`{path}: {written}` has no unit", remedy)
        return None
    value: int | None = duration()(report, node, path)
    if value is not None and value <= 0:
        remedy = "leave it out, or write a time such as `2h`"
        report.problem("spec/value", node, path, f"`{path}` must be more than 0", remedy)
        return None
    return value


def limit(report: Report, node: Node, path: str) -> int | None:
    """A time span that says its unit, or `0` or `none` for no limit (0)."""
    if str(node.value).strip().lower() in {"0", "none"}:
        return 0
    return span(report, node, path)


def gpu_memory(report: Report, node: Node, path: str) -> int | None:
    """A size with a unit, or in GiB."""
    found = parse_size(str(node.value))
    if isinstance(found, BadQuantity):
        report.problem("spec/value", node, path, f"`{path}`: {found.message}", "write `12Gi`")
        return None
    return found


def priority(report: Report, node: Node, path: str) -> int | str | None:
    """A number from -1000 to 1000, or the name of a priority class."""
    written = str(node.value).strip()
    if _WHOLE.fullmatch(written):
        number = Node("scalar", node.line, node.column, int(written))
        value: int | None = integer(-1000, 1000)(report, number, path)
        return value
    if _NUMBER.fullmatch(written):
        message = f"`{path}` is a number of {len(written)} digits, it must be from -1000 to 1000"
        report.problem("spec/value", node, path, message, "write a number from -1000 to 1000")
        return None
    if _CLASS.fullmatch(written):
        return written
    message = f"`{written[:60]}` is neither a priority nor the name of a priority class"
    report.problem("spec/value", node, path, message, "write a number from -1000 to 1000")
    return None


def queue(report: Report, node: Node, path: str) -> str | None:
    """The name of a queue, or `namespace/name`."""
    written = str(node.value).strip()
    namespace, slash, name = written.rpartition("/")
    if _QUEUE.fullmatch(name) and (not slash or _QUEUE.fullmatch(namespace)):
        return written
    report.problem("spec/value", node, path, f"`{written[:60]}` can't be the name of a queue")
    return None


def notice_signals(report: Report, node: Node, path: str) -> tuple[NoticeSignal, ...] | None:
    """`USR1@5m, TERM`: signals in the order of their lead times."""
    found: list[NoticeSignal] = []
    for part in str(node.value).split(","):
        signal = parse_signal(part.strip())
        if isinstance(signal, str):
            remedy = f"write `USR1@5m`; signals are {', '.join(SIGNALS)}"
            report.problem("spec/value", node, path, f"`{path}`: {signal}", remedy)
            return None
        found.append(signal)
    return tuple(sorted(found, key=lambda signal: -signal.lead_ms))


def setup_inputs(report: Report, node: Node, path: str) -> tuple[str, ...] | None:
    """`auto`, `none`, or the files of the work directory on which the setup depends."""
    words = tuple(dict.fromkeys(str(node.value).replace(",", " ").split()))
    if words == ("auto",):
        return LOCK_FILES
    if words == ("none",):
        return ()
    wrong = [word for word in words if word.startswith(("/", "~", "-")) or ".." in word.split("/")]
    if wrong or not words or {"auto", "none"} & {*words}:
        message = f"`{path}`: `{(wrong or [str(node.value)])[0][:60]}` names no file of the workdir"
        remedy = "write `auto`, `none`, or names like `requirements.txt uv.lock`"
        report.problem("spec/value", node, path, message, remedy)
        return None
    return tuple(word.removeprefix("./") for word in words)


def parse_signal(written: str, *, bare: int = SECOND_MS) -> NoticeSignal | str:
    """`SIGUSR1@300` or `TERM`; a text says why it is none."""
    name, at, lead = written.partition("@")
    name = name.strip().upper().removeprefix("SIG")
    if name not in SIGNALS:
        return f"`{written[:40]}` names no signal that a job can be given"
    lead_ms = parse_duration(lead, bare=bare) if at else 0
    if isinstance(lead_ms, BadQuantity):
        return lead_ms.message
    return NoticeSignal(name, lead_ms)


def abort_when(report: Report, node: Node, path: str) -> tuple[AbortRule, ...] | None:
    """`not-finite, no-progress 30m, gpu-idle 1h`; `not-finite loss` watches one metric."""
    rules: list[AbortRule] = []
    for part in str(node.value).split(","):
        words = part.split()
        kind = words[0] if words else ""
        rule = (
            _rule(words[1:], kind) if kind in ABORT_KINDS else f"`{part.strip()[:40]}` is no rule"
        )
        if isinstance(rule, str):
            remedy = "write `not-finite`, `not-finite METRIC`, `no-progress 30m` or `gpu-idle 1h`"
            report.problem("spec/value", node, path, f"`{path}`: {rule}", remedy)
            return None
        rules.append(rule)
    return tuple(rules)


def _rule(words: list[str], kind: Any) -> AbortRule | str:
    if kind in _NEEDS_SPAN:
        limit = parse_duration("".join(words), bare=0)
        if isinstance(limit, BadQuantity) or not limit:
            return f"`{kind}` needs a time"
        return AbortRule(kind, for_ms=limit)
    if len(words) > 1:
        return f"`{kind}` takes one metric"
    return AbortRule(kind, metric=words[0] if words else None)


FILLED = (f"{PREFIX}data",)
"""Labels in which `$NAME` stands for a variable of the task, such as the commit that is given."""

EXTRAS: dict[str, Reader] = {
    "priority": priority,
    "queue": queue,
    "gpu-memory": gpu_memory,
    "time-limit": span,
    "min-nodes": from_text(integer(1, 100_000)),
    "checkpoint-grace": span,
    "protected": span,
    "idle-limit": limit,
    "launcher": one_of(LAUNCHERS),
    "processes-per-node": from_text(integer(1, 1024)),
    "shell": one_of(SHELLS),
    "placement": filled_text,
    "move-after": span,
    "cut-off-after": limit,
    "notice": notice_signals,
    "abort-when": abort_when,
    "setup-cache": setup_inputs,
    "after": arrays.after,
    "array": arrays.array,
    **WISHES,
}


def labels(report: Report, node: Node, path: str) -> dict[str, str] | None:
    """A reader of labels, whose values are text; of an extra it is said at once what it may be."""
    if node.kind != "map":
        expected(report, node, path, "a map of keys and values")
        return None
    found: dict[str, str] = {}
    for entry in node.entries:
        where = f"{path}.{entry.key}"
        reader = EXTRAS.get(entry.key.removeprefix(PREFIX))
        if entry.value.text is not None:
            found[entry.key] = entry.value.text
        elif reader is None or not entry.key.startswith(PREFIX) or entry.value.kind != "scalar":
            text(report, entry.value, where)
        else:
            before = len(report.problems)
            reader(report, entry.value.quoted(), where)
            if len(report.problems) == before:
                text(report, entry.value, where)
    return found


def flags_in_labels(
    labels: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str], tuple[Problem, ...]]:
    """Labels that come beside a task: those of the caller, and `stellwerk/…` as the flags they are.

    One without a flag counts only where the task stands, and is a problem here.
    """
    ours = {key.removeprefix(PREFIX): key for key in labels if key.startswith(PREFIX)}
    problems = []
    for extra, label in ours.items():
        if extra not in EXTRAS:
            remedy = did_you_mean(label, [PREFIX + known for known in EXTRAS], cutoff=0.85)
            remedy = remedy or f"labels of your own don't begin with `{PREFIX}`"
            problems.append(Problem("spec/unknown-field", f"unknown label `{label}`", remedy))
        elif extra not in EXTRAS_WITH_FLAGS:
            message = f"`{label}` counts only in a task file"
            remedy = "write it there, below `labels` of `resources`"
            problems.append(Problem("submit/label", message, remedy))
    given = [extra for extra in EXTRAS_WITH_FLAGS if extra in ours]
    flags = {extra.replace("-", "_"): labels[ours[extra]] for extra in given}
    others = {key: value for key, value in labels.items() if not key.startswith(PREFIX)}
    return others, flags, tuple(problems)


def _is_nearly_ours(key: str, report: Report) -> bool:
    """Whether a label that isn't ours is so only by a slip, as in `stellwek/queue`."""
    looks_so = "/" in key and key[:2].lower() == PREFIX[:2] and not report.crowded
    return looks_so and bool(did_you_mean(key, [PREFIX + extra for extra in EXTRAS], cutoff=0.85))


def read_extras(report: Report, labels: list[Node]) -> dict[str, Any]:
    """What the labels say, by name; entries of `any_of` and `ordered` must agree."""
    values: dict[str, Any] = {}
    first: dict[str, Node] = {}
    for node in labels:
        for entry in node.entries:
            name = entry.key.removeprefix(PREFIX)
            path = f"resources.labels.{entry.key}"
            known = [PREFIX + extra for extra in EXTRAS]
            if name == entry.key and _is_nearly_ours(name, report):
                unknown_field(report, entry.key_node, path, entry.key, known)
                continue
            if name == entry.key or entry.value.text is None:
                continue
            if name not in EXTRAS:
                unknown_field(report, entry.key_node, path, entry.key, known)
                continue
            value = EXTRAS[name](report, entry.value, path)
            if value is not None and values.setdefault(name, value) != value:
                report.problem(
                    "spec/choice",
                    entry.value,
                    path,
                    f"`{entry.key}` says something else in line {first[name].line}",
                    "a job has one, wherever it runs: state it in the common part",
                )
            first.setdefault(name, entry.value)
    return values


def fill_extras(report: Report, labels: Node, environment: Environment) -> Node:
    """The same labels with the task's variables filled into those where that makes sense."""
    filled = Node(labels.kind, labels.line, labels.column)
    for entry in labels.entries:
        value = entry.value
        if entry.key in FILLED:
            value = fill(report, value, f"resources.labels.{entry.key}", environment)
        filled.entries.append(type(entry)(entry.key, entry.key_node, value))
    return filled


def task_fields(extras: dict[str, Any]) -> dict[str, Any]:
    """The extras under the names they have in a Task."""
    named = {
        "queue": "queue",
        "gpu-memory": "gpu_memory_bytes",
        "time-limit": "time_limit_ms",
        "min-nodes": "min_nodes",
        "checkpoint-grace": "checkpoint_grace_ms",
        "protected": "protected_ms",
        "launcher": "launcher",
        "processes-per-node": "processes_per_node",
        "shell": "shell",
        "placement": "placement",
        "move-after": "move_after_ms",
        "cut-off-after": "cut_off_after_ms",
        "notice": "notice_signals",
        "abort-when": "abort_when",
        "idle-limit": "idle_limit_ms",
        "setup-cache": "setup_inputs",
    }
    fields = {named[name]: value for name, value in extras.items() if name in named}
    wishes = wishes_of(extras)
    if wishes is not None:
        fields["wishes"] = wishes
    chosen = extras.get("priority")
    if chosen is not None:
        fields["priority" if isinstance(chosen, int) else "priority_class"] = chosen
    return fields
