"""Lays out what a run finds on this machine before it starts: work directory, mounts, setup's key.

Content of snapshots is made here, whole or not at all; what the machine has already (buckets,
copies of them) and what must not be on a disk (secrets) is left to the runtime beside the job.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stellwerk.core.describe.places import inside_work, means
from stellwerk.drivers.base import DriverError, MountOrder, StartOrder
from stellwerk.drivers.local.workdir import (
    BlobReader,
    Part,
    make_work_directory,
    read_manifest,
    remove_work_directories,
)
from stellwerk.runtime.removing import remove_tree

KEY_VERSION = 1
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Laid(NamedTuple):
    """What was laid out: additions to the runtime's spec, and what to remove if nothing starts."""

    spec: dict[str, Any]
    made: list[str]

    def take_back(self) -> None:
        """Removes what was made."""
        for path in self.made:
            remove_tree(path)


def lay_out(order: StartOrder, root: Path, blobs: BlobReader) -> Laid:
    """Makes everything an order needs below the runtime's root; twice is once.

    Raises a final DriverError if it can't be made, whatever the cause: nothing was started then.
    """
    laid = Laid({}, [])
    try:
        _lay_out(order, root, blobs, laid)
    except DriverError:
        laid.take_back()
        raise
    except Exception as fault:
        laid.take_back()
        message = f"what the run needs can't be laid out: {fault!r:.200}"
        raise DriverError("driver/fault", message, final=True) from fault
    return laid


def _lay_out(order: StartOrder, root: Path, blobs: BlobReader, laid: Laid) -> None:
    name = f"{order.run}.{order.generation}"
    inside = [(mount, inside_work(mount.target)) for mount in order.mounts]
    parts = [
        *([Part("", order.snapshot)] if order.snapshot else []),
        *(Part(place, m.snapshot) for m, place in inside if m.snapshot and place is not None),
    ]
    if parts and not order.cwd:
        work = str(root / "work" / name)
        if make_work_directory(work, parts, blobs):
            laid.made.append(work)
        laid.spec["cwd"] = work
    mounts = []
    for index, (mount, place) in enumerate(inside):
        if mount.snapshot and place is None:
            target = str(root / "mounts" / name / str(index))
            if make_work_directory(target, [Part("", mount.snapshot)], blobs, single=True):
                laid.made.append(target)
            mounts.append(_spec_of(mount, _source_of(target, mount, blobs)))
        elif not mount.snapshot:
            mounts.append(_spec_of(mount, mount.folder))
    if mounts:
        laid.spec["mounts"] = mounts
    if order.sky_workdir:
        laid.spec["sky_workdir"] = True
    if order.image:
        laid.spec["image"] = order.image
    elif order.setup and order.setup_inputs is not None and not order.cwd:
        laid.spec["setup_key"] = setup_key(order, blobs)


def remove_layout(root: Path, run: str) -> None:
    """Removes what was laid out for all generations of a run that is over."""
    for folder in ("work", "mounts"):
        remove_work_directories(str(root / folder), run)


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
