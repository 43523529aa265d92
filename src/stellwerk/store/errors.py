"""Says in words why the store can't do what was asked.

The database's and the disk's own errors are told apart here and nowhere else. Codes are interface:

    store/network-file-system  the state would lie where locks and durability can't be trusted
    store/permission           the folder or a file in it can't be written by this user
    store/place                the path isn't one that can hold a folder or a file
    store/full                 no room; writes work again as soon as there is
    store/locked               another program holds the database for longer than we wait
    store/damaged              the database's contents are broken
    store/gone                 the database of a state that was in use is empty or missing, or some
                               other part of it is
    store/newer                a newer Stellwerk has written this state
    store/io                   the disk answered with an error
    store/no-wal               the file system can't carry a write-ahead log
    store/closed               the store was closed before
    store/fenced               another engine leads, or the records don't continue the journal
    store/unknown-shape        a reason of waiting names a shape that was never stored
    store/ambiguous            several workloads begin like this
    store/bad-hash             not the name of a blob
    store/no-blob              there is no such blob
    store/blob-damaged         a blob isn't what its name says
    store/no-key               sealed secrets, and the key that opens them is gone
    store/sealed               a secret was sealed with another key
"""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from stellwerk.core.model.errors import Problem, StellwerkError

FULL_BELOW_BYTES = 1 << 20
"""With less room than this, an I/O error is put down to the lack of room."""

PASSING = ("store/full", "store/io", "store/locked")
"""Refusals that can be waited out; after any other, an engine must not go on."""

_FULL_ERRNO = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED_ERRNO = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_TEXT = "Could not decode to UTF-8"
_PLACE_ERRNO = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)


class StoreError(StellwerkError):
    """What the store refuses or can't do; the first problem's parts are at hand."""

    @property
    def code(self) -> str:
        """The code that programs compare."""
        return self.problems[0].code

    @property
    def message(self) -> str:
        """What happened."""
        return self.problems[0].message

    @property
    def help(self) -> str:
        """What to do about it."""
        return self.problems[0].help


def refusal(code: str, message: str, help: str = "") -> StoreError:
    """Makes the common error of one problem."""
    return StoreError([Problem(code, message, help)])


@contextmanager
def said_in_words(place: str) -> Iterator[None]:
    """Turns an error of the disk into a StoreError."""
    try:
        yield
    except OSError as error:
        raise from_os(error, place) from error


def full(place: str) -> StoreError:
    """There is no room left on the disk of ``place``."""
    return refusal(
        "store/full",
        f"no room left on the disk of {place}; nothing of this request was stored",
        "free some room (`stw gc --dry-run` shows what Stellwerk itself could give back); "
        "writes work again as soon as there is room",
    )


def damaged(place: str, detail: str) -> StoreError:
    """The database's contents are broken."""
    return refusal(
        "store/damaged",
        f"the database {place} is damaged ({detail})",
        f"stop the server, keep a copy of {place}* and restore a backup, or rebuild what can be "
        f"read with `sqlite3 {place} .recover | sqlite3 NEW`; running jobs aren't touched",
    )


def denied(place: str, detail: str) -> StoreError:
    """This user may not read or write there."""
    return refusal(
        "store/permission",
        f"can't use {place}: {detail}",
        "make the folder and its files yours (chown, chmod u+rwX), or choose another place with "
        "STELLWERK_HOME",
    )


def from_os(error: OSError, place: str) -> StoreError:
    """Tells an error of the operating system on ``place`` in words."""
    if error.errno in _FULL_ERRNO:
        return full(place)
    if error.errno in _DENIED_ERRNO:
        return denied(place, os.strerror(error.errno))
    if error.errno in _PLACE_ERRNO:
        return refusal(
            "store/place",
            f"can't keep state at {place}: {error.strerror}",
            "choose another place: export STELLWERK_HOME=/var/tmp/stellwerk-$USER",
        )
    if error.errno == errno.ENOENT:
        return refusal(
            "store/gone",
            f"{place} isn't there any more, or a part of it",
            "see who removed it; put a backup of the state back, and start the server again",
        )
    return _io(place, error.strerror or str(error))


def from_database(error: Exception, place: str) -> Exception:
    """Tells a database error in words; what isn't one (a mistake in the code) is left as it is."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, OSError):
        return from_os(cause, place)
    if isinstance(cause, msgspec.DecodeError | UnicodeDecodeError) or (
        isinstance(cause, sqlite3.OperationalError) and str(cause).startswith(_NO_TEXT)
    ):
        return damaged(place, f"a row can't be read: {cause!s:.120}")
    if not isinstance(cause, sqlite3.Error):
        return error
    primary = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    match primary:
        case sqlite3.SQLITE_FULL:
            return full(place)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return _locked(place)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(place, str(cause))
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return denied(place, str(cause))
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return _failed_access(place, primary, str(cause))
    return error


def _failed_access(place: str, primary: int, detail: str) -> StoreError:
    """An access failed: for lack of room, of rights, or because the disk says so."""
    folder = os.path.dirname(place) or "."
    if free_bytes(folder) < FULL_BELOW_BYTES:
        return full(place)
    if primary == sqlite3.SQLITE_CANTOPEN:
        return denied(place, detail)
    return _io(place, detail)


def free_bytes(folder: str) -> int:
    """Room on the file system of ``folder`` that this user may take."""
    try:
        stat = os.statvfs(folder)
    except OSError:
        return 1 << 62
    return stat.f_bavail * stat.f_frsize


def _locked(place: str) -> StoreError:
    return refusal(
        "store/locked",
        f"another program holds the database {place}",
        f"see who does with `fuser {place}`, and end that program or wait for it; then try again",
    )


def _io(place: str, detail: str) -> StoreError:
    return refusal(
        "store/io",
        f"the disk answered with an error on {place} ({detail})",
        "look into the system's log for errors of this disk; choose another place with "
        "STELLWERK_HOME if it is failing",
    )
