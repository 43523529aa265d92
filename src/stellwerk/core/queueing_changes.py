"""Says what applying or deleting objects of queueing changes, object by object, field by field."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from stellwerk.core.model.queue_object import KeptObject, ObjectKey, QueueObject

Verb = Literal["created", "configured", "unchanged", "deleted"]
MOST_FIELDS = 200
"""More changed fields of one object than these nobody reads."""
_MISSING = object()


class FieldChange(Struct, frozen=True):
    """A field with what it was and what it will be, as JSON; "" = it isn't there."""

    path: str
    before: str
    after: str


class ObjectChange(Struct, frozen=True):
    """What becomes of one object, and the manifests before and after ("" = there is none)."""

    key: ObjectKey
    change: Verb
    fields: tuple[FieldChange, ...] = ()
    before: str = ""
    after: str = ""


def changes_of(
    kept: Mapping[ObjectKey, KeptObject],
    put: Iterable[QueueObject],
    gone: Iterable[ObjectKey] = (),
) -> list[ObjectChange]:
    """What becomes of each object, in the order in which they are named."""
    found = []
    for one in put:
        known = kept.get(one.key)
        if known is None:
            found.append(ObjectChange(one.key, "created", after=one.manifest))
            continue
        before = known.object.manifest
        if known.object == one:
            found.append(ObjectChange(one.key, "unchanged", (), before, before))
            continue
        fields = tuple(fields_between(before, one.manifest))
        found.append(ObjectChange(one.key, "configured", fields, before, one.manifest))
    found += [
        ObjectChange(key, "deleted", before=kept[key].object.manifest)
        for key in gone
        if key in kept
    ]
    return found


def fields_between(before: str, after: str) -> list[FieldChange]:
    """The fields in which two manifests differ; at most `MOST_FIELDS`."""
    found: list[FieldChange] = []
    _compare(_plain(before), _plain(after), "", found)
    return found[:MOST_FIELDS]


def _plain(manifest: str) -> Any:
    return msgspec.json.decode(manifest) if manifest else {}


def _compare(before: Any, after: Any, path: str, found: list[FieldChange]) -> None:
    if len(found) >= MOST_FIELDS or (before is not _MISSING and before == after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            where = f"{path}.{key}" if path else key
            _compare(before.get(key, _MISSING), after.get(key, _MISSING), where, found)
        return
    if isinstance(before, list) and isinstance(after, list):
        was, now = _named(before), _named(after)
        if was is not None and now is not None:
            if (same := [name for name in now if name in was]) != [n for n in was if n in now]:
                order = ", ".join(name for name in was if name in now)
                found.append(FieldChange(f"{path} (order)", order, ", ".join(same)))
            for name in dict.fromkeys((*was, *now)):
                where = f"{path}[{name}]"
                _compare(was.get(name, _MISSING), now.get(name, _MISSING), where, found)
            return
        if len(before) == len(after):
            for index, (one, other) in enumerate(zip(before, after, strict=True)):
                _compare(one, other, f"{path}[{index}]", found)
            return
    found.append(FieldChange(path, _shown(before), _shown(after)))


def _named(items: list[Any]) -> dict[str, Any] | None:
    """The entries of a list by their names, if each has one of its own."""
    found = {one["name"]: one for one in items if isinstance(one, dict) and "name" in one}
    return found if len(found) == len(items) and items else None


def _shown(value: Any) -> str:
    if value is _MISSING:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
