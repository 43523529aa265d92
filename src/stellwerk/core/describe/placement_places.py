"""Finds where in a fleet file something of a placement stands that is found wrong after reading.

Reading keeps no positions of what is good, so the file is read once more; only a fault costs that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stellwerk.core.describe.fleet import FLEET_FILE
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.placements import DEFAULT_NAMESPACE
from stellwerk.core.describe.reader import each_object

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
Wanted = tuple[str, str]
"""The key of a placement, and a path in its spec such as ``tolerations[0].key``."""


def places_in(text: str, wanted: Iterable[Wanted]) -> dict[Wanted, tuple[int, int]]:
    """Line and column of each path, as far down as it is written."""
    by_key: dict[str, list[str]] = {}
    for key, path in wanted:
        by_key.setdefault(key, []).append(path)
    found: dict[Wanted, tuple[int, int]] = {}

    def take(node: Node) -> None:
        for one in _placements(node):
            key = _key(one)
            for path in by_key.get(key, ()):
                place = _at(one, f"spec.{path}")
                found.setdefault((key, path), (place.line, place.column))

    each_object(text, Report(""), FLEET_FILE, take)
    return found


def _placements(node: Node) -> Iterator[Node]:
    kind = node.get("kind")
    name = kind.text or "" if kind is not None else ""
    items = node.get("items")
    if name.endswith("List") and items is not None:
        for each in items.items:
            yield from _placements(each)
    elif name == "Placement":
        yield node


def _key(node: Node) -> str:
    metadata = node.get("metadata")
    said = [metadata.get(key) if metadata is not None else None for key in ("namespace", "name")]
    namespace, name = (each.text or "" if each is not None else "" for each in said)
    return f"{namespace or DEFAULT_NAMESPACE}/{name}"


def _at(node: Node, path: str) -> Node:
    for key, index in _STEP.findall(path):
        if key:
            below = node.get(key)
        else:
            below = node.items[int(index)] if int(index) < len(node.items) else None
        if below is None:
            return node
        node = below
    return node
