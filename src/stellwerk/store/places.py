"""Decides where state may lie: on a local file system, and nowhere else.

Locks and durability of a database can't be trusted on a network file system, and homes on one are
the rule in many labs; so this is found out by the mount table before anything is created.
"""

import os
import re

from stellwerk.store.errors import StoreError, refusal

NETWORK_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smbfs", "smb2", "smb3", "afs", "ceph", "lustre", "gpfs", "beegfs",
    "beegfs_nodev", "glusterfs", "ocfs2", "gfs2", "orangefs", "pvfs2", "coda", "ncpfs", "panfs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone",
    "fuse.gcsfuse", "fuse.goofys", "fuse.davfs2", "davfs", "fuse.juicefs", "fuse.mount-s3",
})  # fmt: skip
"""File system types whose files live on another machine, as the mount table names them."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system_of(path: str, mounts: str) -> tuple[str, str]:
    """Finds the (type, mount point) of an absolute, resolved ``path`` in the text of a mount table.

    The longest mount point that holds the path counts; of two on the same point, the later one.
    Gives ``("", "")`` if the table has none.
    """
    best = ("", "")
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[1]):
            best = (fields[2], point)
    return best


def network_problem(path: str, mounts: str) -> StoreError | None:
    """Says why state may not lie at ``path``, if it is on a network file system."""
    kind, point = file_system_of(path, mounts)
    if kind not in NETWORK_TYPES:
        return None
    return refusal(
        "store/network-file-system",
        f"{path} is on a network file system ({kind}, mounted on {point}), where locks and "
        "durability can't be trusted",
        "choose a folder on a local disk: export STELLWERK_HOME=/var/tmp/stellwerk-$USER",
    )


def check_place(path: str) -> None:
    """Raises StoreError if ``path`` (which need not exist yet) is on a network file system."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as table:
            mounts = table.read()
    except OSError:
        return  # without a mount table there is nothing to go by
    problem = network_problem(os.path.realpath(path), mounts)
    if problem is not None:
        raise problem
