"""Turns plain data (JSON of an API) into the values that readers take; they have no place."""

from __future__ import annotations

from typing import Any

from stellwerk.core.describe.nodes import Entry, Node


def node_of(value: Any) -> Node:
    """The same value as if it had been read from a text without lines."""
    if isinstance(value, dict):
        node = Node("map", 0, 0)
        for key, item in value.items():
            node.entries.append(Entry(str(key), Node("scalar", 0, 0, str(key)), node_of(item)))
        return node
    if isinstance(value, list | tuple):
        node = Node("list", 0, 0)
        node.items.extend(map(node_of, value))
        return node
    return Node("scalar", 0, 0, value)
