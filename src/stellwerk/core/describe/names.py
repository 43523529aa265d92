"""Decides which names tasks and groups may have."""

from __future__ import annotations

import re

from stellwerk.core.describe.fields import text
from stellwerk.core.describe.nodes import Node, Report

LONGEST_NAME = 200
_NAME = re.compile(r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*")
_IN_GROUP = re.compile(r"[a-zA-Z0-9_-]+")


def task_name(report: Report, node: Node, path: str) -> str | None:
    """A reader of names, which also become names of files: nothing like `../x`."""
    name = text(report, node, path)
    if name is None or is_name(name):
        return name
    message = f"{node.short()} can't be a name"
    remedy = "letters and digits, with single or double `.`, `_` or `-` between them"
    if len(name) > LONGEST_NAME:
        message, remedy = f"the name has {len(name)} letters", f"{LONGEST_NAME} may be"
    report.problem("spec/name", node, path, message, remedy)
    return None


def is_name(name: str) -> bool:
    """Whether a task may have this name."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None


def is_group_name(name: str) -> bool:
    """Whether a job group or a task in one may have this name, which becomes a host name."""
    return len(name) <= LONGEST_NAME and _IN_GROUP.fullmatch(name) is not None
