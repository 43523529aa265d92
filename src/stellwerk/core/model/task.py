"""Nouns of what a person wrote: a Task, the resources it asks for, and a Dag of several tasks.

Everything here is the meaning of a task file after coercion, not its spelling: amounts are
integers (milli-CPU, bytes, milliseconds), accelerators carry their canonical names, environment
values are strings. The structs are frozen and survive a round trip through JSON.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stellwerk.core.model.devices import AcceleratorSelector
from stellwerk.core.model.errors import Notice
from stellwerk.core.model.quantity import Amount
from stellwerk.core.model.wishes import Wishes

Choice = Literal["one", "any_of", "ordered"]
StorageMode = Literal["MOUNT", "COPY", "MOUNT_CACHED"]
Execution = Literal["serial", "parallel"]
Json = Any  # what a JSON document may hold; only ever passed through


class Autostop(msgspec.Struct, frozen=True, omit_defaults=True):
    """When an idle rented cluster is stopped or removed; void where nothing is rented."""

    idle_minutes: int | None = None
    down: bool = False
    wait_for: str | None = None


class JobRecovery(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often and after which ends a job is started again."""

    strategy: str | None = None
    max_restarts_on_errors: int | None = None
    recover_on_exit_codes: tuple[int, ...] = ()
    extra: dict[str, Json] = {}


class ResourceRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One acceptable way to run a node of the task; `None` means that anything will do.

    `accelerators` maps canonical names to counts and has more than one entry only if all of them
    are wanted together. Either it or `selector` is set, never both. `infra` is normalised
    (`kubernetes/lab-ctx`, `slurm/uni/gpu`, `ssh/k017`).
    """

    infra: str | None = None
    accelerators: dict[str, float] = {}
    selector: AcceleratorSelector | None = None
    cpus: Amount | None = None  # milli-CPU
    memory: Amount | None = None  # bytes
    disk_bytes: int | None = None
    use_spot: bool | None = None
    ports: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    image_id: str | dict[str, str] | None = None
    autostop: Autostop | None = None
    job_recovery: JobRecovery | None = None
    priority: int | None = None
    priority_class: str | None = None
    instance_type: str | None = None
    accelerator_args: dict[str, Json] = {}
    disk_tier: str | None = None
    network_tier: str | None = None
    local_disk: str | None = None
    max_hourly_cost: float | None = None
    volumes: tuple[dict[str, Json], ...] = ()

    @property
    def gpus(self) -> float:
        """Accelerators wanted per node, whatever their kind; 0 for none."""
        if self.selector is not None:
            return self.selector.count
        return sum(self.accelerators.values())


class GitWorkdir(msgspec.Struct, frozen=True, omit_defaults=True):
    """A working directory that is a commit of a repository instead of a local folder."""

    url: str
    ref: str | None = None


class StorageMount(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bucket that appears as a directory; `source` may name local paths to upload first."""

    name: str | None = None
    source: str | tuple[str, ...] | None = None
    mode: StorageMode = "MOUNT"
    store: str | None = None
    persistent: bool = True
    config: dict[str, Json] = {}
    type: str | None = None


class VolumeMount(msgspec.Struct, frozen=True, omit_defaults=True):
    """A volume at a path: named, made for this task (`size_bytes`), or a host's own directory."""

    name: str | None = None
    sub_path: str | None = None
    size_bytes: int | None = None
    host_path: str | None = None
    read_only: bool = False
    as_written: Json = None


class ReadinessProbe(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a replica counts as ready: GET `path`, or POST of `post_data`."""

    path: str
    post_data: Json = None
    headers: dict[str, str] = {}
    initial_delay_ms: int = 1_200_000
    timeout_ms: int = 15_000
    interval_ms: int = 10_000
    failure_threshold_ms: int | None = None


class ReplicaPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many replicas, and what makes it more or fewer; `None` leaves the count fixed."""

    min_replicas: int = 1
    max_replicas: int | None = None
    target_qps_per_replica: float | dict[str, float] | None = None
    upscale_delay_ms: int = 300_000
    downscale_delay_ms: int = 1_200_000
    num_overprovision: int | None = None
    dynamic_ondemand_fallback: bool | None = None
    base_ondemand_fallback_replicas: int | None = None
    spot_placer: str | None = None


class Service(msgspec.Struct, frozen=True, omit_defaults=True):
    """An inference service: `run` is started on every replica and probed."""

    readiness_probe: ReadinessProbe
    replica_policy: ReplicaPolicy = ReplicaPolicy()
    load_balancing_policy: str | None = None
    ports: str | None = None
    tls: dict[str, str] = {}
    stream_timeout_ms: int = 120_000


class Pool(msgspec.Struct, frozen=True, omit_defaults=True):
    """Warm workers with `setup` done, to which jobs are sent."""

    workers: int | None = None
    min_workers: int | None = None
    max_workers: int | None = None
    queue_length_threshold: int | None = None
    upscale_delay_ms: int | None = None
    downscale_delay_ms: int | None = None


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shell text run beside the job at an event (`stop`, `preemption`, `down`)."""

    run: str
    events: tuple[str, ...] = ()
    timeout_ms: int = 3_600_000


class NoticeSignal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signal of the notice to stop (`USR1`), given so long before the end of the grace."""

    signal: str
    lead_ms: int = 0


class AbortRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition that ends a run early: `kind` with a limit in its own unit.

    `not-finite` (a metric is NaN or infinite), `no-progress`, `gpu-idle` and `idle` (`for_ms`).
    """

    kind: Literal["not-finite", "no-progress", "gpu-idle", "idle"]
    metric: str | None = None
    for_ms: int | None = None


class SecretRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A secret named in the file and valued elsewhere; `mount_path` makes it a file in the job.

    `scope` narrows where it is looked for (`personal`, `workspace`, `global`).
    """

    name: str
    scope: str | None = None
    mount_path: str | None = None


class Task(msgspec.Struct, frozen=True, tag="task", omit_defaults=True):
    """What the user wrote, with its meaning fixed.

    `setup` and `run` are bash texts, run on every one of `num_nodes` nodes. `choice` says how
    `resources` is meant: the only entry, an unordered set, or an order of preference.
    `secrets` names those whose values came with the file or a flag; the values themselves travel
    apart and are sealed, so a Task can be stored and shown. `managed_secrets` must come from the
    secret store before anything is queued. Everything under `# Stellwerk` comes from labels
    `stellwerk/…` or flags. `ignored` names what was accepted without effect.
    """

    name: str | None = None
    workdir: str | GitWorkdir | None = None
    num_nodes: int = 1
    min_nodes: int = 0
    choice: Choice = "one"
    resources: tuple[ResourceRequest, ...] = (ResourceRequest(),)
    envs: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    managed_secrets: tuple[SecretRef, ...] = ()
    file_mounts: dict[str, str] = {}
    storage: dict[str, StorageMount] = {}
    volumes: dict[str, VolumeMount] = {}
    setup: str = ""
    run: str = ""
    service: Service | None = None
    pool: Pool | None = None
    config: dict[str, Json] = {}
    hooks: tuple[Hook, ...] = ()
    event_callback: str | None = None
    inputs: dict[str, float] = {}
    outputs: dict[str, float] = {}
    labels: dict[str, str] = {}
    # Stellwerk
    priority: int | None = None
    priority_class: str | None = None
    queue: str | None = None
    gpu_memory_bytes: int | None = None
    time_limit_ms: int | None = None
    checkpoint_grace_ms: int | None = None
    protected_ms: int | None = None
    launcher: str | None = None
    processes_per_node: int | None = None
    shell: str | None = None
    placement: str | None = None
    wishes: Wishes | None = None
    move_after_ms: int | None = None
    cut_off_after_ms: int | None = None  # 0: never
    notice_signals: tuple[NoticeSignal, ...] = ()
    abort_when: tuple[AbortRule, ...] = ()
    idle_limit_ms: int | None = None  # 0: none
    setup_inputs: tuple[str, ...] | None = None
    output: str | None = None
    error_output: str | None = None
    # what the reader wants to tell
    ignored: tuple[Notice, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def job_recovery(self) -> JobRecovery | None:
        """The recovery policy, on which all alternatives that have one agree."""
        policies = (request.job_recovery for request in self.resources)
        return next((policy for policy in policies if policy is not None), None)


class Dag(msgspec.Struct, frozen=True, tag="dag", omit_defaults=True):
    """Several tasks of one file: a pipeline (`serial`) or a group started together (`parallel`)."""

    name: str | None = None
    execution: Execution = "serial"
    tasks: tuple[Task, ...] = ()
    primary_tasks: tuple[str, ...] = ()
    termination_delay_ms: dict[str, int] = {}
    inter_connection: bool | None = None
    notices: tuple[Notice, ...] = ()
