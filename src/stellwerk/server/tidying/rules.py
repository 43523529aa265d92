"""Decides how long what is kept: the kinds of stored things, their ages and sizes, and what is due.

Pure: what there is, the settings and the time come in as values.
"""

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from stellwerk.config import Settings

Kind = Literal[
    "runs",
    "outputs",
    "checkpoints",
    "strays",
    "workloads",
    "decisions",
    "commands",
    "blobs",
    "secrets",
    "journal",
]
KINDS: dict[Kind, str] = {
    "runs": "output and directories of ended workloads",
    "outputs": "results of ended workloads",
    "checkpoints": "checkpoints of ended workloads",
    "strays": "folders without a run, unused builds and images",
    "workloads": "ended workloads in the lists",
    "decisions": "answers that nothing refers to",
    "commands": "done requests, to know a repeated one",
    "blobs": "tasks and code that nothing refers to",
    "secrets": "sealed values that nothing refers to",
    "journal": "all that happened",
}
"""All that grows, in the order in which it is looked at: what goes first frees what comes later."""

DAY_MS = 86_400_000
LEAST_MS = 3_600_000
"""What is sent and not yet submitted must not be taken for what nobody refers to."""

SPARED_MS = 7 * DAY_MS
"""So long after its end nothing is removed only because there is too much."""


class Rule(msgspec.Struct, frozen=True):
    """How long one kind is kept (None: for ever), and how much of it at most (0: any amount)."""

    keep_ms: int | None
    most_bytes: int = 0


class Found(msgspec.Struct, frozen=True):
    """Something that ended work left: by its name, when that ended, and what it takes."""

    name: str
    ended_ms: int
    bytes: int


def rules(
    settings: Settings, older_than_ms: int | None = None, only: Collection[Kind] = ()
) -> dict[Kind, Rule]:
    """The rules of the kinds that are to be looked at.

    An age that is asked for holds for the kinds that are named, else for runs alone.
    """
    found: dict[Kind, Rule] = {}
    for kind in KINDS:
        if only and kind not in only:
            continue
        days = _DAYS.get(kind)
        keep_ms = None if days is None else settings.number(days) * DAY_MS or None
        if older_than_ms is not None and kind in (only or ("runs",)) and kind != "journal":
            keep_ms = older_than_ms
        if keep_ms is not None and kind in _ON_THEIR_WAY:
            keep_ms = max(keep_ms, LEAST_MS)
        size = _BYTES.get(kind)
        found[kind] = Rule(keep_ms, settings.number(size) if size else 0)
    return found


_DAYS: dict[Kind, str] = {
    "runs": "keep_runs_days",
    "outputs": "keep_outputs_days",
    "checkpoints": "keep_checkpoints_days",
    "strays": "keep_unused_days",
    "workloads": "keep_workloads_days",
    "decisions": "keep_decisions_days",
    "commands": "keep_commands_days",
    "blobs": "keep_unused_days",
    "secrets": "keep_unused_days",
}
_BYTES: dict[Kind, str] = {
    "runs": "keep_runs_bytes",
    "outputs": "keep_outputs_bytes",
    "checkpoints": "keep_checkpoints_bytes",
}
_ON_THEIR_WAY: tuple[Kind, ...] = ("strays", "blobs", "secrets", "commands")


def due(found: Sequence[Found], rule: Rule, now_ms: int) -> list[Found]:
    """What goes, the oldest first: by age, and beyond the size unless it ended only just."""
    oldest_first = sorted(found, key=lambda one: (one.ended_ms, one.name))
    left = sum(one.bytes for one in found)
    going: list[Found] = []
    for one in oldest_first:
        too_old = rule.keep_ms is not None and one.ended_ms < now_ms - rule.keep_ms
        too_much = 0 < rule.most_bytes < left and one.ended_ms < now_ms - SPARED_MS
        if too_old or too_much:
            going.append(one)
            left -= one.bytes
    return going
