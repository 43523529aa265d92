"""The resources of a case and of a task in one form, to be compared field by field."""

from collections.abc import Callable
from typing import Any

from stellwerk.core.model.devices import (
    AcceleratorSelector,
    NamedAccelerator,
    canonical_name,
    parse_accelerator,
)
from stellwerk.core.model.quantity import (
    GIB,
    SECOND_MS,
    parse_cpus,
    parse_duration,
    parse_memory,
    parse_size,
)
from stellwerk.core.model.task import ResourceRequest

Plain = dict[str, Any]
PROSE = ("about", "note", "what", "title", "onprem", "arithmetic")
SELECTOR_KEYS = ("count", "memory_gb_min", "memory_gb", "vendor")
PLAIN_KEYS = (
    "priority", "priority_class", "instance_type", "accelerator_args", "disk_tier", "network_tier",
    "local_disk", "max_hourly_cost",
)  # fmt: skip
RESOURCE_KEYS = (
    "infra", "cloud", "region", "zone", "accelerators", "gpus", *SELECTOR_KEYS, "cpus", "memory",
    "disk_size", "use_spot", "ports", "labels", "image_id", "autostop", "job_recovery", *PLAIN_KEYS,
)  # fmt: skip


def in_order(resource: Plain) -> str:
    return repr(sorted(resource.items()))


def wanted_resource(case: Plain) -> Plain:
    """A resource of a case in the form of `actual_resource`."""
    result: Plain = {}
    where: Plain = {}
    for key, value in case.items():
        if key in PROSE or value is None:
            continue
        if key not in RESOURCE_KEYS:
            result[key] = "a key that no case may have"
        elif key in {"cloud", "region", "zone"}:
            where[key] = value
        elif key in {"accelerators", "gpus"}:
            result |= _wanted_accelerators(value)
        elif key not in SELECTOR_KEYS:
            result[key] = _RESOURCE_FORMS[key](value) if key in _RESOURCE_FORMS else value
    if where:
        parts = [where.get(key, "*") for key in ("cloud", "region", "zone")]
        result["infra"] = "/".join(parts).rstrip("/*")
    if any(key in case for key in SELECTOR_KEYS):
        least = "memory_gb_min" in case
        size = case.get("memory_gb_min", case.get("memory_gb"))
        result["selector"] = (size, least, case.get("count", 1), case.get("vendor"))
    return {key: value for key, value in result.items() if value not in (None, {}, [], False)}


def actual_resource(request: ResourceRequest) -> Plain:
    """The fields of a request that are set."""
    selector = request.selector
    recovery, stop = request.job_recovery, request.autostop
    result: Plain = {
        "infra": request.infra,
        "accelerators": dict(request.accelerators),
        "selector": selector
        and (selector.memory_gb, selector.at_least, selector.count, selector.vendor),
        "cpus": request.cpus,
        "memory": request.memory,
        "disk_size": request.disk_bytes,
        "use_spot": request.use_spot,
        "ports": list(request.ports),
        "labels": request.labels,
        "image_id": request.image_id,
        "autostop": stop and (stop.idle_minutes or 0, stop.down, stop.wait_for),
        "job_recovery": recovery
        and (
            recovery.strategy,
            recovery.max_restarts_on_errors,
            recovery.recover_on_exit_codes,
        ),
    }
    result |= {key: getattr(request, key) for key in PLAIN_KEYS}
    return {key: value for key, value in result.items() if value not in (None, {}, [], False)}


def _wanted_accelerators(written: Any) -> Plain:
    items = written if isinstance(written, dict) else {written: None}
    named: dict[str, float] = {}
    for name, count in items.items():
        parsed = parse_accelerator(str(name) if count is None else f"{name}:{count}")
        if isinstance(parsed, AcceleratorSelector):
            return {"selector": (parsed.memory_gb, parsed.at_least, parsed.count, parsed.vendor)}
        assert isinstance(parsed, NamedAccelerator), parsed
        named[canonical_name(parsed.name)] = parsed.count
    return {"accelerators": named}


def only(written: Plain, *keys: str) -> None:
    stray = [key for key in written if key not in keys and key not in PROSE]
    assert not stray, f"unknown keys {stray}"


def _autostop(written: Any) -> object:
    if isinstance(written, bool):
        return (0, False, None) if written else None
    if isinstance(written, dict):
        only(written, "idle_minutes", "down", "wait_for")
        down = written.get("down", False)
        return (written.get("idle_minutes", 0), down, written.get("wait_for"))
    span_ms = parse_duration(written, bare=60 * SECOND_MS)
    assert isinstance(span_ms, int)
    return (span_ms // (60 * SECOND_MS), False, None)


def _recovery(written: Any) -> object:
    if isinstance(written, str):
        return None if written.lower() == "none" else (written.upper(), None, ())
    only(written, "strategy", "max_restarts_on_errors", "recover_on_exit_codes")
    codes = written.get("recover_on_exit_codes", [])
    codes = tuple(codes) if isinstance(codes, list) else (codes,)
    strategy = written.get("strategy")
    strategy = strategy.upper() if strategy else None
    return (strategy, written.get("max_restarts_on_errors"), codes)


def _disk(written: Any) -> object:
    size = parse_size(written)
    return None if size == 256 * GIB else size


def _infra(written: str) -> str:
    kind, slash, rest = written.partition("/")
    kind = kind.lower()
    return {"k8s": "kubernetes"}.get(kind, kind) + slash + rest


_RESOURCE_FORMS: dict[str, Callable[[Any], Any]] = {
    "infra": _infra,
    "cpus": parse_cpus,
    "memory": parse_memory,
    "disk_size": _disk,
    "ports": lambda ports: [str(port) for port in (ports if isinstance(ports, list) else [ports])],
    "labels": lambda labels: {key: str(value) for key, value in labels.items()},
    "autostop": _autostop,
    "job_recovery": _recovery,
}
