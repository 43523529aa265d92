"""Decides what a task's mounts are here: packed content, folders that stand for buckets, secrets.

A bucket is a folder: `bucket_paths` names it, else it lies in `buckets` under its own name. Only a
bucket that somebody else holds (a URI) must have been named: nothing here could fetch it.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from stellwerk.config import Settings
from stellwerk.core.describe.mounts import scheme_of
from stellwerk.core.describe.places import local_sources, packed_targets
from stellwerk.core.model.errors import Notice, Problem, StellwerkError
from stellwerk.core.model.task import StorageMount, Task
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import DriverError, MountOrder
from stellwerk.drivers.local.workdir import merge_into

READ_ONLY_TYPES = ("MODEL_CHECKPOINT_RO", "DATASET_RO")


class Upload(NamedTuple):
    """A bucket's own folder, which is made where it is missing, and content that goes into it."""

    folder: str
    snapshot: str = ""


class Mounted(NamedTuple):
    """The mounts of one item, what must be done before it is taken down, and what to tell."""

    mounts: tuple[MountOrder, ...] = ()
    uploads: tuple[Upload, ...] = ()
    notices: tuple[Notice, ...] = ()

    def prepare(self, blobs: BlobReader) -> None:
        """Makes buckets and fills them; raises StellwerkError if that can't be done."""
        for upload in self.uploads:
            try:
                os.makedirs(upload.folder, mode=0o700, exist_ok=True)
                if upload.snapshot:
                    merge_into(upload.folder, upload.snapshot, blobs)
            except OSError as error:
                message = f"the bucket {upload.folder} can't be written: {error.strerror}"
                remedy = "make room or give the right to write there, or name another folder for it"
                raise StellwerkError.of("mount/not-written", message, remedy) from error
            except DriverError as error:
                raise StellwerkError.of("mount/not-written", error.message, "") from error


class _Folder(NamedTuple):
    """Where a bucket is; `is_own` says that we make it."""

    path: str
    is_own: bool = False


def mount(
    task: Task, content: Mapping[str, str], settings: Settings, problems: list[Problem]
) -> Mounted:
    """Finds a source for every target of a task; what has none becomes a problem.

    `content` has the hash of what was packed for a target.
    """
    mounts: list[MountOrder] = []
    uploads: list[Upload] = []
    notices: list[Notice] = []
    problems += [_not_packed(target) for target in packed_targets(task) if target not in content]
    for target, source in task.file_mounts.items():
        if scheme_of(source) is None:
            mounts.append(MountOrder(target, snapshot=content.get(target, "")))
        elif folder := _of_uri(target, source, settings, problems):
            mounts.append(MountOrder(target, folder=folder, copy=True))
            notices.append(_told(target, folder, is_copy=True))
    for target, bucket in task.storage.items():
        found = _of_bucket(target, bucket, settings, problems)
        if found is not None:
            copy = bucket.mode == "COPY"
            if found.is_own:
                uploads.append(Upload(found.path))
            if local_sources(bucket):
                uploads.append(Upload(found.path, content.get(target, "")))
            mounts.append(
                MountOrder(target, folder=found.path, copy=copy, read_only=_only_read(bucket))
            )
            notices.append(_told(target, found.path, is_copy=copy, bucket=bucket))
    for target, volume in task.volumes.items():
        if _is_there(target, volume.host_path or "", problems):
            mounts.append(
                MountOrder(target, folder=volume.host_path or "", read_only=volume.read_only)
            )
    mounts += [
        MountOrder(ref.mount_path, secret=ref.name)
        for ref in task.managed_secrets
        if ref.mount_path
    ]
    return Mounted(tuple(mounts), tuple(uploads), tuple(notices))


def _of_bucket(
    target: str, bucket: StorageMount, settings: Settings, problems: list[Problem]
) -> _Folder | None:
    if isinstance(bucket.source, str) and scheme_of(bucket.source):
        path = _of_uri(target, bucket.source, settings, problems)
        return _Folder(path) if path else None
    if not bucket.name:
        message = f"the bucket at `{target}` has no `name`, so its content has nowhere to go"
        problems.append(_problem("no-name", target, message, "add `name`"))
        return None
    if ".." in bucket.name.split("/") or bucket.name.startswith("/"):
        message = f"`{bucket.name}` can't be the name of a bucket"
        problems.append(_problem("name", target, message, "leave out `..` and a leading slash"))
        return None
    named = settings.paths("bucket_paths").get(bucket.name)
    if named is None:
        return _Folder(os.path.join(settings.text("buckets"), bucket.name), is_own=True)
    return _Folder(named) if _is_there(target, named, problems) else None


def _of_uri(target: str, uri: str, settings: Settings, problems: list[Problem]) -> str:
    """The folder or file that stands for a URI: the longest setting that it begins with."""
    known = settings.paths("bucket_paths")
    bare = uri.split("://", 1)[1]
    for written, names in (
        (uri, known),
        (bare, {k: v for k, v in known.items() if "://" not in k}),
    ):
        fitting = [name for name in names if f"{written}/".startswith(name.rstrip("/") + "/")]
        if fitting:
            name = max(fitting, key=len)
            path = os.path.normpath(names[name] + "/" + written[len(name) :])
            return path if _is_there(target, path, problems) else ""
    bucket = "/".join(uri.split("/")[:3])
    message = f"`{uri}` can't be reached from here: no folder stands for `{bucket}`"
    remedy = f'put `"{bucket}" = "/its/folder"` below `[bucket_paths]` in config.toml'
    problems.append(_problem("no-bucket", target, message, f"{remedy}, or fetch it in `setup`"))
    return ""


def _is_there(target: str, path: str, problems: list[Problem]) -> bool:
    if os.path.exists(path):
        return True
    message = f"{path}, which is to be at `{target}`, doesn't exist on this machine"
    problems.append(_problem("missing", target, message, "create it, or correct its name"))
    return False


def _only_read(bucket: StorageMount) -> bool:
    options = bucket.config.get("mount"), bucket.config.get("mount_cached")
    said = any(isinstance(one, dict) and one.get("read_only") is True for one in options)
    return said or bucket.type in READ_ONLY_TYPES


def _told(target: str, folder: str, *, is_copy: bool, bucket: StorageMount | None = None) -> Notice:
    kind = "a copy of the folder" if is_copy else "the folder"
    help = ""
    if bucket is not None and not bucket.persistent:
        help = "`persistent: false` has no effect: it isn't removed afterwards"
    elif bucket is not None and bucket.store and not scheme_of(str(bucket.source)):
        help = f"`store: {bucket.store}` has no effect"
    return Notice("mount/bucket", f"`{target}` is {kind} {folder}", help)


def _not_packed(target: str) -> Problem:
    message = f"what is to be at `{target}` did not come with the task"
    remedy = "pack it and send its hash in `mounts` (`stw run` does)"
    return _problem("no-content", target, message, remedy)


def _problem(code: str, target: str, message: str, help: str) -> Problem:
    return Problem(f"mount/{code}", message, help, path=f"file_mounts.{target}")
