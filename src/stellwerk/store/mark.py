"""Remembers beside the database that there is one, so that its loss isn't taken for a beginning.

A database that was removed, emptied, or that lost its log would otherwise be made anew, and all
that was acknowledged would be gone without a word.
"""

import os
from pathlib import Path

from stellwerk.store.disk import flush_folder
from stellwerk.store.errors import StoreError, refusal

NAME = "store.used"


def is_there(home: Path) -> bool:
    """Whether a database was once committed here."""
    return (home / NAME).exists()


def put(home: Path) -> None:
    """Notes durably that a database is here. Raises OSError."""
    if not is_there(home):
        (home / NAME).touch(mode=0o600)
        flush_folder(home)


def size_of(path: str) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def identity_of(path: str) -> tuple[int, int] | None:
    """Tells a file from another that has taken its name; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def gone(home: Path, path: str) -> StoreError:
    """The database isn't there any more, or holds nothing."""
    return refusal(
        "store/gone",
        f"the database {path} is empty or missing, but this state has been in use",
        "stop the server and put a backup of it back, with its -wal file if there is one; to begin "
        f"anew without what it held, move {home} away",
    )
