"""Reads services and pools: probes, replicas, balancing, warm workers."""

from __future__ import annotations

import json
from typing import Any

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    boolean,
    expected,
    filled_text,
    integer,
    map_of,
    number,
    one_of,
    read_map,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.quantity import SECOND_MS
from stellwerk.core.model.task import Pool, ReadinessProbe, ReplicaPolicy, Service

BALANCING = ("round_robin", "least_load", "instance_aware_least_load")


def _seconds(report: Report, node: Node, path: str) -> int | None:
    value = number(0)(report, node, path)
    return None if value is None else round(value * SECOND_MS)


def _target_rate(report: Report, node: Node, path: str) -> Any:
    reader = map_of(number(0)) if node.kind == "map" else number(0)
    return reader(report, node, path)


_POLICY_FIELDS: dict[str, Reader] = {
    "min_replicas": integer(0),
    "max_replicas": integer(0),
    "num_overprovision": integer(0),
    "target_qps_per_replica": _target_rate,
    "dynamic_ondemand_fallback": boolean,
    "base_ondemand_fallback_replicas": integer(0),
    "spot_placer": text,
    "upscale_delay_seconds": _seconds,
    "downscale_delay_seconds": _seconds,
}
_POOL_FIELDS: dict[str, Reader] = {
    "workers": integer(0),
    "min_workers": integer(0),
    "max_workers": integer(0),
    "queue_length_threshold": integer(1),
    "upscale_delay_seconds": _seconds,
    "downscale_delay_seconds": _seconds,
}


def read_service(report: Report, node: Node) -> Service:
    """`service`, with SkyPilot's defaults for what isn't said."""
    fields: dict[str, Reader] = {
        "readiness_probe": _probe,
        "replica_policy": _policy,
        "replicas": integer(0),
        "workers": integer(0),
        "load_balancing_policy": one_of(BALANCING),
        "load_balancer": _load_balancer,
        "ports": integer(1, 65535),
        "tls": _tls,
        "pool": _misplaced_pool,
    }
    found = read_map(report, node, "service", fields)
    counts = [name for name in ("replicas", "workers", "replica_policy") if name in found]
    if len(counts) > 1:
        report.problem(
            "spec/service", found.place(counts[1]), f"service.{counts[1]}",
            f"`{counts[0]}` and `{counts[1]}` both say how many replicas there are", "keep one",
        )  # fmt: skip
    policy = found.get("replica_policy")
    if policy is None:
        policy = ReplicaPolicy(found.get("replicas", found.get("workers", 1)))
    balancing = found.get("load_balancing_policy")
    _check_balancing(report, found, policy, balancing)
    ports = found.get("ports")
    return Service(
        readiness_probe=found.get("readiness_probe") or ReadinessProbe("/"),
        replica_policy=policy,
        load_balancing_policy=balancing,
        ports=None if ports is None else str(ports),
        tls=found.get("tls", {}),
        stream_timeout_ms=found.get("load_balancer", 120 * SECOND_MS),
    )


def _check_balancing(
    report: Report, found: Found, policy: ReplicaPolicy, balancing: str | None
) -> None:
    by_card = isinstance(policy.target_qps_per_replica, dict)
    if by_card == (balancing == "instance_aware_least_load"):
        return
    report.problem(
        "spec/service",
        found.place("load_balancing_policy" if "load_balancing_policy" in found else "service"),
        "service.load_balancing_policy",
        "`instance_aware_least_load` and a `target_qps_per_replica` for each card go together",
        "give both or none",
    )


def _probe(report: Report, node: Node, path: str) -> ReadinessProbe | None:
    if node.text is not None:
        return ReadinessProbe(node.text) if _check_probe_path(report, node, path) else None
    fields: dict[str, Reader] = {
        "path": _probe_path,
        "post_data": _post_data,
        "headers": map_of(text),
        "initial_delay_seconds": _seconds,
        "timeout_seconds": _seconds,
        "endpoint_probe_interval_seconds": _seconds,
        "consecutive_failure_threshold_timeout": _seconds,
    }
    found = read_map(report, node, path, fields, required=("path",))
    if found.get("path") is None:
        return None
    return ReadinessProbe(
        path=found.get("path"),
        post_data=found.get("post_data"),
        headers=found.get("headers", {}),
        initial_delay_ms=found.get("initial_delay_seconds", 1200 * SECOND_MS),
        timeout_ms=found.get("timeout_seconds", 15 * SECOND_MS),
        interval_ms=found.get("endpoint_probe_interval_seconds", 10 * SECOND_MS),
        failure_threshold_ms=found.get("consecutive_failure_threshold_timeout"),
    )


def _probe_path(report: Report, node: Node, path: str) -> str | None:
    written = filled_text(report, node, path)
    return written if written and _check_probe_path(report, node, path) else None


def _check_probe_path(report: Report, node: Node, path: str) -> bool:
    if node.text is not None and node.text.startswith("/"):
        return True
    if node.text is not None:
        message = f"`{path}` must begin with a slash, not {node.short()}"
        report.problem("spec/service", node, path, message, "write the path, such as `/health`")
    return False


def _post_data(report: Report, node: Node, path: str) -> Any:
    if node.kind == "map":
        return node.plain()
    if node.text is None:
        expected(report, node, path, "a map, or a text with JSON")
        return None
    try:
        return json.loads(node.text)
    except (ValueError, RecursionError):
        report.problem("spec/service", node, path, f"`{path}` isn't JSON", "write it as a map")
        return None


def _policy(report: Report, node: Node, path: str) -> ReplicaPolicy:
    found = read_map(report, node, path, _POLICY_FIELDS, required=("min_replicas",))
    least, most = found.get("min_replicas", 1), found.get("max_replicas")
    rate = found.get("target_qps_per_replica")
    if "min_replicas" not in found:
        return ReplicaPolicy(least, most)
    if most is not None and most < least:
        report.problem(
            "spec/service", found.nodes["max_replicas"], f"{path}.max_replicas",
            f"`max_replicas` ({most}) is less than `min_replicas` ({least})",
        )  # fmt: skip
    elif "target_qps_per_replica" in found and "max_replicas" not in found:
        report.problem(
            "spec/service", found.keys["target_qps_per_replica"], path,
            "with `target_qps_per_replica` there must be a `max_replicas`", "add `max_replicas`",
        )  # fmt: skip
    elif most is not None and most != least and "target_qps_per_replica" not in found:
        report.problem(
            "spec/service", found.keys["max_replicas"], path,
            "nothing says when to go from `min_replicas` to `max_replicas`",
            "add `target_qps_per_replica`",
        )  # fmt: skip
    return ReplicaPolicy(
        min_replicas=least,
        max_replicas=most,
        target_qps_per_replica=rate,
        upscale_delay_ms=found.get("upscale_delay_seconds", 300 * SECOND_MS),
        downscale_delay_ms=found.get("downscale_delay_seconds", 1200 * SECOND_MS),
        num_overprovision=found.get("num_overprovision"),
        dynamic_ondemand_fallback=found.get("dynamic_ondemand_fallback"),
        base_ondemand_fallback_replicas=found.get("base_ondemand_fallback_replicas"),
        spot_placer=found.get("spot_placer"),
    )


def _load_balancer(report: Report, node: Node, path: str) -> int | None:
    found = read_map(report, node, path, {"stream_timeout_seconds": _seconds})
    timeout: int | None = found.get("stream_timeout_seconds")
    return timeout


def _tls(report: Report, node: Node, path: str) -> dict[str, str]:
    fields: dict[str, Reader] = {"keyfile": text, "certfile": text}
    return read_map(report, node, path, fields, required=("keyfile", "certfile")).values


def _misplaced_pool(report: Report, node: Node, path: str) -> None:
    report.problem("spec/service", node, path, "`pool` stands at the top level, beside `service`")


def read_pool(report: Report, node: Node) -> Pool:
    """`pool`: a fixed number of warm workers, or bounds between which it follows its queue."""
    found = read_map(report, node, "pool", _POOL_FIELDS)
    least, most = found.get("min_workers"), found.get("max_workers")

    def wrong(message: str, remedy: str, key: str) -> None:
        report.problem("spec/pool", found.place(key), "pool", message, remedy)

    if not any(name in found for name in ("workers", "min_workers", "max_workers")):
        wrong("nothing says how many workers there are", "add `workers`", "pool")
    if "max_workers" not in found:
        for key in ("queue_length_threshold", "min_workers"):
            if key in found:
                wrong(f"with `{key}` there must be a `max_workers`", "add `max_workers`", key)
                break
    elif least is not None and most is not None and least > most:
        wrong(f"`min_workers` ({least}) is more than `max_workers` ({most})", "", "min_workers")
    follows = most is not None
    return Pool(
        workers=found.get("workers"),
        min_workers=found.get("workers", 1) if least is None and follows else least,
        max_workers=most,
        queue_length_threshold=found.get("queue_length_threshold", 1 if follows else None),
        upscale_delay_ms=found.get("upscale_delay_seconds"),
        downscale_delay_ms=found.get("downscale_delay_seconds"),
    )
