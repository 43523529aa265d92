"""Decides what `--array 0-99%8`, `--sweep lr=1e-3,1e-4` and `--after ok:NAME` mean.

An index set is written as Slurm writes it: numbers and ranges with a step, and after `%` how many
may be under way at a time. A text in the place of an answer says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, cast

from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.gates import WHENS, When

MOST_ELEMENTS = 100_000
HIGHEST_INDEX = 4_000_000
AFTER_REMEDY = "write `ok:NAME`, `any:NAME` or `fail:NAME`, several with commas between them"
ARRAY_REMEDY = "write `0-99`, `1,5,9` or `0-99%8` for at most 8 at a time"
_SPAN = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?", re.ASCII)
_LIMIT = re.compile(r"\d{1,6}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Indices(NamedTuple):
    """The elements of an array in their order; a ``limit`` of 0 is none."""

    indices: tuple[int, ...]
    limit: int = 0
    step: int = 1


class Waits(NamedTuple):
    """Whose end is waited for, and which one."""

    when: When
    name: str


def read_array(written: str) -> Indices | str:
    """``0-99%8``; ``%8`` alone has no indices, which a sweep gives."""
    listed, mark, limit = "".join(written.split()).partition("%")
    if mark and not (_LIMIT.fullmatch(limit) and int(limit)):
        return f"`%{limit[:20]}` must be a number from 1 on"
    found: dict[int, None] = {}
    step, count = 1, 0
    for part in listed.split(",") if listed or not mark else ():
        match = _SPAN.fullmatch(part)
        if match is None:
            return f"`{part[:40]}` is no index and no range of indices"
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            return f"there is nothing in `{part[:40]}`"
        if last > HIGHEST_INDEX:
            return f"indices go up to {HIGHEST_INDEX:,}"
        count += (last - first) // step + 1
        if count > MOST_ELEMENTS:
            return f"an array has at most {MOST_ELEMENTS:,} elements"
        found.update(dict.fromkeys(range(first, last + 1, step)))
    return Indices(tuple(found), int(limit or 0), step)


def read_sweep(swept: Mapping[str, Sequence[str]]) -> list[dict[str, str]] | str:
    """Every combination of the values, the last variable changing fastest."""
    count = 1
    for name, values in swept.items():
        if not _VARIABLE.fullmatch(name):
            return f"`{name[:40]}` can't be the name of a variable"
        if not values:
            return f"`{name}` has no values"
        if len(set(values)) < len(values):
            return f"`{name}` has a value twice"
        count *= len(values)
        if count > MOST_ELEMENTS:
            return f"an array has at most {MOST_ELEMENTS:,} elements"
    names = tuple(swept)
    return [dict(zip(names, values, strict=True)) for values in product(*swept.values())]


def read_after(written: str) -> list[Waits] | str:
    """``ok:a, any:b``; a name alone is ``ok:``."""
    found: list[Waits] = []
    for part in written.split(","):
        when, mark, name = part.strip().rpartition(":")
        if not name or (mark and when not in WHENS):
            return f"`{part.strip()[:60]}` names nothing that can be waited for"
        found.append(Waits(cast(When, when or "ok"), name))
    return list(dict.fromkeys(found))


def read_dependency(written: str) -> list[Waits] | str:
    """As `sbatch --dependency` has it: `afterok:a:b,afterany:c`, with names for numbers."""
    kinds: dict[str, When] = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}
    if "?" in written:
        return "that one of several conditions holds (`?`) can't be waited for"
    found: list[Waits] = []
    for part in written.split(","):
        kind, *names = part.strip().split(":")
        if kind not in kinds or not all(names) or not names:
            return f"`{part.strip()[:60]}` can't be waited for"
        found += [Waits(kinds[kind], name) for name in names]
    return found


def array(report: Report, node: Node, path: str) -> str | None:
    """The reader of the label `stellwerk/array`."""
    found = read_array(str(node.value))
    if isinstance(found, Indices) and not found.indices:
        found = "it names no index"
    if isinstance(found, str):
        report.problem("spec/value", node, path, f"`{path}`: {found}", ARRAY_REMEDY)
        return None
    return str(node.value)


def after(report: Report, node: Node, path: str) -> str | None:
    """The reader of the label `stellwerk/after`."""
    found = read_after(str(node.value))
    if isinstance(found, str):
        report.problem("spec/value", node, path, f"`{path}`: {found}", AFTER_REMEDY)
        return None
    return str(node.value)
