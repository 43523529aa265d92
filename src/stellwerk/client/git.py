"""Asks git which commit a directory is at, what differs from it, and which files it tracks.

Without git, without a repository or without a commit there is simply less to record.
"""

import os
from typing import NamedTuple

from stellwerk.client.ignores import repository_of

LIMIT_S = 20
LARGEST_DIFF = 8 * 2**20


class Revision(NamedTuple):
    """Where a directory's code comes from; `diff` is git's patch against the commit."""

    commit: str = ""
    dirty: bool = False
    diff: bytes = b""
    tracked: tuple[str, ...] = ()


def revision_of(folder: str) -> Revision:
    """The revision of a directory. A patch of more than 8 MiB isn't kept; `dirty` still says so."""
    if repository_of(folder) is None:
        return Revision()
    tracked = _git(folder, "ls-files", "-z", "--recurse-submodules")
    if tracked is None:
        tracked = _git(folder, "ls-files", "-z")
    if tracked is None:
        return Revision()
    paths = tuple(os.fsdecode(path) for path in tracked.split(b"\0") if path)
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if not commit:
        return Revision(dirty=bool(paths), tracked=paths)
    status = _git(folder, "status", "--porcelain", "-z", "--", ".") or b""
    diff = b""
    if status:
        diff = _git(folder, "diff", "--binary", "--no-ext-diff", "HEAD", "--", ".") or b""
        diff = b"" if len(diff) > LARGEST_DIFF else diff
    return Revision(commit.decode().strip(), bool(status), diff, paths)


def _git(folder: str, *arguments: str) -> bytes | None:
    import subprocess

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
