"""Asks the kernel for what Python has no call for, and reads clocks and identities in one place.

Everything here degrades: a Python without ctypes or a kernel without pidfds gives a False or None
and the callers have a slower way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import stat
import struct
import time
from typing import Any, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb smb2 smb3 smbfs ncpfs afs ceph lustre gpfs beegfs glusterfs panfs orangefs "
    "9p virtiofs fuse.sshfs fuse.glusterfs fuse.ceph fuse.rclone fuse.s3fs fuse.gcsfuse".split()
)


def _load_libc() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None


_libc = _load_libc()


def _prctl(option: int, value: int) -> bool:
    return _libc is not None and _libc.prctl(option, value, 0, 0, 0) == 0


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process; True if the kernel agreed."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Have the kernel send SIGKILL to this process when its parent ends."""
    return _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def close_descriptors(*kept: int) -> None:
    """Close everything but standard input and output and the descriptors named."""
    try:
        opened = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        # None is free for the listing itself.
        opened = list(range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for descriptor in opened:
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                # The descriptor of the listing itself has gone already.
                continue


def open_pidfd(pid: int) -> Optional[int]:
    """A descriptor that becomes readable when `pid` ends, or None where the kernel has none.

    Raises ProcessLookupError if there is no such process.
    """
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        descriptor: int = opener(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
    return descriptor


def now_ms() -> int:
    """Wall time, milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds since boot, counting suspension: what windows and limits are measured with."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boot_id() -> str:
    """Identity of this boot of the machine."""
    return _first_line("/proc/sys/kernel/random/boot_id") or "unknown"


def machine_id() -> Optional[str]:
    """Identity of this installation, or None where nothing gives one."""
    return _first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id") or None


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket, as the kernel knows it."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", raw)
    return int(uid)


def user_name(uid: int) -> str:
    """Login name of `uid`, or its number where no data base knows it."""
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def make_own(folder: str) -> None:
    """Makes a folder of this user's alone where everybody may make some, as in `/var/tmp`.

    Raises PermissionError where somebody else has made it, who could change what lies in it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", folder)
    os.chmod(folder, 0o700)


def file_system_type(path: str) -> str:
    """Type of the file system that holds `path` (the longest mount point above it)."""
    real = os.path.realpath(path)
    best, kind = "", "unknown"
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ") for line in file]
    except OSError:
        return kind
    for row in rows:
        if len(row) < 3:
            continue
        point = _unescape_mount(row[1])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, row[2]
    return kind


def _unescape_mount(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point


def is_network_file_system(kind: str) -> bool:
    """Whether locks and renames on this type of file system may be shared with other machines."""
    return kind in _NETWORK_FILE_SYSTEMS


def memory_sizes() -> dict[str, int]:
    """What the kernel tells of the machine's memory, by its names, in bytes."""
    sizes = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                sizes[name] = int(rest.split()[0]) * 1024
    except OSError:
        return {}
    return sizes


def exit_code(status: int) -> int:
    """What a shell would call the end of a process: 128 + n after signal n."""
    return status if status >= 0 else 128 - status
