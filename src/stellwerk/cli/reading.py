"""Reads what a person names as a file: text in UTF-8, or standard input."""

import sys

from stellwerk.cli.errors import usage

STDIN = "-"


def text_of(name: str) -> str:
    """The text of a file, of standard input for `-`. Raises a usage error in words."""
    try:
        if name == STDIN:
            return sys.stdin.read()
        with open(name, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise usage("usage/file", f"{name} isn't text in UTF-8") from error
    except OSError as error:
        raise usage("usage/file", f"{name} can't be read: {error.strerror}") from error
