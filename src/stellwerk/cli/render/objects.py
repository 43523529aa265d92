"""Objects that are applied, looked at, compared and deleted, as people read them."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple

import msgspec

from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import age, plural
from stellwerk.client.queueing import Consequences, FieldOf, Moved, ObjectChange, QueueObject, Use

MOST_UNCHANGED = 10
MOST_OBJECTS = 100
MOST_FIELDS = 12
MOST_NAMES = 8


class Line(NamedTuple):
    """An object in a list."""

    kind: str
    path: str
    about: str
    by: str
    applied_ms: int
    created_ms: int
    generation: int
    whole: dict[str, Any]


def line_of(one: QueueObject) -> Line:
    """An object of queueing."""
    path = f"{one.namespace}/{one.name}" if one.namespace else one.name
    return Line(
        one.kind,
        path,
        one.about,
        one.by,
        one.applied_ms,
        one.created_ms,
        one.generation,
        one.object,
    )


def columns(now_ms: int, *, kinds: bool) -> list[Column[Line]]:
    """What `get` shows; the kind where there are several."""
    return [
        Column("kind", "KIND", lambda one: one.kind, wide=not kinds),
        Column("name", "NAME", lambda one: one.path),
        Column("about", "WHAT", lambda one: one.about or "-", grows=True),
        Column("age", "AGE", lambda one: age(one.created_ms, now_ms), lambda one: -one.created_ms),
        Column(
            "changed", "CHANGED", lambda one: age(one.applied_ms, now_ms),
            lambda one: -one.applied_ms, wide=True,
        ),
        Column("by", "BY", lambda one: one.by or "-", wide=True),
        Column(
            "generation", "GENERATION", lambda one: str(one.generation), lambda one: one.generation,
            right=True, wide=True,
        ),
    ]  # fmt: skip


def path_of(one: ObjectChange | Use) -> str:
    """``clusterqueue/vision`` or ``localqueue/team/main``."""
    path = f"{one.namespace}/{one.name}" if one.namespace else one.name
    return f"{one.kind.lower()}/{path}"


def change_lines(changes: Sequence[ObjectChange], *, dry_run: bool) -> list[str]:
    """Each object with what becomes of it, and the fields that change."""
    lines: list[str] = []
    same = [one for one in changes if one.change == "unchanged"]
    others = [one for one in changes if one.change != "unchanged"]
    for one in others[:MOST_OBJECTS]:
        verb = f"would be {one.change}" if dry_run else one.change
        lines.append(f"{path_of(one)} {verb}")
        lines += [f"  {_field(each)}" for each in one.fields[:MOST_FIELDS]]
        if len(one.fields) > MOST_FIELDS:
            lines.append(f"  and {plural(len(one.fields) - MOST_FIELDS, 'field')} more")
    lines += _rest(others[MOST_OBJECTS:], dry_run=dry_run)
    word = "would be unchanged" if dry_run else "unchanged"
    if len(same) <= MOST_UNCHANGED:
        return lines + [f"{path_of(one)} {word}" for one in same]
    return [*lines, f"{plural(len(same), 'object')} {word}"]


def _rest(left: Sequence[ObjectChange], *, dry_run: bool) -> Iterator[str]:
    for verb in ("created", "configured", "deleted"):
        count = sum(one.change == verb for one in left)
        if count:
            yield f"and {plural(count, 'object')} more {'would be ' if dry_run else ''}{verb}"


def _field(one: FieldOf) -> str:
    if not one.before:
        return f"{one.path}: {_cut(one.after)} (new)"
    if not one.after:
        return f"{one.path}: {_cut(one.before)} (removed)"
    return f"{one.path}: {_cut(one.before)} -> {_cut(one.after)}"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def diff_lines(changes: Iterable[ObjectChange]) -> list[str]:
    """The objects that differ from the file, as a diff of their YAML."""
    lines: list[str] = []
    for one in changes:
        if one.change != "unchanged":
            path = path_of(one)
            old, new = _yaml(one.before), _yaml(one.after)
            lines += unified_diff(old, new, f"live/{path}", f"file/{path}", lineterm="")
    return lines


def _yaml(value: dict[str, Any] | None) -> list[str]:
    return msgspec.yaml.encode(value).decode().splitlines() if value else []


def consequence_lines(told: Consequences) -> list[str]:
    """What would follow: who starts or waits otherwise, and which queues hold too much."""
    lines = []
    if told.moved:
        lines.append("live work for which this matters at once:")
        lines += [f"  {_moved(one)}" for one in told.moved]
        if told.left:
            lines.append(f"  and {plural(told.left, 'workload')} more")
    if told.over:
        lines.append("over quota; what runs goes on, and nothing more starts until it is within:")
        lines += [
            f"  {one.kind} {one.name}: uses {one.used} {one.resource} in {one.flavor}, could have"
            f" {one.most}"
            for one in told.over
        ]
    if not lines:
        lines.append("no live work starts, stops or waits otherwise at once")
    return lines


def _moved(one: Moved) -> str:
    more = f" and {one.others:,} more like it" if one.others else ""
    before = one.before + (f" ({one.why_before})" if one.why_before else "")
    after = one.after + (f" ({one.why})" if one.why else "")
    return f"{one.workload} in {one.queue}{more}: {before} -> {after}"


def use_lines(uses: Sequence[Use]) -> list[str]:
    """Who loses what by a deletion."""
    lines = []
    for one in uses:
        parts = []
        if one.live:
            names = ", ".join(one.workloads[:MOST_NAMES])
            more = f" and {one.live - MOST_NAMES} more" if one.live > MOST_NAMES else ""
            parts.append(f"{plural(one.live, 'live workload')} ({names}{more})")
        parts += one.objects[:MOST_NAMES]
        lines.append(f"{path_of(one)} is in use by {', '.join(parts)}")
    return lines
