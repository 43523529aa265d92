"""Decides what a run finds on a machine before it starts: work directory, mounts, setup's key.

Content of snapshots becomes directories below the runtime's root; what the machine has already
(buckets, copies of them) and what must not be on a disk (secrets) is left to the runtime.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stellwerk.core.describe.places import inside_work, means
from stellwerk.drivers.agents.snapshots import BlobReader, Entry, Part, read_manifest, together
from stellwerk.drivers.base import DriverError, MountOrder, StartOrder

KEY_VERSION = 1
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Tree(NamedTuple):
    """A directory to make: where, below the runtime's root, and of what."""

    place: str
    entries: list[Entry]


class Layout(NamedTuple):
    """What an order needs: additions to the runtime's spec, and directories."""

    spec: dict[str, Any]
    trees: list[Tree]


def layout_of(order: StartOrder, root: str, blobs: BlobReader) -> Layout:
    """Finds out all that an order needs below the runtime's root. Raises a final DriverError."""
    try:
        return _layout(order, root, blobs)
    except DriverError:
        raise
    except Exception as fault:
        raise at_fault(fault) from fault


def at_fault(fault: Exception) -> DriverError:
    """Says that nothing can be laid out because of a mistake of ours."""
    message = f"what the run needs can't be laid out: {fault!r:.200}"
    return DriverError("driver/fault", message, final=True)


def _layout(order: StartOrder, root: str, blobs: BlobReader) -> Layout:
    name = f"{order.run}.{order.generation}"
    spec: dict[str, Any] = {}
    trees: list[Tree] = []
    inside = [(mount, inside_work(mount.target)) for mount in order.mounts]
    parts = [
        *([Part("", order.snapshot)] if order.snapshot else []),
        *(Part(place, m.snapshot) for m, place in inside if m.snapshot and place is not None),
    ]
    if parts and not order.cwd:
        trees.append(Tree(f"work/{name}", together(parts, blobs, single=False)))
        spec["cwd"] = os.path.join(root, trees[-1].place)
    mounts = []
    for index, (mount, place) in enumerate(inside):
        if mount.snapshot and place is None:
            part = Part("", mount.snapshot)
            trees.append(Tree(f"mounts/{name}/{index}", together([part], blobs, single=True)))
            source = _source_of(os.path.join(root, trees[-1].place), mount, blobs)
            mounts.append(_spec_of(mount, source))
        elif not mount.snapshot:
            mounts.append(_spec_of(mount, mount.folder))
    if mounts:
        spec["mounts"] = mounts
    if order.sky_workdir:
        spec["sky_workdir"] = True
    if order.image:
        spec["image"] = order.image
    elif order.setup and order.setup_inputs is not None and not order.cwd:
        spec["setup_key"] = setup_key(order, blobs)
    return Layout(spec, trees)


def _source_of(target: str, mount: MountOrder, blobs: BlobReader) -> str:
    manifest = read_manifest(mount.snapshot, blobs)
    return os.path.join(target, manifest.files[0].path) if manifest.single else target


def _spec_of(mount: MountOrder, source: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"target": mount.target}
    spec |= {"secret": mount.secret} if mount.secret else {"source": source}
    flags = (("copy", mount.copy), ("read_only", mount.read_only))
    return spec | {flag: True for flag, is_set in flags if is_set}


def setup_key(order: StartOrder, blobs: BlobReader) -> str:
    """Names all that a setup depends on: its text, the files and variables it names, the mounts.

    Equal keys mean that one run's setup may stand for another's.
    """
    words = {word.group() for word in _VARIABLE.finditer(order.setup)}
    variables = {**order.env, **order.setup_env}
    said = (
        KEY_VERSION,
        order.setup,
        order.shell,
        sorted((name, value) for name, value in variables.items() if name in words),
        _inputs(order, order.setup_inputs or (), blobs),
        [(m.target, m.snapshot, m.folder, m.copy) for m in order.mounts if not m.secret],
    )
    return "s-" + hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:32]


def _inputs(
    order: StartOrder, patterns: Sequence[str], blobs: BlobReader
) -> list[tuple[str, str, int | None]]:
    if not order.snapshot or not patterns:
        return []
    entries = read_manifest(order.snapshot, blobs).files
    return sorted(
        (entry.path, entry.hash or entry.link, entry.mode)
        for entry in entries
        if any(means(pattern, entry.path) for pattern in patterns)
    )
