"""Gives a process a view of the file system of its own, without being root.

A mount namespace needs rights; where this user has none, a user namespace gives them, in which the
user is mapped to themselves and to nobody else. Mounts made inside are seen by nobody outside, and
end with the last process inside. Everything here raises OSError with what the kernel said.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Optional

_NEW_MOUNTS = 0x00020000
_NEW_USER = 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _MOVE, _RECURSIVE, _SLAVE = 1 << 5, 1 << 12, 1 << 13, 1 << 14, 1 << 19
_NO_ATIME, _NO_DIR_ATIME, _RELATIVE_ATIME = 1 << 10, 1 << 11, 1 << 21
_KEPT_FLAGS = (
    (os.ST_NOSUID, _NO_SUID),
    (os.ST_NODEV, _NO_DEV),
    (os.ST_NOEXEC, _NO_EXEC),
    (os.ST_NOATIME, _NO_ATIME),
    (os.ST_NODIRATIME, _NO_DIR_ATIME),
    (os.ST_RELATIME, _RELATIVE_ATIME),
)
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "riscv64": 41, "s390x": 217}
PRETEND_NONE = "STELLWERK_NO_NAMESPACES"
"""A variable of the agent: with it, this machine counts as one that allows none."""


def _load_libc() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None


def _call(name: str, *arguments: Any) -> None:
    """A call of the C library; raises OSError with its error number."""
    libc = _load_libc()
    if libc is None:
        raise OSError(errno.ENOSYS, "this Python can't call the C library")
    import ctypes

    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def enter(*, as_root: bool = False) -> bool:
    """Gives this process, which must have one thread, a mount namespace of its own.

    What is mounted outside later on still appears inside. True if it took a user namespace; with
    `as_root` the user seems to be root in that one.
    """
    if os.environ.get(PRETEND_NONE):
        raise OSError(errno.EPERM, f"{PRETEND_NONE} is set")
    uid, gid = os.geteuid(), os.getegid()
    takes_user = False
    try:
        _call("unshare", _NEW_MOUNTS)
    except PermissionError:
        takes_user = True
        _call("unshare", _NEW_MOUNTS | _NEW_USER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{0 if as_root else uid} {uid} 1")
        _write("/proc/self/gid_map", f"{0 if as_root else gid} {gid} 1")
    _mount(None, "/", None, _RECURSIVE | _SLAVE)
    return takes_user


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _mount(
    source: Optional[str], target: str, kind: Optional[str], flags: int, options: str = ""
) -> None:
    import ctypes

    _call(
        "mount",
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode() or None,
    )


def bind(source: str, target: str) -> None:
    """Shows a folder or file, with all that is mounted in it, at another place that exists."""
    _mount(source, target, None, _BIND | _RECURSIVE)


def make_read_only(target: str) -> None:
    """Takes away the right to write at a place that was bound."""
    found = os.statvfs(target).f_flag
    # What is in force already may be locked: a remount that leaves it out would be refused.
    kept = sum(flag for seen, flag in _KEPT_FLAGS if found & seen)
    _mount(None, target, None, _REMOUNT | _BIND | _READ_ONLY | kept)


def mount_memory(target: str, *, mode: int, size_bytes: int) -> None:
    """Mounts an empty folder that is kept in memory only."""
    options = f"mode={mode:o},size={size_bytes}"
    _mount("stellwerk", target, "tmpfs", _NO_SUID | _NO_DEV, options)


def mount_layer(lower: str, upper: str, scratch: str, target: str, *, as_user: bool) -> None:
    """Shows a folder at another place, where changes go to a third one and not into it."""
    options = f"lowerdir={lower},upperdir={upper},workdir={scratch}"
    _mount("stellwerk", target, "overlay", 0, options + (",userxattr" if as_user else ""))


def move(source: str, target: str) -> None:
    """Moves what is mounted at a place to another one."""
    _mount(source, target, None, _MOVE)


def change_root(new_root: str) -> None:
    """Makes what is mounted at a place the root of this namespace, and lets go of the old one."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"the root can't be changed on {os.uname().machine}")
    import ctypes

    os.chdir(new_root)
    # Old root and new one at the same place: the old one then lies above and is taken off.
    _call("syscall", ctypes.c_long(number), b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir("/")


def detach(target: str) -> None:
    """Takes away what is mounted at a place."""
    _call("umount2", os.fsencode(target), _DETACH)


def trouble() -> Optional[str]:
    """Why this machine gives this user no view of their own; None if it does.

    It is tried out in a process that ends: some systems allow the namespace and refuse each mount.
    """
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        _try_out(heard, told)
    os.close(told)
    with open(heard, encoding="utf-8", errors="replace") as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return None if said == "fine" else said or "the attempt ended without a word"


def _try_out(heard: int, told: int) -> None:
    """The child's side: never returns."""
    answer = "fine"
    try:
        os.close(heard)
        enter()
        mount_memory("/", mode=0o700, size_bytes=4096)
    except OSError as error:
        answer = f"{error.strerror} (error {error.errno})"
    finally:
        os.write(told, answer.encode())
        os._exit(0)
