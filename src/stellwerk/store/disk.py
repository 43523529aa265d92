"""Folders that are there for good: made for one user alone, and flushed to the disk."""

import os
from pathlib import Path

from stellwerk.store.errors import from_os


def flush_folder(folder: Path) -> None:
    """Makes durable which names a folder holds."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_home(home: Path) -> None:
    """Makes the state folder, if it isn't there; raises StoreError if it can't be."""
    try:
        if not home.is_dir():
            os.makedirs(home, mode=0o700, exist_ok=True)
            flush_folder(home.parent)
    except OSError as error:
        raise from_os(error, str(home)) from error
