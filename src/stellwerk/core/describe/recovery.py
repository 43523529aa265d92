"""Reads how a job is started again, when a rented cluster ends, and what runs beside a job."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from stellwerk.core.describe.fields import (
    boolean,
    did_you_mean,
    expected,
    filled_text,
    integer,
    list_of,
    one_of,
    read_map,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.quantity import SECOND_MS
from stellwerk.core.model.task import Autostop, Hook, JobRecovery

STRATEGIES = ("FAILOVER", "EAGER_NEXT_REGION")
NO_RECOVERY = JobRecovery(strategy="none")
"""`job_recovery: none`, which also takes away what the common part says."""

HOOK_EVENTS = ("stop", "preemption", "down")
MOST_HOOKS = 32
LONGEST_HOOK = 16 * 1024
_IDLE = re.compile(r"([0-9]{1,9})([mhdwMHDW]?)")
_IDLE_MINUTES = {"": 1, "m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}


class AutostopRead(Struct, frozen=True):
    """An autostop as written; `hook` is its old way to name a hook. None means `false`."""

    autostop: Autostop | None = None
    hook: Hook | None = None


def job_recovery(report: Report, node: Node, path: str) -> JobRecovery | None:
    """A reader: the name of a strategy, or a map."""
    if node.text is not None:
        return _with_strategy(report, node, path, node.text, JobRecovery())
    if node.kind != "map":
        expected(report, node, path, "the name of a strategy or a map")
        return None
    extra: dict[str, Any] = {}

    def unknown(key_node: Node, key: str, value: Node) -> None:
        remedy = "" if report.crowded else did_you_mean(key, fields, cutoff=0.75)
        if remedy:
            message = f"unknown field `{key[:60]}`"
            report.problem("spec/unknown-field", key_node, f"{path}.{key}", message, remedy)
            return
        extra[key] = value.plain()
        report.ignore(key_node, f"{path}.{key}", f"`{key[:60]}` is an extension's, unknown here")

    fields = {
        "strategy": text,
        "max_restarts_on_errors": integer(0),
        "recover_on_exit_codes": _exit_codes,
    }
    found = read_map(report, node, path, fields, unknown=unknown)
    recovery = JobRecovery(
        max_restarts_on_errors=found.get("max_restarts_on_errors"),
        recover_on_exit_codes=tuple(found.get("recover_on_exit_codes", ())),
        extra=extra,
    )
    strategy = found.get("strategy")
    if strategy is None:
        return recovery
    return _with_strategy(report, found.nodes["strategy"], f"{path}.strategy", strategy, recovery)


def _with_strategy(
    report: Report, node: Node, path: str, strategy: str, recovery: JobRecovery
) -> JobRecovery:
    if strategy.lower() == "none":
        return NO_RECOVERY
    name = strategy.upper()
    if name not in STRATEGIES:
        remedy = did_you_mean(name, STRATEGIES)
        message = f"`{strategy[:60]}` is a strategy unknown here; the job is put back as usual"
        report.notice("spec/unknown-strategy", node, path, message, remedy)
    return JobRecovery(
        name, recovery.max_restarts_on_errors, recovery.recover_on_exit_codes, recovery.extra
    )


def _exit_codes(report: Report, node: Node, path: str) -> list[int] | None:
    code = integer(0, 255)
    if node.kind != "list":
        one = code(report, node, path)
        return None if one is None else [one]
    codes: list[int] | None = list_of(code)(report, node, path)
    if codes is not None and len(dict.fromkeys(codes)) != len(codes):
        report.problem("spec/value", node, path, f"`{path}` names a code twice")
    return codes


def autostop(report: Report, node: Node, path: str) -> AutostopRead | None:
    """A reader: true, false, minutes, a time such as `30m`, or a map."""
    if isinstance(node.value, bool):
        return AutostopRead(Autostop(idle_minutes=0) if node.value else None)
    if isinstance(node.value, int):
        return AutostopRead(Autostop(idle_minutes=node.value))
    if node.text is not None:
        match = _IDLE.fullmatch(node.text.strip())
        if match is None:
            message = f"`{path}`: {node.short()} isn't a time"
            report.problem("spec/value", node, path, message, "write `30m`, `2h` or minutes")
            return None
        minutes = int(match[1]) * _IDLE_MINUTES[match[2].lower()]
        return AutostopRead(Autostop(idle_minutes=minutes))
    if node.kind != "map":
        expected(report, node, path, "true, false, a number of minutes or a map")
        return None
    fields = {
        "idle_minutes": integer(0),
        "down": boolean,
        "wait_for": one_of(("jobs_and_ssh", "jobs", "none")),
        "hook": text,
        "hook_timeout": integer(1),
    }
    found = read_map(report, node, path, fields)
    down = found.get("down", False)
    hook = None
    if found.get("hook"):
        timeout_ms = found.get("hook_timeout", 3600) * SECOND_MS
        hook = Hook(found.get("hook"), ("down",) if down else ("stop",), timeout_ms)
    return AutostopRead(Autostop(found.get("idle_minutes", 0), down, found.get("wait_for")), hook)


def hooks(report: Report, node: Node, path: str) -> list[Hook] | None:
    """A reader of `config.hooks`: shell texts with the events they run at."""
    found: list[Hook] | None = list_of(_hook)(report, node, path)
    if found is not None and len(node.items) > MOST_HOOKS:
        message = f"there are {len(node.items)} hooks, {MOST_HOOKS} may be"
        report.problem("spec/value", node, path, message)
    return found


def _hook(report: Report, node: Node, path: str) -> Hook | None:
    fields = {
        "run": filled_text,
        "events": list_of(one_of(HOOK_EVENTS, keep_case=True)),
        "timeout": integer(1),
    }
    found = read_map(report, node, path, fields, required=("run",))
    run = found.get("run")
    if run is None:
        return None
    if len(run.encode()) > LONGEST_HOOK:
        message = f"`{path}.run` is longer than 16 KiB"
        remedy = "put the script under `workdir` and call it"
        report.problem("spec/too-large", found.nodes["run"], f"{path}.run", message, remedy)
    events = found.get("events")
    if "events" in found and not found.nodes["events"].items:
        message = f"`{path}.events` is empty"
        report.problem("spec/value", found.nodes["events"], f"{path}.events", message)
    return Hook(run, tuple(events or HOOK_EVENTS), found.get("timeout", 3600) * SECOND_MS)
