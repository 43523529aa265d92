"""Decides which of a log's last lines tell why a job failed, where a launcher has the last word.

When one worker fails, torchrun prints how it was started and a table, some fifty lines, and what
the worker itself has said is out of sight. Of the table the part that names the first failure is
kept; workers that failed because of it, which torch marks with their rank, are left out.
"""

from __future__ import annotations

import re
from typing import Optional

_NOTE = re.compile(r"[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S*torch/(?:distributed|multiprocessing)/")
_FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = "Root Cause (first observed failure):"
_KEPT_OF_IT = re.compile(r"\s+(?:host|rank|exitcode)\s+: ")
_RANK = re.compile(r"\s+rank\s+: (\d+) ")
_MARK = re.compile(r"\[rank(\d+)\]: ?")


def telling_lines(lines: list[str]) -> list[str]:
    """The lines without what a launcher added; all of them where nothing else would be left."""
    end = next((i for i, line in enumerate(lines) if line.startswith(_FAILED)), None)
    if end is None:
        return lines
    start = max((i for i in range(end) if lines[i] == _TRACEBACK), default=end)
    rules = [i for i in range(end, len(lines)) if lines[i] and not lines[i].strip("=")]
    after = rules[1] + 1 if len(rules) > 1 else len(lines)
    cause = _cause(lines[end:after])
    first = next((found[1] for line in cause if (found := _RANK.match(line))), None)
    said = [line for line in lines[:start] if not _NOTE.match(line) and _is_of(line, first)]
    if not said:
        return lines
    return [*said, *cause, *lines[after:]]


def _cause(table: list[str]) -> list[str]:
    if _CAUSE not in table:
        return []
    rows = table[table.index(_CAUSE) + 1 :]
    return [_CAUSE, *(row for row in rows if _KEPT_OF_IT.match(row))]


def _is_of(line: str, rank: Optional[str]) -> bool:
    """Whether a line is that rank's, or nobody knows whose."""
    mark = _MARK.match(line)
    return mark is None or rank is None or mark[1] == rank
