"""Folders that are there for good: made for one user alone, and flushed to the disk."""

import ctypes
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


def flush_file_system(folder: Path) -> None:
    """Makes everything on the file system of a folder durable: one call for any number of files."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(handle)
