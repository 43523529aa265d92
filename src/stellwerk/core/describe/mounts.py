"""Decides what a task brings along: copied files, buckets as directories, volumes."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from stellwerk.core.describe.fields import (
    Found,
    boolean,
    did_you_mean,
    expected,
    filled_text,
    integer,
    list_of,
    map_of,
    one_of,
    plain,
    plain_map,
    read_map,
    size,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.task import StorageMount, VolumeMount

WORKDIR = "~/sky_workdir"
SCHEMES = ("s3", "gs", "https", "r2", "cos", "oci", "nebius", "cw", "vastdata", "hf")
STORES = (
    "S3", "GCS", "AZURE", "R2", "IBM", "OCI", "NEBIUS", "COREWEAVE", "VASTDATA", "HF", "VOLUME",
)  # fmt: skip
MODES = ("MOUNT", "COPY", "MOUNT_CACHED")
TYPES = ("MODEL_CHECKPOINT_RO", "MODEL_CHECKPOINT_RW", "DATASET_RO", "DATASET_RW")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WHOLE_PATH = ("https", "hf", "cos")
_BUCKET = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_SUB_PATH = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9./_-]*")


class Mounts(Struct, frozen=True):
    """Copies (target to source) and buckets (target to bucket) of `file_mounts`."""

    copies: dict[str, str] = {}
    storage: dict[str, StorageMount] = {}


def scheme_of(source: str) -> str | None:
    """The scheme of a URI, in lower case; None for a path."""
    match = _URI.match(source)
    return match[1].lower() if match else None


def read_file_mounts(report: Report, node: Node | None, *, has_workdir: bool) -> Mounts:
    """`file_mounts`: a target and a local path or URI to copy, or a map for a bucket."""
    copies: dict[str, str] = {}
    storage: dict[str, StorageMount] = {}
    if node is not None and node.kind != "map":
        expected(report, node, "file_mounts", "a map of targets to sources")
    for entry in node.entries if node is not None else ():
        path = f"file_mounts.{entry.key}"
        fine = _check_target(report, entry.key_node, path, entry.key)
        if has_workdir and entry.key == WORKDIR:
            message = f"`{WORKDIR}` is where `workdir` goes"
            remedy = "name a folder or file inside of it"
            report.problem("spec/mount", entry.key_node, path, message, remedy)
        if entry.value.kind == "map":
            mount = _read_storage(report, entry.value, path)
            if fine and mount is not None:
                storage[entry.key] = mount
        elif entry.value.text is not None:
            source = entry.value.text
            if _check_source(report, entry.value, path, source) and fine:
                copies[entry.key] = source
        else:
            expected(report, entry.value, path, "a path, a URI, or a map for a bucket")
    return Mounts(copies, storage)


def _check_target(report: Report, node: Node, path: str, target: str) -> bool:
    if scheme_of(target):
        message, remedy = f"the target `{target[:80]}` is a URI", "write `TARGET: SOURCE`"
    elif not target.startswith(("/", "~")):
        message = f"the target `{target[:80]}` is neither absolute nor below `~`"
        remedy = f"write `~/{target[:60]}` or an absolute path"
    elif target.endswith("/"):
        message = f"the target `{target[:80]}` ends with a slash"
        remedy = "leave the slash out: the target is the place itself"
    else:
        return True
    report.problem("spec/mount", node, path, message, remedy)
    return False


def _check_source(report: Report, node: Node, path: str, source: str) -> bool:
    scheme = scheme_of(source)
    if not source.strip():
        report.problem("spec/mount", node, path, "the source is empty")
    elif scheme is not None and scheme not in SCHEMES:
        known = ", ".join(f"`{name}://`" for name in SCHEMES)
        remedy = did_you_mean(scheme, SCHEMES) or f"a local path, or one of {known}"
        report.problem("spec/mount", node, path, f"`{scheme}://` is no known store", remedy)
    else:
        return True
    return False


def _read_storage(report: Report, node: Node, path: str) -> StorageMount | None:
    def unknown(key_node: Node, key: str, _value: Node) -> None:
        if key.startswith("_"):
            report.ignore(key_node, f"{path}.{key}", f"`{key[:60]}` is internal to SkyPilot")
        else:
            remedy = "" if report.crowded else did_you_mean(key, fields)
            message = f"unknown field `{key[:60]}`"
            report.problem("spec/unknown-field", key_node, f"{path}.{key}", message, remedy)

    fields = {
        "name": _bucket_name,
        "source": _sources,
        "store": one_of(STORES),
        "persistent": boolean,
        "mode": one_of(MODES),
        "type": one_of(TYPES),
        "config": _storage_config,
    }
    found = read_map(report, node, path, fields, unknown=unknown)
    before = len(report.problems)
    _check_storage(report, found, path)
    if len(report.problems) > before:
        return None
    source = found.get("source")
    return StorageMount(
        name=found.get("name"),
        source=tuple(source) if isinstance(source, list) else source,
        mode=found.get("mode", "MOUNT"),
        store=found.get("store"),
        persistent=found.get("persistent", True),
        config=found.get("config", {}),
        type=found.get("type"),
    )


def _check_storage(report: Report, found: Found, path: str) -> None:
    """What has no meaning is a problem; what `sky` would refuse later on is told."""
    name, source = found.get("name"), found.get("source")
    mode = found.get("mode", "MOUNT")
    if "name" not in found and "source" not in found:
        message, remedy = "a bucket needs a `name` or a `source`", "add one of them"
        report.problem("spec/storage", found.node, path, message, remedy)
    if name is not None:
        _check_bucket(report, found, path, name)
    if source is None:
        return
    scheme = scheme_of(source) if isinstance(source, str) else None
    told, key, remedy = "", "source", ""
    if scheme is None:
        if "name" not in found:
            told = "a local `source` goes to a bucket that has no `name`"
            remedy = "add `name`"
    else:
        inside = source.split("://", 1)[1].rstrip("/").partition("/")[2]
        if name is not None:
            told, key = "the URI in `source` names the bucket, `name` has no effect", "name"
        elif inside and mode != "COPY" and scheme not in _WHOLE_PATH:
            told = f"`mode: {mode}` is for a whole bucket, not for `{inside[:60]}` inside of it"
            remedy = "use `mode: COPY`, or name the bucket alone"
    if told:
        message = f"{told}; `sky` would refuse this"
        report.notice("spec/storage", found.place(key), path, message, remedy)


def _bucket_name(report: Report, node: Node, path: str) -> str | None:
    name = filled_text(report, node, path)
    if name is None or name[0].isalnum() or not _BUCKET.fullmatch(f"a{name}"):
        return name
    message = f"`{name[:60]}` can't be the name of a bucket"
    report.problem("spec/storage", node, path, message, "it begins with a letter or digit")
    return None


def _check_bucket(report: Report, found: Found, path: str, name: str) -> None:
    if scheme_of(name):
        message, remedy = f"`name` is a URI: `{name[:60]}`", "name an existing bucket as `source`"
    elif found.get("store") == "HF" or (_BUCKET.fullmatch(name) and ".." not in name):
        return
    else:
        message = f"`{name[:60]}` can't be the name of a bucket"
        remedy = "letters, digits, `.`, `_` and `-`"
    report.problem("spec/storage", found.nodes["name"], f"{path}.name", message, remedy)


def _sources(report: Report, node: Node, path: str) -> str | list[str] | None:
    if node.kind != "list":
        source = filled_text(report, node, path)
        return source if source and _check_source(report, node, path, source) else None
    sources: list[str] = list_of(filled_text)(report, node, path) or []
    if not node.items:
        report.problem("spec/value", node, path, f"`{path}` is empty")
    names: dict[str, None] = {}
    for source in sources:
        if scheme_of(source):
            report.problem(
                "spec/storage", node, path, "a list of sources takes local paths only",
                "write the URI as the only source",
            )  # fmt: skip
        name = source.rstrip("/").rpartition("/")[2]
        if name in names:
            message = f"two sources have the same last name `{name[:60]}`"
            report.problem("spec/storage", node, path, message, "they would overwrite each other")
        names[name] = None
    return sources


def _storage_config(report: Report, node: Node, path: str) -> dict[str, Any] | None:
    cached = dict.fromkeys(
        ("buffer_size", "vfs_cache_max_size", "vfs_cache_max_age", "vfs_read_ahead",
         "vfs_read_chunk_size", "vfs_write_back"), text,
    )  # fmt: skip
    fields = {
        "mount_cached": {
            **cached,
            "transfers": integer(1),
            "vfs_read_chunk_streams": integer(0),
            "read_only": boolean,
        },
        "mount": {"read_only": boolean, "hf_mount_args": list_of(text)},
    }
    config = plain_map(report, node, path)
    for key, known in fields.items():
        part = node.get(key)
        if part is not None:
            read_map(report, part, f"{path}.{key}", known)
    return config


def read_volumes(report: Report, node: Node | None) -> dict[str, VolumeMount]:
    """`volumes`: a path and the name of a volume, or a map that says what it is."""
    volumes: dict[str, VolumeMount] = {}
    if node is not None and node.kind != "map":
        expected(report, node, "volumes", "a map of paths to volumes")
    for entry in node.entries if node is not None else ():
        path = f"volumes.{entry.key}"
        fine = _check_target(report, entry.key_node, path, entry.key)
        volume: VolumeMount | None
        if entry.value.kind == "map":
            volume = _read_volume(report, entry.value, path)
        else:
            name = filled_text(report, entry.value, path)
            volume = VolumeMount(name=name, as_written=name) if name else None
        if fine and volume is not None:
            volumes[entry.key] = volume
    return volumes


def _read_volume(report: Report, node: Node, path: str) -> VolumeMount | None:
    fields = {
        "name": filled_text,
        "sub_path": text,
        "size": size,
        "type": one_of(("k8s-pvc",)),
        "labels": map_of(text),
        "config": plain,
        "host_path": _host_path,
        "mode": one_of(("ro", "rw"), keep_case=True),
    }
    found = read_map(report, node, path, fields)
    kinds = [kind for kind in ("size", "name", "host_path") if kind in found]
    if not kinds:
        report.problem(
            "spec/volume", node, path, "this doesn't say which volume",
            "give `name` (an existing one), `size` (a new one) or `host_path` (a folder there)",
        )  # fmt: skip
    elif len(kinds) > 1:
        named = " and ".join(f"`{kind}`" for kind in kinds)
        report.problem("spec/volume", node, path, f"{named} can't be given together", "keep one")
    _check_volume_paths(report, found, path)
    return VolumeMount(
        name=found.get("name"),
        sub_path=found.get("sub_path"),
        size_bytes=found.get("size"),
        host_path=found.get("host_path"),
        read_only="host_path" in found and found.get("mode", "ro") == "ro",
        as_written=node.plain(),
    )


def _host_path(report: Report, node: Node, path: str) -> str | None:
    written = text(report, node, path)
    if written is None or (written.startswith("/") and written.strip("/")):
        return written
    message = f"`{written[:60]}` can't be a folder to bind"
    remedy = "give an absolute path other than `/`"
    report.problem("spec/volume", node, path, message, remedy)
    return None


def _check_volume_paths(report: Report, found: Found, path: str) -> None:
    sub_path = found.get("sub_path")
    if sub_path is not None and (not _SUB_PATH.fullmatch(sub_path) or ".." in sub_path.split("/")):
        message = f"`{sub_path[:60]}` can't be a path inside of a volume"
        remedy = "a relative path of letters, digits, `.`, `_`, `-` and `/`, without `..`"
        report.problem("spec/volume", found.nodes["sub_path"], path, message, remedy)
