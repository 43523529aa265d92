"""Decides how much of a model or data set a Hugging Face hub cache holds, revision by revision.

A revision's tree (`trees/<commit>.json`) names all of its files, so what is missing is known to the
byte; content that another revision brought counts too. Partial files never count. A snapshot
without a tree holds what is in it and can't be proved complete. Whoever walks the directory
(resolving links, see `HubListing`) is a driver; this only reads.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from stellwerk.core.data.found import Found
from stellwerk.core.data.units import show_data
from stellwerk.core.model.cluster import Held
from stellwerk.core.model.errors import Notice
from stellwerk.core.model.fleet import Data

PARTIAL = ".incomplete"
TREE_VERSION = 1


class HubListing(Struct, frozen=True, omit_defaults=True):
    """What lies in one repository's folder of a hub cache (`hub/models--org--name`).

    ``refs``: branch or tag → commit. ``snapshots``: commit → path → bytes of the file that the link
    leads to, None where it leads nowhere. ``blobs``: name → bytes, partial ones with their ending.
    ``shared``: xet hash → bytes, of those in the cache's common `blobs/`. ``trees``: commit → text
    of its JSON file; trees from elsewhere may be added.
    """

    folder: str
    refs: dict[str, str] = {}
    snapshots: dict[str, dict[str, int | None]] = {}
    blobs: dict[str, int] = {}
    shared: dict[str, int] = {}
    trees: dict[str, str] = {}
    observed_ms: int = 0

    @property
    def repo(self) -> str:
        """`org/name`."""
        kind, dashes, name = self.folder.partition("--")
        return (name if dashes else kind).replace("--", "/")


class TreeFile(Struct, frozen=True):
    """A file as a tree tells it; large ones also say the size and hash of what is really stored."""

    size: int
    blob_id: str
    lfs_sha256: str | None = None
    lfs_size: int | None = None
    xet_hash: str | None = None

    @property
    def bytes(self) -> int:
        """Its real size."""
        return max(0, self.size if self.lfs_size is None else self.lfs_size)

    @property
    def content(self) -> str:
        """The hash under which its content is stored."""
        return self.lfs_sha256 or self.blob_id


class _Tree(Struct, frozen=True):
    files: dict[str, TreeFile]
    format_version: int = 0


class HubRevision(Struct, frozen=True, omit_defaults=True):
    """One revision in a cache. ``total_bytes`` None = no tree, so nobody can tell what is missing.

    Content that several paths share is counted once, as it is fetched and stored once.
    """

    commit: str
    held_bytes: int
    total_bytes: int | None = None
    missing: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    note: str = ""

    @property
    def missing_bytes(self) -> int | None:
        """What must still be fetched; None = can't be known here."""
        return None if self.total_bytes is None else self.total_bytes - self.held_bytes

    @property
    def proved(self) -> bool:
        """Whether it is complete for certain."""
        return self.total_bytes is not None and not self.missing


def revisions(listing: HubListing) -> tuple[HubRevision, ...]:
    """Every revision that the cache has a snapshot or a tree of, by commit."""
    commits = sorted({*listing.snapshots, *listing.trees})
    return tuple(_revision(listing, commit) for commit in commits)


def held_in_hub(listing: HubListing, wanted: Iterable[Data] = (), *, cluster: str = "") -> Found:
    """What the cache holds: each revision under the repository's name, and each wanted data set.

    A wanted data set is one of this repository, by name or as the end of its origin; its revision
    may be a commit or, here, a branch or tag, which stands for the commit that was fetched last.
    """
    found = revisions(listing)
    by_commit = {one.commit: one for one in found}
    held = [_held(listing, listing.repo, one.commit, one) for one in found if one.held_bytes]
    for data in wanted:
        one = by_commit.get(listing.refs.get(data.revision, data.revision))
        also_named_so = data.name == listing.repo and one and one.commit == data.revision
        if one and _is_meant(listing, data) and not also_named_so:
            held.append(_held(listing, data.name, data.revision, one))
    notices = tuple(_notices(listing, found, cluster or "there"))
    return Found(tuple(held), notices)


def read_tree(text: str) -> Mapping[str, TreeFile] | None:
    """The files of a tree by path; None where it can't be read, or is of a form not known here."""
    try:
        tree = msgspec.json.decode(text, type=_Tree)
    except msgspec.DecodeError:
        return None
    return tree.files if tree.format_version == TREE_VERSION else None


def _revision(listing: HubListing, commit: str) -> HubRevision:
    snapshot = listing.snapshots.get(commit, {})
    refs = tuple(sorted(name for name, at in listing.refs.items() if at == commit))
    text = listing.trees.get(commit)
    tree = None if text is None else read_tree(text)
    if tree is None:
        there = sum(size for size in snapshot.values() if size is not None)
        note = "it has no tree" if text is None else "its tree can't be read"
        return HubRevision(commit, there, refs=refs, note=note)
    sizes: dict[str, int] = {}
    held: dict[str, int] = {}
    missing = []
    for path, file in sorted(tree.items()):
        key = file.content or path
        sizes[key] = file.bytes
        if _is_there(listing, snapshot.get(path), file):
            held[key] = file.bytes
        else:
            missing.append(path)
    still = tuple(path for path in missing if (tree[path].content or path) not in held)
    return HubRevision(commit, sum(held.values()), sum(sizes.values()), still, refs)


def _is_there(listing: HubListing, in_snapshot: int | None, file: TreeFile) -> bool:
    return (
        in_snapshot == file.bytes
        or (bool(file.content) and listing.blobs.get(file.content) == file.bytes)
        or (bool(file.xet_hash) and listing.shared.get(file.xet_hash or "") == file.bytes)
    )


def _held(listing: HubListing, name: str, revision: str, one: HubRevision) -> Held:
    return Held(
        data=name,
        revision=revision,
        bytes=one.held_bytes,
        observed_ms=listing.observed_ms,
        source="hub cache",
    )


def _is_meant(listing: HubListing, data: Data) -> bool:
    return data.name == listing.repo or data.origin.removesuffix("/").endswith(f"/{listing.repo}")


def _notices(listing: HubListing, found: Iterable[HubRevision], where: str) -> Iterator[Notice]:
    for one in found:
        short = one.commit[:12]
        if one.total_bytes is None:
            yield Notice(
                "data/not-provable",
                f"{where}: {listing.repo} at {short} can't be proved complete: {one.note}",
                "`snapshot_download` of that revision writes one, and fetches only what is missing",
            )
        elif one.missing:
            more = f" and {len(one.missing) - 1} more" if len(one.missing) > 1 else ""
            yield Notice(
                "data/incomplete",
                f"{where}: {listing.repo} at {short} lacks {show_data(one.missing_bytes or 0)}: "
                f"`{one.missing[0]}`{more}",
                "it is fetched when work needs it",
            )
    partial = [size for name, size in listing.blobs.items() if name.endswith(PARTIAL)]
    if partial:
        yield Notice(
            "data/partial-files",
            f"{where}: {show_data(sum(partial))} of {listing.repo} are in partial files, which "
            "never count",
            "a download that goes on completes them",
        )
