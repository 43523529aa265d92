"""Reads snapshots: manifests of content in the blob store, and what a directory is made of.

Several of them may go into one directory, each at a place of its own, where later ones replace
files of earlier ones; content that would lie below a link or a file is refused.
"""

from collections.abc import Iterator, Sequence
from os.path import dirname
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.base import DriverError

MANIFEST_VERSION = 1


class BlobReader(Protocol):
    """Where content is found by its hash: a blob store, of which only this is needed here."""

    def path(self, name: str, /) -> Path:
        """The file of a hash, there or not; raises StellwerkError for what is no hash."""
        ...


class Entry(msgspec.Struct, frozen=True):
    """One file, link or directory: ``hash`` with ``mode`` and ``size``, ``link``, or ``dir``."""

    path: str
    mode: int | None = None
    size: int = 0
    hash: str = ""
    link: str = ""
    dir: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """All of a directory; or, where it is ``single``, the one file that stands for itself."""

    v: int
    files: tuple[Entry, ...]
    single: bool = False


class Part(NamedTuple):
    """A snapshot, and where in a directory its content goes: "" for all of it."""

    place: str
    snapshot: str


def read_manifest(snapshot: str, blobs: BlobReader) -> Manifest:
    """Reads and checks the manifest of a snapshot; raises DriverError if it can't be used."""
    try:
        manifest = msgspec.json.decode(blobs.path(snapshot).read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        message = f"snapshot {snapshot[:12]} isn't in the blob store"
        raise refusal("snapshot/missing", message) from error
    except StellwerkError as error:
        raise refusal("snapshot/missing", error.problems[0].message) from error
    except OSError as error:
        message = f"snapshot {snapshot[:12]} can't be read: {error.strerror}"
        raise refusal("snapshot/missing", message) from error
    except msgspec.DecodeError as error:
        message = f"snapshot {snapshot[:12]} is no manifest: {error}"
        raise refusal("snapshot/damaged", message) from error
    if manifest.v != MANIFEST_VERSION:
        message = (
            f"snapshot {snapshot[:12]} has version {manifest.v}; this reads {MANIFEST_VERSION}"
        )
        raise refusal("snapshot/version", message)
    bad = [entry.path for entry in manifest.files if not _is_inside(entry.path)]
    if bad:
        message = f"snapshot {snapshot[:12]} leads out of the work directory: {bad[0]!r}"
        raise refusal("snapshot/outside", message)
    return manifest


def together(parts: Sequence[Part], blobs: BlobReader, *, single: bool) -> list[Entry]:
    """The entries of all parts, each at its place; the files of the first part come first.

    ``single``: a snapshot may be one file, which stands for itself. Raises DriverError.
    """
    found: dict[str, Entry] = {}
    for part in parts:
        manifest = read_manifest(part.snapshot, blobs)
        if not part.place and manifest.single and not single:
            raise refusal("snapshot/file", "a file can't be the work directory")
        for entry in manifest.files:
            stands_for_itself = manifest.single and part.place
            path = part.place if stands_for_itself else f"{part.place}/{entry.path}".lstrip("/")
            found[path] = replace(entry, path=path)
        if part.place and not manifest.files:
            found[part.place] = Entry(part.place, dir=True)
    solid = {path for path, entry in found.items() if not entry.dir}
    for path in found:
        above = next((parent for parent in _parents(path) if parent in solid), "")
        if above:
            message = f"`{path}` can't be made: `{above}` of the work directory is no folder"
            raise refusal("snapshot/in-the-way", message)
    return list(found.values())


def _parents(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and all(part not in {"", ".", ".."} for part in parts)


def refusal(code: str, message: str) -> DriverError:
    """Says that a directory can't be made, whatever is tried."""
    return DriverError(code, message, final=True)
