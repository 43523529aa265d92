"""Hub caches as the hub's library leaves them, made by hand."""

import hashlib
import json
import os
from pathlib import Path

COMMIT = "c0ffee" * 6 + "0123"
OTHER = "deadbeef" * 5


def digest(content: bytes) -> str:
    """The name of a large file's content."""
    return hashlib.sha256(content).hexdigest()


def git_name(content: bytes) -> str:
    """The name of a small file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def make_repo(
    cache: Path,
    files: dict[str, bytes],
    *,
    name: str = "datasets--lab--words",
    commit: str = COMMIT,
    tree: bool = True,
    without: tuple[str, ...] = (),
    large: bool = True,
) -> Path:
    """A repository at one commit; ``without`` are files that its tree has and the snapshot not."""
    top = cache / name
    listed = {}
    for path, content in files.items():
        blob = digest(content) if large else git_name(content)
        listed[path] = {"size": len(content), "blob_id": git_name(content)}
        if large:
            listed[path] |= {"lfs_sha256": blob, "lfs_size": len(content)}
        if path in without:
            continue
        link = top / "snapshots" / commit / path
        link.parent.mkdir(parents=True, exist_ok=True)
        (top / "blobs").mkdir(exist_ok=True)
        (top / "blobs" / blob).write_bytes(content)
        link.symlink_to(os.path.relpath(top / "blobs" / blob, link.parent))
    (top / "refs").mkdir(parents=True, exist_ok=True)
    (top / "refs" / "main").write_text(commit)
    if tree:
        (top / "trees").mkdir(exist_ok=True)
        text = json.dumps({"format_version": 1, "files": listed})
        (top / "trees" / f"{commit}.json").write_text(text)
    return top
