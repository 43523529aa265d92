"""Removes trees that a job has made, whatever it did to them.

They may be deeper than calls can be and paths may be long, and closed to their own owner. So every
folder that is found is moved up into the first one, and emptied there in its turn.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Optional

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED = ".stellwerk-removes"


def remove_tree(path: str) -> bool:
    """Remove a file, or a folder with all that is in it; False if something of it is left."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return True
        top = _open_folder(path)
        try:
            _empty_all(top)
        finally:
            os.close(top)
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _empty_all(top: int) -> None:
    """Empty a folder, then one by one those that were found in it, and lie in it now."""
    waiting = _empty(top, top, 0)
    moved = 0
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):  # something keeps it, as a mount would: it stays
            folder = _open_folder(name, top)
            try:
                found = _empty(folder, top, moved)
            finally:
                os.close(folder)
            waiting += found
            moved += len(found)
            os.rmdir(name, dir_fd=top)


def _empty(folder: int, top: int, moved: int) -> list[str]:
    """Unlink what is in a folder, and move the folders in it into the top one; their names."""
    folders: list[str] = []
    with os.scandir(folder) as listing:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_folder in entries:
        with contextlib.suppress(OSError):  # it has gone already, or something keeps it
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif folder == top:
                folders.append(name)
            else:
                new = f"{_MOVED}.{os.getpid()}.{moved + len(folders)}"
                _move(name, folder, new, top)
                folders.append(new)
    return folders


def _move(name: str, folder: int, new: str, top: int) -> None:
    try:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    except PermissionError:
        # A folder that may not be written to can't change the one it is in.
        os.chmod(name, stat.S_IRWXU, dir_fd=folder)
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)


def _open_folder(name: str, within: Optional[int] = None) -> int:
    """Open a folder so that its content can be unlinked."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=within)
    except PermissionError:
        os.chmod(name, stat.S_IRWXU, dir_fd=within)
        folder = os.open(name, _FOLDER, dir_fd=within)
    if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):  # then its content stays, and it with it
            os.fchmod(folder, stat.S_IRWXU)
    return folder
