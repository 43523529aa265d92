"""Decides what a YAML text says: documents of values with their places, or why it can't be read.

The only module that knows a YAML library. Scalars mean what PyYAML (YAML 1.1) makes of them, as in
SkyPilot: `yes` is true, `1:30` is 90, `2e-5` is text. What PyYAML lets pass and people stumble
over is refused: a key given twice, anchors that explode, NUL. Work is bounded before it is done:
by the size of the text, the depth, and the number of values with every anchor counted where it is
used.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import yaml

from stellwerk.core.describe.nodes import Entry, Node, Report

LARGEST_TEXT = 2 * 1024 * 1024
MOST_VALUES = 20_000
MOST_EXPANDED = 50_000
DEEPEST = 64

_STRICT_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    f"{_TAG}int": "construct_yaml_int",
    f"{_TAG}float": "construct_yaml_float",
    f"{_TAG}bool": "construct_yaml_bool",
    f"{_TAG}timestamp": "construct_yaml_timestamp",
}
_REMEDIES = {
    "mapping values are not allowed": "put a text that holds `: ` in quotes, or check the indent",
    "could not find expected ':'": "a key needs a colon and a space behind it",
    "did not find expected key": "the keys of one block begin in the same column",
    "did not find expected '-' indicator": "the entries of one list begin in the same column",
    "unexpected end of stream": "a quote or a bracket isn't closed",
    "did not find expected ',' or": "a bracket isn't closed, or a comma is missing",
}


class _Unreadable(Exception):
    """Reading can't go on; the report says why."""


def read_documents(text: str, report: Report) -> list[Node]:
    """The documents of a text; on a fault that makes the rest unreadable, none, and a problem."""
    if not acceptable(text, report):
        return []
    loader = _STRICT_LOADER(text)
    composer = _Composer(loader, report)
    try:
        return composer.documents()
    except _Unreadable:
        return []
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, text, report)
        return []
    except (yaml.YAMLError, RecursionError) as error:
        report.problem("spec/yaml", Node("scalar", 1, 1), "", f"this isn't YAML: {error}"[:200])
        return []
    finally:
        loader.dispose()


def acceptable(text: str, report: Report) -> bool:
    # A text of n characters has at least n bytes, so the cheap test comes first.
    size = len(text) if len(text) > LARGEST_TEXT else len(text.encode(errors="replace"))
    top = Node("scalar", 1, 1)
    if size > LARGEST_TEXT:
        report.problem(
            "spec/too-large",
            top,
            "",
            f"the file has {size / 1024 / 1024:.1f} MiB; a task file may have 2 MiB",
            "put data and programs into files and name them under `workdir` or `file_mounts`",
        )
        return False
    bad = _NOT_TEXT.search(text)
    if bad:
        before = text[: bad.start()]
        line = before.count("\n") + 1
        place = Node("scalar", line, bad.start() - (before.rfind("\n") + 1) + 1)
        character = "a NUL byte" if bad[0] == "\0" else f"the character U+{ord(bad[0]):04X}"
        report.problem(
            "spec/character",
            place,
            "",
            f"there is {character}, which a task file can't hold",
            "is this a text file in UTF-8?",
        )
        return False
    return True


def _report_syntax(error: yaml.MarkedYAMLError, text: str, report: Report) -> None:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = error.problem or error.context or "unknown fault"
    remedy = next((remedy for words, remedy in _REMEDIES.items() if words in message), "")
    lines = text.split("\n", line)
    written = lines[line - 1] if line <= len(lines) else ""
    indent = written[: len(written) - len(written.lstrip())]
    if "\t" in indent or "'\\t'" in message or "tab character" in message:
        remedy = "indent with spaces: YAML allows no tabs there"
    place = Node("scalar", line, column)
    report.problem("spec/yaml", place, "", f"this isn't YAML: {message}", remedy)


class _Composer:
    """Turns the events of a parser into nodes, with every bound checked on the way."""

    def __init__(self, loader: Any, report: Report) -> None:
        self.loader = loader
        self.report = report
        self.anchors: dict[str, Node | None] = {}
        self.values = 0
        self.expanded = 0

    def documents(self) -> list[Node]:
        loader, found = self.loader, []
        loader.get_event()
        while not loader.check_event(yaml.StreamEndEvent):
            loader.get_event()
            self.anchors = {}
            found.append(self.node(1))
            loader.get_event()
        return found

    def node(self, depth: int) -> Node:
        event = self.loader.get_event()
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event.anchor or "", depth, Node("scalar", line, column))
        self.values += 1
        place = Node("scalar", line, column)
        if depth > DEEPEST:
            self.refuse("spec/too-deep", place, f"values are nested more than {DEEPEST} deep")
        if self.values > MOST_VALUES:
            self.refuse("spec/too-large", place, f"the file has more than {MOST_VALUES:,} values")
        if event.anchor:
            # A value that holds itself has no end: until it is complete it can't be used.
            self.anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = self.scalar(event, place)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(event, Node("list", line, column), depth)
        else:
            node = self.mapping(event, Node("map", line, column), depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def alias(self, anchor: str, depth: int, place: Node) -> Node:
        if anchor not in self.anchors:
            self.refuse("spec/yaml", place, f"there is no anchor `&{anchor[:60]}` before this")
        node = self.anchors[anchor]
        if node is None:
            self.refuse("spec/alias", place, f"`*{anchor[:60]}` stands inside its own value")
        self.expanded += node.size
        if self.expanded > MOST_EXPANDED:
            self.refuse(
                "spec/alias",
                place,
                f"with its anchors written out the file has more than {MOST_EXPANDED:,} values",
            )
        if depth + node.height > DEEPEST:
            self.refuse("spec/too-deep", place, f"values are nested more than {DEEPEST} deep")
        return node

    def scalar(self, event: yaml.ScalarEvent, node: Node) -> Node:
        if event.start_mark and event.end_mark:
            node.start, node.end = event.start_mark.index, event.end_mark.index
        value = event.value
        if "\0" in value:
            self.report.problem(
                "spec/character", node, "", "this text holds a NUL character (`\\0`)"
            )
            value = value.replace("\0", "")
        tag = event.tag
        written = yaml.ScalarNode(tag or "", value)
        if tag is None or tag == "!":
            tag = self.loader.resolve(yaml.ScalarNode, value, event.implicit)
        if tag == f"{_TAG}str":
            node.value = value
        elif tag == f"{_TAG}null":
            node.value = None
        elif tag in _SCALARS:
            node.value = self.converted(_SCALARS[tag], written, node)
        elif tag in {f"{_TAG}merge", f"{_TAG}value"}:
            node.value = value
        else:
            self.tag(tag, node)
        return node

    def converted(self, how: str, written: yaml.ScalarNode, node: Node) -> Any:
        try:
            return getattr(self.loader, how)(written)
        except (ValueError, OverflowError, KeyError, AttributeError, IndexError):
            short = written.value[:40]
            self.report.problem(
                "spec/value",
                node,
                "",
                f"`{short}` looks like a number or a date but isn't one",
                f'write it in quotes to have it as text: "{short}"',
            )
            return written.value

    def sequence(self, event: yaml.SequenceStartEvent, node: Node, depth: int) -> Node:
        if event.tag not in {None, "!", f"{_TAG}seq"}:
            self.tag(event.tag, node)
        while not self.loader.check_event(yaml.SequenceEndEvent):
            self.grow(node, self.node(depth + 1))
        self.loader.get_event()
        return node

    def mapping(self, event: yaml.MappingStartEvent, node: Node, depth: int) -> Node:
        if event.tag not in {None, "!", f"{_TAG}map"}:
            self.tag(event.tag, node)
        seen: dict[str, Node] = {}
        merged: list[Node] = []
        while not self.loader.check_event(yaml.MappingEndEvent):
            is_merge = self.merge_follows()
            key = self.node(depth + 1)
            value = self.node(depth + 1)
            self.count(node, key)
            self.count(node, value)
            if key.kind != "scalar":
                self.report.problem(
                    "spec/key", key, "", f"a key must be text, this one is {key.what()}"
                )
            elif is_merge:
                merged.append(value)
            else:
                self.add(node, seen, key, value)
        self.loader.get_event()
        for value in merged:
            self.merge(node, seen, value)
        return node

    def merge_follows(self) -> bool:
        event = self.loader.peek_event()
        return (
            isinstance(event, yaml.ScalarEvent)
            and event.value == "<<"
            and event.tag is None
            and event.implicit[0]
        )

    def add(self, node: Node, seen: dict[str, Node], key: Node, value: Node) -> None:
        name = str(key.value) if key.value is not None else "null"
        first = seen.get(name)
        if first is not None:
            self.report.problem(
                "spec/duplicate-key",
                key,
                name[:60],
                f"the key `{name[:60]}` is given twice, first in line {first.line}",
                "remove one of the two",
            )
            return
        seen[name] = key
        node.entries.append(Entry(name, key, value))

    def merge(self, node: Node, seen: dict[str, Node], value: Node) -> None:
        """`<<: *base` fills in what the map doesn't say itself; of several the first one wins."""
        for source in value.items if value.kind == "list" else [value]:
            if source.kind != "map":
                self.report.problem(
                    "spec/merge", source, "", f"`<<` takes a map, this is {source.what()}"
                )
                continue
            for entry in source.entries:
                if entry.key not in seen:
                    seen[entry.key] = entry.key_node
                    node.entries.append(entry)

    def grow(self, node: Node, child: Node) -> None:
        node.items.append(child)
        self.count(node, child)

    def count(self, node: Node, child: Node) -> None:
        node.size += child.size
        node.height = max(node.height, child.height + 1)

    def tag(self, tag: str, node: Node) -> None:
        written = tag.replace(_TAG, "!!")[:60]
        self.report.problem(
            "spec/tag", node, "", f"`{written}` isn't something a task file can hold",
            "remove the tag",
        )  # fmt: skip

    def refuse(self, code: str, place: Node, message: str) -> NoReturn:
        self.report.problem(code, place, "", message)
        raise _Unreadable
