"""Says where a task differs from what a case expects of it, in the words of the case.

A resource is compared whole: a field that the case leaves out must be unset. So are the parts of a
task that the case file names in its header. A summary (a service) is compared as far as it goes.
"""

from collections.abc import Callable
from typing import Any

from stellwerk.core.model.quantity import SECOND_MS, parse_duration
from stellwerk.core.model.task import (
    Dag,
    GitWorkdir,
    SecretRef,
    Service,
    StorageMount,
    Task,
    VolumeMount,
)
from tests.conformance.sky_resources import (
    PROSE,
    RESOURCE_KEYS,
    Plain,
    actual_resource,
    in_order,
    only,
    wanted_resource,
)

WHOLE = (
    "name", "num_nodes", "resources", "envs", "secrets", "managed_secrets", "workdir",
    "file_mounts", "storage", "volumes", "service", "pool",
)  # fmt: skip
"""What must be unset where a case doesn't name it."""

_UNSET: tuple[object, ...] = ((), [], {}, "")


def differences(expected: Plain, found: Task | Dag, *, partly: bool = False) -> list[str]:
    """Every difference, as a sentence; with `partly` only what the case names is compared."""
    if "dag" in expected or "tasks" in expected or isinstance(found, Dag):
        dag = found if isinstance(found, Dag) else Dag(name=found.name, tasks=(found,))
        return _of_dag(expected, dag)
    return _of_task(expected, found, partly=partly)


def _of_dag(expected: Plain, found: Dag) -> list[str]:
    actual: Plain = {
        "dag": found.name,
        "name": found.name,
        "execution": found.execution,
        "tasks": [task.name for task in found.tasks],
        "primary_tasks": list(found.primary_tasks),
        "termination_delay": found.termination_delay_ms,
        "inter_connection": found.inter_connection,
    }
    wanted = {key: value for key, value in expected.items() if key not in PROSE}
    result = [f"unknown key `{key}`" for key in wanted if key not in actual]
    tasks = wanted.get("tasks", [])
    if any(isinstance(task, dict) for task in tasks):
        for i, (part, task) in enumerate(zip(tasks, found.tasks, strict=False)):
            result += [f"tasks[{i}]: {line}" for line in _of_task(part, task, partly=False)]
        wanted["tasks"] = [task["name"] if isinstance(task, dict) else task for task in tasks]
    if "termination_delay" in wanted:
        delays = wanted["termination_delay"]
        delays = delays if isinstance(delays, dict) else {"default": delays}
        wanted["termination_delay"] = {key: parse_duration(delay) for key, delay in delays.items()}
    for key in ("primary_tasks", "termination_delay"):
        if actual[key] and key not in wanted:
            result.append(f"`{key}` is {actual[key]!r}, the case has none")
    return result + [
        f"`{key}` is {actual[key]!r}, not {wanted[key]!r}"
        for key in wanted
        if key in actual and (actual[key] or None) != (wanted[key] or None)
    ]


def _of_task(expected: Plain, found: Task, *, partly: bool) -> list[str]:
    wanted = {key: value for key, value in expected.items() if key not in PROSE}
    on_top = {key: wanted.pop(key) for key in RESOURCE_KEYS if key in wanted}
    if on_top and "resources" not in wanted:
        # A case with one resource may name its fields beside the task's own.
        wanted["resources"] = [on_top]
    result: list[str] = []
    compare = {**_PARTS, "choice": _choice}
    for key, value in wanted.items():
        if key not in compare:
            result.append(f"unknown key `{key}`")
        else:
            result += [f"`{key}`: {line}" for line in compare[key](value, found)]
    if not partly:
        empty: Plain = {"num_nodes": 1, "resources": [{}]}
        for key in WHOLE:
            if key not in wanted and compare[key](empty.get(key), found):
                result.append(f"`{key}` is set, and the case leaves it out")
    return result


def _same(expected: object, actual: object) -> list[str]:
    expected = None if expected in _UNSET else expected
    actual = None if actual in _UNSET else actual
    return [] if expected == actual else [f"is {actual!r}, not {expected!r}"]


def _choice(expected: Any, task: Task) -> list[str]:
    right: list[str] = [task.choice]
    if len(task.resources) == 1:
        # An order of one is one, and a card by its memory is any of those that have it.
        right += ["ordered", "any_of"] if task.resources[0].selector else ["ordered"]
    return [] if expected in right else _same(expected, task.choice)


def _resources(expected: Any, task: Task) -> list[str]:
    cases = [expected] if isinstance(expected, dict) else expected or [{}]
    wanted = [wanted_resource(one) for one in cases]
    actual = [actual_resource(one) for one in task.resources]
    _forgive_leaked_labels(wanted, actual)
    if task.choice != "ordered":
        wanted, actual = sorted(wanted, key=in_order), sorted(actual, key=in_order)
    if len(wanted) != len(actual):
        return [f"there are {len(actual)}, not {len(wanted)}"]
    result: list[str] = []
    for i, (want, have) in enumerate(zip(wanted, actual, strict=True)):
        image = want.get("image_id")
        if isinstance(image, dict) and len(image) == 1 and isinstance(have.get("image_id"), str):
            # SkyPilot notes an image under the one region or context it is for.
            want["image_id"] = next(iter(image.values()))
        result += [
            f"[{i}].{key} is {have.get(key)!r}, not {want.get(key)!r}"
            for key in dict.fromkeys([*want, *have])
            if want.get(key) != have.get(key)
        ]
    return result


def _forgive_leaked_labels(wanted: list[Plain], actual: list[Plain]) -> None:
    """SkyPilot lets the labels of one entry reach all others; a case may have noted that.

    Here they stay with their entry, on purpose (docs/task-file.md), so such a case isn't compared
    on labels: it is one in which all entries have the labels of all.
    """
    leaked: Plain = {}
    for resource in actual:
        leaked |= resource.get("labels", {})
    if len(wanted) > 1 and leaked and all(one.get("labels") == leaked for one in wanted):
        for resource in (*wanted, *actual):
            resource.pop("labels", None)


def _names(expected: Any) -> list[str]:
    return sorted(str(name) for name in expected or [])


def _managed(expected: Any, task: Task) -> list[str]:
    def named(entry: Any) -> tuple[str, str | None]:
        if isinstance(entry, dict):
            if "name" in entry:
                return (entry["name"], entry.get("mount_path"))
            ((name, options),) = entry.items()
            only(options or {}, "mount_path", "scope")
            return (name, (options or {}).get("mount_path"))
        return (str(entry), None)

    def actual(ref: SecretRef, wanted: tuple[str, str | None]) -> tuple[str, str | None]:
        name, mount = wanted
        scoped = f"{ref.scope}." in name
        written = (f"{ref.scope}." if scoped else "") + ref.name
        return (written, ref.mount_path if mount else None)

    wanted = [named(entry) for entry in expected or []]
    wanted = [(name.removeprefix("secrets:"), mount) for name, mount in wanted]
    if len(wanted) != len(task.managed_secrets):
        return _same([name for name, _ in wanted], [ref.name for ref in task.managed_secrets])
    by_name = sorted(task.managed_secrets, key=lambda ref: ref.name)
    wanted.sort(key=lambda pair: pair[0].rpartition(".")[2])
    found = [actual(ref, want) for ref, want in zip(by_name, wanted, strict=True)]
    return _same(wanted, found)


def _workdir(expected: Any, task: Task) -> list[str]:
    actual: Any = task.workdir
    if isinstance(actual, GitWorkdir):
        actual = {"url": actual.url} | ({"ref": actual.ref} if actual.ref else {})
    return _same(expected, actual)


def _storage(expected: Any, task: Task) -> list[str]:
    def wanted(case: Plain) -> StorageMount:
        only(case, "name", "source", "mode", "store", "persistent", "config", "type")
        source = case.get("source")
        store = case.get("store")
        return StorageMount(
            name=case.get("name"),
            source=tuple(source) if isinstance(source, list) else source,
            mode=case.get("mode", "MOUNT").upper(),
            store=store.upper() if store else None,
            persistent=case.get("persistent", True),
            config=case.get("config", {}),
            type=case.get("type"),
        )

    return _same({path: wanted(case) for path, case in (expected or {}).items()}, task.storage)


def _volumes(expected: Any, task: Task) -> list[str]:
    def written(volume: VolumeMount) -> Any:
        return volume.as_written

    return _same(expected or {}, {path: written(one) for path, one in task.volumes.items()})


def _service(expected: Any, task: Task) -> list[str]:
    if expected is None or task.service is None:
        return [] if expected is None and task.service is None else _same(expected, task.service)
    actual = _flat_service(task.service)
    return _of_summary(expected, actual)


def _of_summary(expected: Plain, actual: Plain) -> list[str]:
    result: list[str] = []
    for key, value in expected.items():
        if key in PROSE:
            continue
        if key not in actual:
            result.append(f"unknown key `{key}`")
        elif isinstance(value, dict) and isinstance(actual[key], dict) and key in _NESTED:
            result += [f"{key}: {line}" for line in _of_summary(value, actual)]
        elif value != actual[key] and not _is_short_probe(key, value, actual):
            result.append(f"`{key}` is {actual[key]!r}, not {value!r}")
    return result


_NESTED = ("readiness_probe", "replica_policy")


def _is_short_probe(key: str, value: Any, actual: Plain) -> bool:
    return bool(key == "readiness_probe" and value == actual["path"])


def _seconds(span_ms: int | None) -> float | None:
    return None if span_ms is None else span_ms / SECOND_MS


def _flat_service(service: Service) -> Plain:
    probe, policy = service.readiness_probe, service.replica_policy
    flat: Plain = {
        "path": probe.path,
        "probe_path": probe.path,
        "post_data": probe.post_data,
        "headers": probe.headers,
        "initial_delay_seconds": _seconds(probe.initial_delay_ms),
        "timeout_seconds": _seconds(probe.timeout_ms),
        "endpoint_probe_interval_seconds": _seconds(probe.interval_ms),
        "consecutive_failure_threshold_timeout": _seconds(probe.failure_threshold_ms),
        "min_replicas": policy.min_replicas,
        "replicas": policy.min_replicas,
        "max_replicas": policy.max_replicas,
        "num_overprovision": policy.num_overprovision,
        "target_qps_per_replica": policy.target_qps_per_replica,
        "upscale_delay_seconds": _seconds(policy.upscale_delay_ms),
        "downscale_delay_seconds": _seconds(policy.downscale_delay_ms),
        "dynamic_ondemand_fallback": policy.dynamic_ondemand_fallback,
        "base_ondemand_fallback_replicas": policy.base_ondemand_fallback_replicas,
        "spot_placer": policy.spot_placer,
        "load_balancing_policy": service.load_balancing_policy,
        "ports": int(service.ports) if service.ports else None,
        "tls": service.tls,
        "stream_timeout_seconds": _seconds(service.stream_timeout_ms),
    }
    if isinstance(probe.post_data, dict):
        flat |= {f"probe_{key}": value for key, value in probe.post_data.items()}
    return {**flat, "readiness_probe": dict(flat), "replica_policy": dict(flat)}


def _pool(expected: Any, task: Task) -> list[str]:
    pool = task.pool
    actual: Plain = {} if pool is None else {
        "workers": pool.workers,
        "min_workers": pool.min_workers,
        "max_workers": pool.max_workers,
        "queue_length_threshold": pool.queue_length_threshold,
        "upscale_delay_seconds": _seconds(pool.upscale_delay_ms),
        "downscale_delay_seconds": _seconds(pool.downscale_delay_ms),
    }  # fmt: skip
    wanted = expected or {}
    for key in ("min_workers", "queue_length_threshold"):
        # A pool that follows its queue has defaults for these; a case needn't name them.
        if key not in wanted and "max_workers" in wanted and actual.get(key) == 1:
            actual.pop(key)
    return _same(wanted, {key: value for key, value in actual.items() if value is not None})


def _hooks(expected: Any, task: Task) -> list[str]:
    hooks = task.hooks
    if isinstance(expected, int):
        return _same(expected, len(hooks))
    if len(expected or []) != len(hooks):
        return [f"there are {len(hooks)}, not {len(expected or [])}"]
    result: list[str] = []
    for want, hook in zip(expected or [], hooks, strict=True):
        have: Plain = {
            "run": hook.run,
            "events": list(hook.events),
            "timeout": hook.timeout_ms // SECOND_MS,
        }
        wanted = want if isinstance(want, dict) else {"run": want}
        for key, value in wanted.items():
            stripped = value.strip() if isinstance(value, str) else value
            actual = have.get(key)
            result += _same(stripped, actual.strip() if isinstance(actual, str) else actual)
    return result


def _config(expected: Any, task: Task) -> list[str]:
    wanted = {key: value for key, value in (expected or {}).items() if key != "hooks"}
    result = _same(wanted, task.config)
    if expected and "hooks" in expected:
        result += _hooks(expected["hooks"], task)
    return result


def _texts(expected: Any) -> Plain:
    return {key: str(value) for key, value in (expected or {}).items()}


def _plain_field(name: str) -> Callable[[Any, Task], list[str]]:
    return lambda expected, task: _same(expected, getattr(task, name))


_PARTS: dict[str, Callable[[Any, Task], list[str]]] = {
    "name": _plain_field("name"),
    "num_nodes": _plain_field("num_nodes"),
    "resources": _resources,
    "envs": lambda expected, task: _same(_texts(expected), task.envs),
    "secrets": lambda expected, task: _same(_names(expected), _names(task.secrets)),
    "managed_secrets": _managed,
    "workdir": _workdir,
    "file_mounts": lambda expected, task: _same(expected or {}, task.file_mounts),
    "storage": _storage,
    "volumes": _volumes,
    "service": _service,
    "pool": _pool,
    "hooks": _hooks,
    "config": _config,
    "event_callback": _plain_field("event_callback"),
    "setup": _plain_field("setup"),
    "run": _plain_field("run"),
    "inputs": _plain_field("inputs"),
    "outputs": _plain_field("outputs"),
}
