"""Finds the hosts that an SSH configuration names, by a pattern, also in the files it includes."""

import glob
import os
import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

DEEPEST = 16
_LINE = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")


def hosts_like(pattern: str, config: str = "~/.ssh/config") -> list[str]:
    """Names of `Host` lines that fit a pattern, in their order; patterns among them are left out.

    Raises OSError where the configuration can't be read.
    """
    with open(os.path.expanduser(config), encoding="utf-8", errors="replace") as file:
        text = file.read()
    folder = os.path.dirname(os.path.expanduser(config))
    names = dict.fromkeys(_names(text, folder, 0))
    return [name for name in names if fnmatchcase(name, pattern)]


def _names(text: str, folder: str, depth: int) -> Iterator[str]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        keyword, rest = found[1].lower(), found[2]
        if keyword == "host":
            yield from (one for one in _words(rest) if not set(one) & set("*?!"))
        elif keyword == "include" and depth < DEEPEST:
            for one in _words(rest):
                for path in sorted(glob.glob(os.path.join(folder, os.path.expanduser(one)))):
                    yield from _names(_read(path), folder, depth + 1)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
