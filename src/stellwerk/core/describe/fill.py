"""Decides what `$NAME` and `${NAME}` mean outside of scripts: the task's own variables, filled in.

It happens in file_mounts, volumes, service and workdir, in keys and values; `setup` and `run` are
left to bash. A secret is never filled in: what is filled in gets stored and shown.
"""

from __future__ import annotations

import re

from stellwerk.core.describe.environment import Environment
from stellwerk.core.describe.fields import did_you_mean
from stellwerk.core.describe.nodes import MOST_PROBLEMS, Entry, Node, Report

LARGEST_FILLED = 4 * 1024 * 1024
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def fill(report: Report, node: Node, path: str, environment: Environment) -> Node:
    """The same value with the task's variables filled in, in its texts and keys."""
    return _Filler(report, environment).node(node, path)


class _Filler:
    def __init__(self, report: Report, environment: Environment) -> None:
        self.report = report
        self.envs = environment.envs
        self.secrets = {*environment.secrets, *(ref.name for ref in environment.managed)}
        self.room = LARGEST_FILLED
        self.told: set[str] = set()

    def node(self, node: Node, path: str) -> Node:
        filled = Node(node.kind, node.line, node.column, node.value)
        filled.size, filled.height = node.size, node.height
        if isinstance(node.value, str):
            filled.value = self.text(node.value, node, path)
        filled.items = [self.node(item, path) for item in node.items]
        seen: dict[str, Node] = {}
        for entry in node.entries:
            key = self.text(entry.key, entry.key_node, path)
            if key in seen:
                self.report.problem(
                    "spec/duplicate-key",
                    entry.key_node,
                    path,
                    f"with its variables filled in, `{key[:60]}` is given twice under `{path}`",
                    f"the first is in line {seen[key].line}",
                )
                continue
            seen[key] = entry.key_node
            filled.entries.append(Entry(key, entry.key_node, self.node(entry.value, path)))
        return filled

    def text(self, written: str, node: Node, path: str) -> str:
        if "$" not in written:
            return written
        names = (match[1] or match[2] for match in VARIABLE.finditer(written))
        growth = sum(len(self.envs.get(name, "")) for name in names)
        if growth > self.room:
            if self.room:
                message = f"with its variables filled in, `{path}` is larger than 4 MiB"
                self.report.problem("spec/too-large", node, path, message)
            self.room = 0
            return written
        self.room -= growth
        return VARIABLE.sub(lambda match: self.value(match, node, path), written)

    def value(self, match: re.Match[str], node: Node, path: str) -> str:
        name = match[1] or match[2]
        value = self.envs.get(name)
        if value is not None:
            return value
        if name not in self.told and len(self.told) < MOST_PROBLEMS:
            self.told.add(name)
            if name in self.secrets:
                message = f"`{match[0]}` is a secret, and secrets aren't filled into `{path}`"
                self.report.notice("spec/unfilled-secret", node, path, message)
            else:
                message = f"`{match[0]}` stays as it is: the task has no variable of this name"
                remedy = did_you_mean(name, self.envs, cutoff=0.7)
                self.report.notice("spec/unfilled", node, path, message, remedy)
        return match[0]
