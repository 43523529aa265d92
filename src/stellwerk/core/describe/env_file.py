"""Decides what a file of variables says: one `NAME=VALUE` for each line.

As shells and docker have it: `#` begins a comment, `export` may stand before a name, single quotes
keep everything, double quotes know backslash escapes, quoted values may span lines. Nothing is
filled in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from stellwerk.core.describe.environment import check_name, check_size
from stellwerk.core.describe.nodes import Node, Report

LARGEST_FILE = 2 * 1024 * 1024
_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?([^=\s#]+)[ \t]*=[ \t]*")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$", "`": "`", "\n": ""}


class _Value(NamedTuple):
    value: str
    end: int


def read_env_flag(written: str, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """`NAME=VALUE`, or `NAME` for the caller's own value (None if there is none)."""
    name, equals, value = written.partition("=")
    return (name, value) if equals else (name, environ.get(name))


def read_env_file(text: str, *, file: str = "") -> dict[str, str]:
    """The variables of such a file; a later line holds before an earlier one.

    Raises SpecError with every problem found.
    """
    report = Report(file)
    found: dict[str, str] = {}
    if len(text) > LARGEST_FILE:
        size = f"{len(text) / 1024 / 1024:.1f} MiB"
        report.problem("spec/too-large", Node("scalar", 1, 1), "", f"the file has {size}, not 2")
        report.finish()
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    position, line = 0, 1
    while position < len(text):
        end = _read_line(report, Node("scalar", line, 1), text, position, found)
        line += text.count("\n", position, end)
        position = end
    report.finish()
    return found


def _read_line(report: Report, place: Node, text: str, position: int, found: dict[str, str]) -> int:
    """Reads one assignment into `found`; gives where the next line begins."""
    end_of_line = _end_of_line(text, position)
    match = _LINE.match(text, position)
    if match is None or match.end() > end_of_line:
        line = text[position:end_of_line].strip()
        if line and not line.startswith("#"):
            message = f"`{line.split()[0][:40]}` doesn't begin a line `NAME=VALUE`"
            report.problem("spec/env-file", place, "", message, "begin a comment with `#`")
        return end_of_line
    name = match[1]
    value = _value(report, place, name, text, match.end())
    if value is None:
        return end_of_line
    if check_name(report, place, "", name) and check_size(report, place, "", name, value.value):
        found[name] = value.value
    return value.end


def _value(report: Report, place: Node, name: str, text: str, start: int) -> _Value | None:
    quote = text[start : start + 1]
    if quote not in {"'", '"'}:
        end = _end_of_line(text, start)
        return _Value(_COMMENT.sub("", text[start:end].rstrip("\n")).strip(), end)
    match = (_SINGLE if quote == "'" else _DOUBLE).match(text, start)
    if match is None:
        message = f"the quote behind `{name[:40]}=` isn't closed"
        report.problem("spec/env-file", place, "", message)
        return None
    end = _end_of_line(text, match.end())
    if _COMMENT.sub("", text[match.end() : end].rstrip("\n")).strip():
        message = f"something follows the quoted value of `{name[:40]}`"
        report.problem("spec/env-file", place, "", message, "put all of it in quotes")
        return None
    value = match[1] if quote == "'" else _ESCAPE.sub(_unescaped, match[1])
    return _Value(value, end)


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1
