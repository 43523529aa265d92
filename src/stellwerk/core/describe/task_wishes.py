"""Decides what labels of a task say about where it should go: limits, objective, data, spread.

They have the names and the readers of the annotations of a Placement, so that what is a policy for
all may also be the wish of one task; a wish can only add to the policy that the task names.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stellwerk.core.describe.fields import Reader, duration, integer, one_of
from stellwerk.core.describe.fleet_amounts import from_text
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.placement_extras import EXTRAS as OF_PLACEMENTS
from stellwerk.core.describe.placement_extras import listed
from stellwerk.core.model.domains import DOMAINS
from stellwerk.core.model.quantity import show_duration
from stellwerk.core.model.selectors import Requirement
from stellwerk.core.model.wishes import Limits, SpreadConstraint, Wishes

SHARED = (
    "objective", "usd-per-hour-of-waiting", "standby", "max-usd", "max-usd-per-hour", "finish-by",
    "require", "max-latency", "clients", "data", "prioritize",
)  # fmt: skip
"""Annotations of placements that are labels of tasks too."""


def _span(report: Report, node: Node, path: str) -> int | None:
    value: int | None = duration()(report, node, path)
    if value == 0:
        report.problem("spec/value", node, path, f"`{path}` must be more than 0", "such as `9h`")
        return None
    return value


def _spread(report: Report, node: Node, path: str) -> tuple[SpreadConstraint, ...] | None:
    """`region`, `zone`, or keys of labels: over these, at most one replica more in one than in
    another; a `?` after a key makes it a wish.
    """
    found = []
    for written in listed(report, node, path) or ():
        key = written.removesuffix("?")
        soft = key != written
        label = DOMAINS.get(key, key)
        when: Any = "ScheduleAnyway" if soft else "DoNotSchedule"
        found.append(SpreadConstraint(label, when_unsatisfiable=when))
    return tuple(found) or None


WISHES: dict[str, Reader] = {
    **{name: OF_PLACEMENTS[name] for name in SHARED},
    "expected-runtime": _span,
    "prewarm": one_of(("yes", "no")),
    "spread": _spread,
    "clusters": from_text(integer(1, 1000)),
}


def wishes_of(extras: dict[str, Any]) -> Wishes | None:
    """The wishes among the extras of a task; None where it has none."""
    if not any(name in extras for name in WISHES):
        return None
    return Wishes(
        objective=extras.get("objective", ""),
        usd_per_hour_of_waiting=float(extras.get("usd-per-hour-of-waiting", 0)),
        limits=Limits(
            claims=extras.get("require", ()),
            usd_max=float(extras.get("max-usd", 0)),
            usd_per_hour_max=float(extras.get("max-usd-per-hour", 0)),
            finish_by_ms=extras.get("finish-by", 0),
            latency_ms=extras.get("max-latency", 0.0),
            client_regions=extras.get("clients", ()),
        ),
        data=extras.get("data", ()),
        prioritizers=extras.get("prioritize", ()),
        spread=extras.get("spread", ()),
        standby=extras.get("standby", 0),
        clusters=extras.get("clusters"),
        expected_runtime_ms=extras.get("expected-runtime"),
        prewarm=extras.get("prewarm") == "yes",
    )


def told(wishes: Wishes | None) -> tuple[str, ...]:
    """What work wishes, as it would be written in labels: `objective: cost`, `max-usd: 5`."""
    if wishes is None:
        return ()
    limits = wishes.limits
    by_ms, runtime_ms = limits.finish_by_ms, wishes.expected_runtime_ms
    scores = (f"{one.title}={one.weight}" for one in wishes.prioritizers)
    parts = (
        ("objective", wishes.objective),
        ("usd-per-hour-of-waiting", _number(wishes.usd_per_hour_of_waiting)),
        ("max-usd", _number(limits.usd_max)),
        ("max-usd-per-hour", _number(limits.usd_per_hour_max)),
        ("finish-by", _moment(by_ms) if by_ms else ""),
        ("require", ", ".join(map(_condition, limits.claims))),
        ("clients", ", ".join(limits.client_regions)),
        ("max-latency", f"{limits.latency_ms:g}ms" if limits.latency_ms else ""),
        ("data", ", ".join(wishes.data)),
        ("prioritize", ", ".join(scores)),
        ("expected-runtime", show_duration(runtime_ms) if runtime_ms else ""),
    )
    return tuple(f"{name}: {text}" for name, text in parts if text)


def _number(value: float) -> str:
    return f"{value:.12g}" if value else ""


def _moment(at_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%dT%H:%M:%SZ")


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _condition(one: Requirement) -> str:
    match one.operator:
        case "In" | "NotIn":
            values = ", ".join(one.values)
            return f"{one.key} {'in' if one.operator == 'In' else 'notin'} ({values})"
        case "Exists":
            return one.key
        case _:
            return f"!{one.key}"
