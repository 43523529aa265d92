"""Reads the variables of an image out of the shell script in which apptainer leaves them.

The script holds what an image's author wrote, so it is never run. It is taken back to what was
quoted, or refused: no variable is guessed, and none is left out. Versions quote in two ways, and
only a few scripts mean something in both.
"""

from __future__ import annotations

import os
import re
from typing import Optional

from .errands import ErrandError

SCRIPT = ".singularity.d/env/10-docker2singularity.sh"

_FIRST_LINE = "#!/bin/sh\n"
_QUOTED = r'(?:[^"\\]|\\.)*'
_ENTRY = re.compile(
    r'export (?P<name>[^\s="$]+)='
    rf'(?:(?P<outer>"?)\$\{{(?P=name):-(?:"(?P<default>{_QUOTED})")?\}}(?P=outer)'
    rf'|"(?P<plain>{_QUOTED})")\n',
    re.DOTALL,
)
_SHELL = re.compile(r'[^"\\$`]|\\(["\\$`])', re.DOTALL)
_GO = re.compile(
    r'[^"\\\n]|\\(?:x(?P<byte>(?!00)[0-9a-f]{2})|u(?P<short>(?!d[89a-f])[0-9a-f]{4})'
    r'|U(?P<long>00(?:0[0-9a-f]|10)[0-9a-f]{4})|(?P<letter>[abfnrtv"\\]))'
)
_LETTERS = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\'))
_SHOWN = 60


def read_env(files: str) -> dict[str, str]:
    """The variables that the image sets whose files apptainer has written. Raises ErrandError."""
    try:
        with open(os.path.join(files, SCRIPT), "rb") as file:
            text = file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ErrandError(
            f"apptainer left no variables of the image in `{SCRIPT}`: {error.strerror}"
        ) from error
    return parse_env(text)


def parse_env(text: str) -> dict[str, str]:
    """The variables in such a script. Raises ErrandError."""
    quoted = _entries(text)
    read = [{name: way(body) for name, body in quoted.items()} for way in (_of_shell, _of_both)]
    complete = [env for env in read if None not in env.values()]
    if not complete or complete[0] != complete[-1]:
        of_shell, of_both = read
        name = next(
            name for name in quoted if of_shell[name] is None or of_shell[name] != of_both[name]
        )
        how = (
            "means one thing in one version of it and another in others"
            if complete
            else "can't be read"
        )
        raise _unreadable(f"{name}={quoted[name]}", how)
    return {name: value for name, value in complete[0].items() if value is not None}


def _entries(text: str) -> dict[str, str]:
    """What stands between the quotes of each variable."""
    if not text.startswith(_FIRST_LINE):
        raise _unreadable(text)
    quoted, at = {}, len(_FIRST_LINE)
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None or "\0" in entry[0]:
            raise _unreadable(text[at:])
        quoted[entry["name"]] = entry["plain"] or entry["default"] or ""
        at = entry.end()
    return quoted


def _unreadable(text: str, how: str = "can't be read") -> ErrandError:
    line = text.partition("\n")[0]
    shown = line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
    return ErrandError(f"what apptainer wrote of the image's variables {how}: {shown!r}")


def _of_shell(quoted: Optional[str]) -> Optional[str]:
    """What a shell takes text between double quotes for, where nothing is left to expand.

    So apptainer quotes since 1.5, as Singularity did before 3.1.
    """
    if quoted is None or not _is_all(_SHELL, quoted):
        return None
    return _SHELL.sub(lambda one: one[1] or one[0], quoted)


def _of_both(quoted: str) -> Optional[str]:
    """The same, quoted once more as a string of Go; so do all versions between these."""
    return _of_shell(_of_go(quoted))


def _of_go(quoted: str) -> Optional[str]:
    """What a string of Go stands for."""
    return _GO.sub(_character, quoted) if _is_all(_GO, quoted) else None


def _is_all(part: re.Pattern[str], text: str) -> bool:
    return part.sub("", text) == ""


def _character(one: re.Match[str]) -> str:
    if one["letter"]:
        return _LETTERS[one["letter"]]
    if one["byte"]:
        return bytes.fromhex(one["byte"]).decode("utf-8", "surrogateescape")
    code = one["short"] or one["long"]
    return chr(int(code, 16)) if code else one[0]
