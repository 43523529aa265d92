"""Decides what a YAML text says: documents of values with their places, or why it can't be read.

The only module that knows a YAML library. Scalars mean what PyYAML (YAML 1.1) makes of them, as in
SkyPilot: `yes` is true, `1:30` is 90, `2e-5` is text. What PyYAML lets pass and people stumble
over is refused: a key given twice, anchors that explode, NUL. Work is bounded before it is done:
by the size of the text, the depth, and the number of values with every anchor counted where it is
used. A file of many objects (a fleet) is read one document at a time, so that a document that isn't
YAML costs no other, and memory holds one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import yaml

from stellwerk.core.describe.bounds import (
    MOST_WORDS,
    TASK_FILE,
    Bounds,
    Budget,
    split_documents,
)
from stellwerk.core.describe.nodes import Entry, Node, Report

DEEPEST = 64


_STRICT_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG = "tag:yaml.org,2002:"
_STR = f"{_TAG}str"
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
    "did not find expected node content": "a value is missing here, or a bracket isn't closed",
    "cannot start any token": "put a text that begins with this character in quotes",
    "found unknown directive": "put a text that begins with `%` in quotes",
    "expected <document start>": "what stands here belongs to no value: is a quote missing?",
}


class _Unreadable(Exception):
    """Reading can't go on; the report says why."""


def read_documents(text: str, report: Report, bounds: Bounds = TASK_FILE) -> list[Node]:
    """The documents of a text; on a fault that makes the rest unreadable, none, and a problem."""
    if not acceptable(text, report, bounds):
        return []
    try:
        return _read(text, report, Budget(bounds), 0, None)
    except _Unreadable:
        return []


def each_object(text: str, report: Report, bounds: Bounds, take: Callable[[Node], None]) -> None:
    """Gives every object of a text away as soon as it is read, and keeps none.

    A document that isn't YAML is a problem and costs no other. A document with a list under `items`
    (as `kubectl get -o yaml` writes) stands for the entries of the list.
    """
    if not acceptable(text, report, bounds):
        return
    budget = Budget(bounds)
    for first_line, document in split_documents(text):
        try:
            for node in _read(document, report, budget, first_line, take):
                take(node)
        except _Unreadable:
            if budget.spent:
                return


def _read(
    text: str,
    report: Report,
    budget: Budget,
    first_line: int,
    take: Callable[[Node], None] | None,
) -> list[Node]:
    loader = _STRICT_LOADER(text)
    try:
        return _Composer(loader, report, budget, first_line, take).documents()
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, text, report, first_line)
        raise _Unreadable from error
    except (yaml.YAMLError, RecursionError) as error:
        place = Node("scalar", first_line + 1, 1)
        report.problem("spec/yaml", place, "", f"this isn't YAML: {error}"[:200])
        raise _Unreadable from error
    finally:
        loader.dispose()


def acceptable(text: str, report: Report, bounds: Bounds = TASK_FILE) -> bool:
    """Whether a text is small enough and made of characters that a text may have."""
    # A text of n characters has at least n bytes, so the cheap test comes first.
    size = len(text) if len(text) > bounds.text else len(text.encode(errors="replace"))
    top = Node("scalar", 1, 1)
    if size > bounds.text:
        report.problem(
            "spec/too-large",
            top,
            "",
            f"the file has {size / 1024 / 1024:.1f} MiB; {bounds.what} may have "
            f"{bounds.text // 1024 // 1024} MiB",
            bounds.remedy,
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
            f"there is {character}, which {bounds.what} can't hold",
            "is this a text file in UTF-8?",
        )
        return False
    return True


def _report_syntax(error: yaml.MarkedYAMLError, text: str, report: Report, first_line: int) -> None:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = error.problem or error.context or "unknown fault"
    remedy = next((remedy for words, remedy in _REMEDIES.items() if words in message), "")
    lines = text.split("\n", line)
    written = lines[line - 1] if line <= len(lines) else ""
    indent = written[: len(written) - len(written.lstrip())]
    if "\t" in indent or "'\\t'" in message or "tab character" in message:
        remedy = "indent with spaces: YAML allows no tabs there"
    place = Node("scalar", first_line + line, column)
    report.problem("spec/yaml", place, "", f"this isn't YAML: {message}", remedy)


class _Composer:
    """Turns the events of a parser into nodes, with every bound checked on the way."""

    def __init__(
        self,
        loader: Any,
        report: Report,
        budget: Budget,
        first_line: int,
        take: Callable[[Node], None] | None,
    ) -> None:
        self.loader = loader
        self.report = report
        self.budget = budget
        self.first_line = first_line + 1
        self.take = take
        self.anchors: dict[str, Node | None] = {}

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
        mark = event.start_mark
        line, column = mark.line + self.first_line, mark.column + 1
        is_scalar = isinstance(event, yaml.ScalarEvent)
        if not is_scalar and isinstance(event, yaml.AliasEvent):
            return self.alias(event.anchor or "", depth, Node("scalar", line, column))
        budget = self.budget
        budget.values += 1
        if depth > DEEPEST or budget.values > budget.bounds.values:
            self.too_much(depth, Node("scalar", line, column))
        if event.anchor:
            # A value that holds itself has no end: until it is complete it can't be used.
            self.anchors[event.anchor] = None
        if is_scalar:
            node = self.scalar(event, Node("scalar", line, column))
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(event, Node("list", line, column), depth)
        else:
            node = self.mapping(event, Node("map", line, column), depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def too_much(self, depth: int, place: Node) -> None:
        if depth > DEEPEST:
            self.refuse("spec/too-deep", place, f"values are nested more than {DEEPEST} deep")
        most = self.budget.bounds.values
        self.refuse("spec/too-large", place, f"the file has more than {most:,} values")

    def alias(self, anchor: str, depth: int, place: Node) -> Node:
        if anchor not in self.anchors:
            self.refuse("spec/yaml", place, f"there is no anchor `&{anchor[:60]}` before this")
        node = self.anchors[anchor]
        if node is None:
            self.refuse("spec/alias", place, f"`*{anchor[:60]}` stands inside its own value")
        self.budget.expanded += node.size
        most = self.budget.bounds.expanded
        if self.budget.expanded > most:
            self.refuse(
                "spec/alias",
                place,
                f"with its anchors written out the file has more than {most:,} values",
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
        if tag is None or tag == "!":
            tag = self.meaning(value, event.implicit)
        if tag == _STR:
            node.value = value
            return node
        node.written = value
        if tag == f"{_TAG}null":
            node.value = None
        elif tag in _SCALARS:
            written = yaml.ScalarNode(event.tag or "", value)
            node.value = self.converted(_SCALARS[tag], written, node)
        elif tag in {f"{_TAG}merge", f"{_TAG}value"}:
            node.value = value
        else:
            self.tag(tag, node)
        return node

    def meaning(self, value: str, implicit: tuple[bool, bool]) -> str:
        """The tag of a scalar without one; words repeat, so what they mean is remembered."""
        if not implicit[0]:
            return _STR
        words = self.budget.words
        tag = words.get(value)
        if tag is None:
            tag = str(self.loader.resolve(yaml.ScalarNode, value, implicit))
            if len(words) < MOST_WORDS:
                words[value] = tag
        return tag

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
            if depth == 1 and self.take is not None and key.value == "items" and self.gave_away():
                continue
            value = self.node(depth + 1)
            node.size += key.size + value.size
            node.height = max(node.height, value.height + 1, key.height + 1)
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

    def gave_away(self) -> bool:
        """Hands on the entries of a list of objects one by one, if a list is what follows."""
        if self.take is None or not self.loader.check_event(yaml.SequenceStartEvent):
            return False
        self.loader.get_event()
        while not self.loader.check_event(yaml.SequenceEndEvent):
            self.take(self.node(2))
        self.loader.get_event()
        return True

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
            "spec/tag", node, "", f"`{written}` isn't something {self.budget.bounds.what} can hold",
            "remove the tag",
        )  # fmt: skip

    def refuse(self, code: str, place: Node, message: str) -> NoReturn:
        self.report.problem(code, place, "", message)
        raise _Unreadable
