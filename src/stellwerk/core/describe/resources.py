"""Decides what a task asks of a node: one request, a set of acceptable ones, or a preference.

`any_of` and `ordered` lay each entry over the common part, labels merge; a list of accelerators is
an order of preference, a map of several is a set. What only a cloud can give is read, kept and
named as having no effect here.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from msgspec import structs

from stellwerk.core.describe.accelerators import Wish, accelerators, one_accelerator
from stellwerk.core.describe.extras import labels
from stellwerk.core.describe.fields import (
    Found,
    Reader,
    amount,
    boolean,
    expected,
    filled_text,
    integer,
    list_of,
    map_of,
    number,
    one_of,
    plain_map,
    read_map,
    size,
    text,
    unknown_field,
)
from stellwerk.core.describe.infra import Where, cloud, infra
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.recovery import NO_RECOVERY, AutostopRead, autostop, job_recovery
from stellwerk.core.model.devices import NamedAccelerator
from stellwerk.core.model.quantity import GIB, parse_cpus, parse_memory
from stellwerk.core.model.task import Choice, Hook, ResourceRequest

DEFAULT_DISK = 256 * GIB
"""SkyPilot writes this size into every file it saves, so it reads as no wish."""

MOST_REQUESTS = 200
_PORT = re.compile(r"([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?")
_LOCAL_DISK = re.compile(r"(nvme|ssd)?(?:(?:(?<=e|d):)?([0-9]{1,9}(?:\.[0-9]{1,3})?\+?))?")
_OLD_WHERE = ("cloud", "region", "zone")
_CLOUD_ONLY = {
    "instance_type": "`instance_type` names a machine of a cloud",
    "accelerator_args": "`accelerator_args` is for TPUs of a cloud",
    "disk_tier": "`disk_tier` is for rented disks",
    "network_tier": "`network_tier` is for rented networks",
    "local_disk": "`local_disk` is for rented machines",
    "max_hourly_cost": "`max_hourly_cost` is for rented machines",
    "volumes": "`volumes` under `resources` are disks of a cloud",
    "ephemeral_storage": "`ephemeral_storage` is the old name of `disk_size`",
    "autostop": "`autostop` stops a rented cluster, and nothing is rented",
}
_HINTS = {
    "gpu": "did you mean `gpus`?",
    "cpu": "did you mean `cpus`?",
    "mem": "did you mean `memory`?",
    "image": "did you mean `image_id`?",
    "hooks": "hooks stand at the top level, under `config.hooks`",
    "spot_recovery": "it is called `job_recovery` now",
    **dict.fromkeys(
        (
            "num_nodes",
            "workdir",
            "envs",
            "secrets",
            "setup",
            "run",
            "name",
            "file_mounts",
            "config",
        ),
        "this key stands at the top level",
    ),
}


class Resources(NamedTuple):
    """The requests of a task, how they are meant, their labels, hooks written in an old place."""

    choice: Choice
    requests: tuple[ResourceRequest, ...]
    label_nodes: list[Node]
    hooks: tuple[Hook, ...]


def read_resources(report: Report, node: Node | None) -> Resources:
    """The `resources` of a task; without any, anything will do."""
    if node is None:
        return Resources("one", (ResourceRequest(),), [], ())
    base = _read_part(report, node, "resources", _BASE_FIELDS)
    any_of, ordered = base.get("any_of", []), base.get("ordered", [])
    if "any_of" in base and "ordered" in base:
        report.problem(
            "spec/choice",
            base.place("ordered"),
            "resources.ordered",
            "`any_of` and `ordered` can't be given together",
            "`any_of` is a set, `ordered` an order of preference: keep one",
        )
    _check_lists(report, base, any_of, ordered)
    common = {k: v for k, v in base.values.items() if k not in {"any_of", "ordered"}}
    conflict = _where_conflict(report, common, base.place("infra"), "resources")
    requests: list[ResourceRequest] = []
    hooks: list[Hook] = []
    parts: list[Found | None] = [*any_of, *ordered] or [None]
    name = "ordered" if ordered else "any_of"
    wish: Wish | None = None
    for i, part in enumerate(parts):
        merged = _merged(common, part)
        if part is not None and not conflict:
            place = part.place("infra") if "infra" in part else part.node
            _where_conflict(report, merged, place, f"resources.{name}[{i}]")
        wish = merged.get("accelerators")
        _note_hook(merged, hooks)
        requests += [r for r in _requests(merged) if r not in requests]
        if len(requests) > MOST_REQUESTS:
            message = f"this makes more than {MOST_REQUESTS} acceptable requests"
            report.problem("spec/too-large", node, "resources", message)
            break
    _check_agreement(report, base, requests)
    preference = ordered or (not any_of and wish is not None and wish.ordered)
    choice: Choice = "one" if len(requests) < 2 else "ordered" if preference else "any_of"
    labels = [found.nodes["labels"] for found in (base, *any_of, *ordered) if "labels" in found]
    return Resources(choice, tuple(requests) or (ResourceRequest(),), labels, tuple(hooks))


def _read_part(report: Report, node: Node, path: str, fields: dict[str, Reader]) -> Found:
    def unknown(key_node: Node, key: str, _value: Node) -> None:
        if key.startswith("_"):
            report.ignore(key_node, f"{path}.{key}", f"`{key[:60]}` is internal to SkyPilot")
        else:
            unknown_field(report, key_node, f"{path}.{key}", key, fields)

    found = read_map(report, node, path, fields, unknown=unknown)
    if "gpus" in found:
        if "accelerators" in found:
            report.problem(
                "spec/alias",
                found.keys["gpus"],
                f"{path}.gpus",
                "`gpus` and `accelerators` are the same key under two names",
                "keep one",
            )
        for table in (found.values, found.nodes, found.keys):
            if "gpus" in table:
                table.setdefault("accelerators", table.pop("gpus"))
    for key, message in _CLOUD_ONLY.items():
        if key in found:
            report.ignore(found.keys[key], f"{path}.{key}", message)
    return found


def _merged(common: dict[str, Any], part: Found | None) -> dict[str, Any]:
    if part is None:
        return common
    merged = common | part.values
    if "labels" in common and "labels" in part.values:
        merged["labels"] = common["labels"] | part.values["labels"]
    return merged


def _check_lists(report: Report, base: Found, any_of: list[Found], ordered: list[Found]) -> None:
    wish: Wish | None = base.get("accelerators")
    if wish is None or len(wish.kinds) < 2 or not (any_of or ordered):
        return
    if ordered or wish.ordered:
        key = "ordered" if ordered else "any_of"
        report.problem(
            "spec/choice",
            base.place("accelerators"),
            "resources.accelerators",
            f"several accelerators in the common part and `{key}` can't be put into one order",
            f"name the accelerator in each entry of `{key}`",
        )


def _where_conflict(report: Report, merged: dict[str, Any], place: Node, path: str) -> bool:
    old = [name for name in _OLD_WHERE if name in merged]
    if "infra" not in merged or not old:
        return False
    report.problem(
        "spec/infra",
        place,
        f"{path}.infra",
        f"`infra` and `{old[0]}` can't be given together",
        "keep `infra`: it says all of " + ", ".join(f"`{name}`" for name in old),
    )
    return True


def _note_hook(merged: dict[str, Any], hooks: list[Hook]) -> None:
    stop: AutostopRead | None = merged.get("autostop")
    if stop is not None and stop.hook is not None and stop.hook not in hooks:
        hooks.append(stop.hook)


def _requests(merged: dict[str, Any]) -> list[ResourceRequest]:
    where: Where = merged.get("infra") or Where(*(merged.get(name) for name in _OLD_WHERE))
    stop: AutostopRead | None = merged.get("autostop")
    recovery = merged.get("job_recovery")
    disk = merged.get("disk_size")
    request = ResourceRequest(
        infra=where.text(),
        cpus=merged.get("cpus"),
        memory=merged.get("memory"),
        disk_bytes=None if disk == DEFAULT_DISK else disk,
        use_spot=merged.get("use_spot"),
        ports=tuple(merged.get("ports", ())),
        labels=merged.get("labels", {}),
        image_id=_image(merged.get("image_id"), where),
        autostop=stop.autostop if stop else None,
        job_recovery=None if recovery == NO_RECOVERY else recovery,
        priority=merged.get("priority"),
        priority_class=merged.get("priority_class"),
        instance_type=merged.get("instance_type"),
        accelerator_args=merged.get("accelerator_args", {}),
        disk_tier=merged.get("disk_tier"),
        network_tier=merged.get("network_tier"),
        local_disk=merged.get("local_disk"),
        max_hourly_cost=merged.get("max_hourly_cost"),
        volumes=tuple(merged.get("volumes", ())),
    )
    wish: Wish | None = merged.get("accelerators")
    if wish is None:
        return [request]
    return [
        structs.replace(request, accelerators={kind.name: kind.count})
        if isinstance(kind, NamedAccelerator)
        else structs.replace(request, selector=kind)
        for kind in wish.kinds
    ]


def _image(image: str | dict[str, str] | None, where: Where) -> str | dict[str, str] | None:
    """On Kubernetes an image is a container's, whether `docker:` stands before it or not."""
    if where.kind != "kubernetes" or image is None:
        return image
    if isinstance(image, str):
        return image if image.startswith("docker:") else f"docker:{image}"
    return {
        key: name if key == "docker" or name.startswith("docker:") else f"docker:{name}"
        for key, name in image.items()
    }


def _check_agreement(report: Report, base: Found, requests: list[ResourceRequest]) -> None:
    place = base.place("ordered" if "ordered" in base else "any_of")
    for name, what in (("priority", "priority"), ("job_recovery", "recovery strategy")):
        stated: list[Any] = []
        for request in requests:
            value = getattr(request, name)
            if name == "job_recovery" and value is not None:
                value = value.strategy
            if value is not None and value not in stated:
                stated.append(value)
        if len(stated) > 1:
            report.problem(
                "spec/choice",
                place,
                f"resources.{name}",
                f"the entries disagree on the {what}: "
                + ", ".join(f"`{value}`" for value in stated[:5]),
                "a job has one, wherever it runs: state it in the common part",
            )


def _ports(report: Report, node: Node, path: str) -> list[str] | None:
    """Ports and ranges, one or a list, sorted and joined: `[8080, 9000-9002, 9003]`."""
    ranges: list[tuple[int, int]] = []
    for i, item in enumerate(node.items if node.kind == "list" else [node]):
        where = f"{path}[{i}]" if node.kind == "list" else path
        if not isinstance(item.value, int | str) or isinstance(item.value, bool):
            expected(report, item, where, "a port such as `8080` or a range such as `9000-9010`")
            continue
        for written in str(item.value).split(","):
            match = _PORT.fullmatch(written.strip())
            first = int(match[1]) if match else 0
            last = int(match[2]) if match and match[2] else first
            if 1 <= first <= last <= 65535:
                ranges.append((first, last))
            elif written.strip():
                message = f"`{written.strip()[:40]}` is no port"
                remedy = "ports go from 1 to 65535, ranges are written `9000-9010`"
                report.problem("spec/port", item, where, message, remedy)
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return [str(first) if first == last else f"{first}-{last}" for first, last in joined] or None


def _image_id(report: Report, node: Node, path: str) -> str | dict[str, str] | None:
    if node.kind == "map":
        images: dict[str, str] | None = map_of(text)(report, node, path)
        return {key: image.strip() for key, image in images.items()} if images else None
    image = filled_text(report, node, path)
    return image.strip() if image else None


def _disk_size(report: Report, node: Node, path: str) -> int | None:
    if isinstance(node.value, float):
        expected(report, node, path, "a whole number of GiB, or a size such as `100GB`")
        return None
    return size(report, node, path)


def _local_disk(report: Report, node: Node, path: str) -> str | None:
    """`nvme:1000+`, or a part of it: the kind alone, the size alone."""
    written = text(report, node, path)
    if written is None:
        return None
    match = _LOCAL_DISK.fullmatch(written.strip().lower())
    if match is None or not (match[1] or match[2]):
        message = f"`{path}` can't be {node.short()}"
        report.problem("spec/value", node, path, message, "write `nvme:1000+`, `nvme` or `1000+`")
        return None
    return f"{match[1] or 'nvme'}:{match[2] or '100+'}"


def _priority_class(report: Report, node: Node, path: str) -> str | None:
    name = text(report, node, path)
    return name.strip() or None if name else None


def _alternatives(report: Report, node: Node, path: str) -> list[Found] | None:
    def read(report: Report, item: Node, where: str) -> Found:
        return _read_part(report, item, where, _PART_FIELDS)

    if len(node.items) > MOST_REQUESTS:
        message = f"`{path}` has {len(node.items)} entries, {MOST_REQUESTS} may be"
        report.problem("spec/too-large", node, path, message)
        return None
    found: list[Found] | None = list_of(read)(report, node, path)
    return found


def _fields(wish: Reader) -> dict[str, Reader]:
    return {
        "infra": infra,
        "cloud": cloud,
        "region": text,
        "zone": text,
        "accelerators": wish,
        "gpus": wish,
        "accelerator_args": plain_map,
        "cpus": amount(parse_cpus),
        "memory": amount(parse_memory),
        "instance_type": text,
        "use_spot": boolean,
        "disk_size": _disk_size,
        "ephemeral_storage": _disk_size,
        "disk_tier": one_of(("low", "medium", "high", "ultra", "best")),
        "network_tier": one_of(("standard", "best")),
        "local_disk": _local_disk,
        "max_hourly_cost": number(above=0),
        "ports": _ports,
        "labels": labels,
        "image_id": _image_id,
        "autostop": autostop,
        "job_recovery": job_recovery,
        "priority": integer(-1000, 1000),
        "priority_class": _priority_class,
        "volumes": list_of(plain_map),
    }


_PART_FIELDS = _fields(one_accelerator)
_BASE_FIELDS = {**_fields(accelerators), "any_of": _alternatives, "ordered": _alternatives}
RESOURCE_KEYS = tuple(_BASE_FIELDS)
