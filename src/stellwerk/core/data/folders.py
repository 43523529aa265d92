"""Decides how much of a data set lies in a plain directory, by its manifest: path, size, hash.

A file counts when it has the size and, where both are known, the hash of the manifest; its content
also counts where it lies under another path. A file that was never hashed counts by path and size,
and that is said.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from stellwerk.core.data.found import Found
from stellwerk.core.data.units import show_data
from stellwerk.core.model.cluster import Held
from stellwerk.core.model.errors import Notice, Problem
from stellwerk.core.model.fleet import Data

FORM = "write lines of `size<TAB>hash<TAB>path`; leave the hash empty where it isn't known"
HASHED = "sha256:"
"""How a hash begins that was made here of all files of a data set."""


class File(Struct, frozen=True, omit_defaults=True):
    """One file: its path inside the data set, with slashes, its bytes, its hash ("" = unknown)."""

    path: str
    bytes: int
    hash: str = ""


class Manifest(Struct, frozen=True):
    """The files of a data set, or those found in a directory; with all lines that can't be read."""

    files: tuple[File, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files)


class FolderState(Struct, frozen=True):
    """A directory against a manifest: bytes that are there, and paths that are not as they should.

    ``unproved_bytes`` of the held ones were never hashed.
    """

    held_bytes: int
    missing_bytes: int
    unproved_bytes: int
    missing: tuple[str, ...]
    changed: tuple[str, ...]


def read_manifest(text: str, file: str = "") -> Manifest:
    """Reads a manifest; every line that can't be read is a problem with its place."""
    files: dict[str, File] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        size, _, rest = line.partition("\t")
        digest, tab, path = rest.partition("\t")
        if not tab or not path or not (size.isascii() and size.isdigit()):
            problems.append(_problem(f"`{line[:60]}` is no line of a manifest", file, number))
        elif path.startswith("/") or ".." in path.split("/"):
            problems.append(_problem(f"`{path[:60]}` leads out of the data set", file, number))
        elif path in files:
            problems.append(_problem(f"`{path[:60]}` stands there twice", file, number))
        else:
            files[path] = File(path, int(size), digest)
    return Manifest(tuple(files.values()), tuple(problems))


def write_manifest(files: Iterable[File]) -> str:
    """The text that reads back as these files, in the order of their paths."""
    ordered = sorted(files, key=_path)
    return "".join(f"{file.bytes}\t{file.hash}\t{file.path}\n" for file in ordered)


def content_of(files: Sequence[File]) -> str:
    """The hash that stands for exactly these files; "" while any of them was never hashed."""
    if not files or not all(file.hash for file in files):
        return ""
    listed = [(file.path, file.bytes, file.hash) for file in sorted(files, key=_path)]
    return HASHED + hashlib.sha256(msgspec.json.encode(listed)).hexdigest()


def compare(manifest: Sequence[File], there: Sequence[File]) -> FolderState:
    """What of a manifest lies in a directory."""
    by_path = {file.path: file for file in there}
    by_content = {(file.hash, file.bytes) for file in there if file.hash}
    held = unproved = 0
    missing, changed = [], []
    for file in sorted(manifest, key=lambda one: one.path):
        found = by_path.get(file.path)
        proved = bool(file.hash) and (file.hash, file.bytes) in by_content
        if proved or (found is not None and _fits(found, file)):
            held += file.bytes
            unproved += 0 if proved else file.bytes
        elif found is None:
            missing.append(file.path)
        else:
            changed.append(file.path)
    total = sum(file.bytes for file in manifest)
    return FolderState(held, total - held, unproved, tuple(missing), tuple(changed))


def held_in_folder(
    data: Data,
    manifest: Sequence[File],
    there: Sequence[File],
    *,
    observed_ms: int = 0,
    cluster: str = "",
) -> Found:
    """What a directory holds of a data set whose files the manifest names."""
    state = compare(manifest, there)
    whole = not state.missing_bytes and not state.unproved_bytes
    held = Held(
        data=data.name,
        revision=data.revision,
        bytes=state.held_bytes,
        observed_ms=observed_ms,
        source="manifest",
        content=content_of(manifest) if whole and data.content.startswith(HASHED) else "",
    )
    return Found((held,), tuple(_notices(cluster or "there", data, state)))


def _notices(where: str, data: Data, state: FolderState) -> Iterator[Notice]:
    if state.changed:
        first, count = state.changed[0], len(state.changed)
        more = f" and {count - 1} more" if count > 1 else ""
        yield Notice(
            "data/changed",
            f"{where}: `{first}`{more} of {data.name} isn't what the manifest says",
            "it is fetched again; if it was changed on purpose, give it a revision of its own",
        )
    if state.unproved_bytes:
        yield Notice(
            "data/not-hashed",
            f"{where}: {show_data(state.unproved_bytes)} of {data.name} are known by path and size "
            "only",
            "hash them once to be sure",
        )


def _path(file: File) -> str:
    return file.path


def _fits(found: File, wanted: File) -> bool:
    same_hash = not found.hash or not wanted.hash or found.hash == wanted.hash
    return found.bytes == wanted.bytes and same_hash


def _problem(message: str, file: str, line: int) -> Problem:
    return Problem("data/manifest", message, FORM, file, line)
