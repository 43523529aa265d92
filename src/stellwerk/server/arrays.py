"""Turns submitted items into elements: one each, or as many as an array or a sweep has.

All elements of an array share what was read, its shape and its code; each has an index, and of a
sweep its own values. Also finds those after whose end something is to start.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.describe.arrays import (
    AFTER_REMEDY,
    ARRAY_REMEDY,
    MOST_ELEMENTS,
    Indices,
    Waits,
    read_after,
    read_array,
    read_sweep,
)
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.gates import ARRAY_LABEL, After, ArrayPart
from stellwerk.core.model.ids import WorkloadId
from stellwerk.server.accept import Accepted
from stellwerk.server.models import SubmitItem
from stellwerk.server.services import PROJECT, Services
from stellwerk.store import WorkloadFilter

KNOWN_S = 60.0
"""How long somebody is waited for who was submitted before, perhaps behind many others."""

AFTER = "stellwerk/after"
ARRAY = "stellwerk/array"
_ELEMENT = re.compile(r"(.+)-\d+")


class Element(NamedTuple):
    """What becomes one workload."""

    item: SubmitItem
    accepted: Accepted
    key: str
    part: ArrayPart | None = None
    after: tuple[After, ...] = ()


def readable(item: SubmitItem) -> SubmitItem:
    """An item as it is read: variables that a sweep gives have its first values."""
    first = {name: values[0] for name, values in item.sweep.items() if values}
    return replace(item, env={**first, **item.env}) if first else item


def elements_of(
    items: Sequence[SubmitItem],
    accepted: Sequence[Accepted],
    after: Mapping[str, tuple[After, ...]],
) -> list[Element]:
    """The elements of all items; raises with what is wrong with arrays, or where they are many."""
    found: list[Element] = []
    problems: list[Problem] = []
    for item, one in zip(items, accepted, strict=True):
        waits = after.get(after_of(item, one), ())
        try:
            parts = _parts(item, one)
        except StellwerkError as error:
            problems += error.problems
            continue
        if not parts:
            found.append(Element(item, one, item.key, None, waits))
        for part in parts:
            key = item.key and f"{item.key}#{part.index}"
            found.append(Element(item, one, key, part, waits))
        if len(found) > MOST_ELEMENTS:
            message = f"more than {MOST_ELEMENTS:,} workloads in one request"
            raise StellwerkError.of("request/too-large", message, "submit them in parts")
    if problems:
        raise StellwerkError(problems)
    return found


def _parts(item: SubmitItem, one: Accepted) -> list[ArrayPart]:
    written = item.array or one.read.task.labels.get(ARRAY, "")
    if not (written or item.sweep):
        return []
    found = read_array(written) if written else Indices(())
    if isinstance(found, str):
        raise _wrong("--array", found, ARRAY_REMEDY)
    if not item.sweep:
        if not found.indices:
            raise _wrong("--array", "it names no index", ARRAY_REMEDY)
        return _numbered(found, [{}] * len(found.indices))
    if found.indices:
        remedy = "leave the indices out: `--array %8` limits a sweep to 8 at a time"
        raise _wrong("--sweep", "a sweep numbers its elements itself", remedy)
    swept = read_sweep(item.sweep)
    if isinstance(swept, str):
        raise _wrong("--sweep", swept, "write `--sweep lr=1e-3,1e-4`")
    return _numbered(found._replace(indices=tuple(range(len(swept)))), swept)


def _wrong(path: str, message: str, remedy: str) -> StellwerkError:
    return StellwerkError([Problem("spec/array", f"`{path}`: {message}", remedy, path=path)])


def _numbered(found: Indices, values: Sequence[dict[str, str]]) -> list[ArrayPart]:
    lowest, highest = min(found.indices), max(found.indices)
    return [
        ArrayPart(
            id=WorkloadId(""),
            name="",
            index=index,
            count=len(values),
            lowest=lowest,
            highest=highest,
            step=found.step,
            limit=found.limit,
            env=env,
        )
        for index, env in zip(found.indices, values, strict=True)
    ]


def with_array_ids(
    elements: Sequence[Element], ids: Sequence[WorkloadId]
) -> list[tuple[Element, WorkloadId]]:
    """The elements of each array under an id made of its first one's."""
    found: list[tuple[Element, WorkloadId]] = []
    left, array = 0, WorkloadId("")
    for element, id in zip(elements, ids, strict=True):
        part = element.part
        if part is None:
            found.append((element, id))
            continue
        if not left:
            left, array = part.count, WorkloadId(f"a-{id.removeprefix('w-')}")
        left -= 1
        named = replace(part, id=array, name=element.accepted.name)
        found.append((element._replace(part=named), id))
    return found


def array_name(element: str) -> str:
    """The name of an array, of one of its elements' names."""
    match = _ELEMENT.fullmatch(element)
    return match[1] if match else element


def after_of(item: SubmitItem, one: Accepted) -> str:
    """What an item waits for, as it was written."""
    return ",".join(item.after) or one.read.task.labels.get(AFTER, "")


async def resolve_after(services: Services, written: Iterable[str]) -> dict[str, tuple[After, ...]]:
    """Finds whom each text names; raises where it names nobody. So nothing waits for itself."""
    found: dict[str, tuple[After, ...]] = {}
    problems: list[Problem] = []
    for text in dict.fromkeys(one for one in written if one):
        waits = read_after(text)
        if isinstance(waits, str):
            problems.append(Problem("spec/after", waits, AFTER_REMEDY, path="--after"))
            continue
        those = [await _find(services, one) for one in waits]
        problems += [one for one in those if isinstance(one, Problem)]
        found[text] = tuple(one for one in those if isinstance(one, After))
    if problems:
        raise StellwerkError(problems)
    return found


async def _find(services: Services, one: Waits) -> After | Problem:
    known = _known(services, one)
    if known is None and await services.settled(KNOWN_S):
        known = _known(services, one)
    if known is not None:
        return known
    [problem] = services.unknown(one.name).problems
    return replace(problem, help=f"{problem.help}; what is waited for must have been submitted")


def _known(services: Services, one: Waits) -> After | None:
    row = services.store.workload(one.name, PROJECT)
    if row is not None:
        return After(one.when, row.workload.id, row.workload.name)
    array = array_of(services, one.name)
    return After(one.when, array.id, array.name) if array is not None else None


def array_of(services: Services, name: str) -> ArrayPart | None:
    """The array of a name, by one of its elements."""
    wanted = WorkloadFilter(live=False, labels={ARRAY_LABEL: name}, project=PROJECT, limit=1)
    rows = services.store.workloads(wanted)
    return rows[0].workload.array if rows else None
