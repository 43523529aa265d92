"""From orders to the runtime's words, and from the runtime's words to reports. Pure.

The runtime's fields are described in `docs/runtime.md`; what an older or newer runtime leaves out
or adds must not stop a report, so everything here has a default.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Inventory, RunReport, RunSample
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.core.model.workload import NoticeWhy, RunEnd, RunPhase
from stellwerk.drivers.base import StartOrder

JSONObject = Mapping[str, Any]

SPEC_VERSION = 1
MOST = 1 << 53
"""A larger number is nonsense, which neither a journal nor somebody's reader can take."""
NEVER_MS = 253_402_300_800_000
"""The year 10000, which is no time at all for calendars."""
WHYS: dict[str, NoticeWhy] = {
    "cancel": "cancel",
    "preempt": "preempt",
    "window": "window",
    "time_limit": "time_limit",
    "console": "console",
}
PHASES: dict[str, RunPhase] = {
    "starting": "Starting",
    "setting_up": "SettingUp",
    "running": "Running",
    "stopping": "Stopping",
    "ended": "Ended",
}


def spec_of(order: StartOrder, now_ms: int = 0) -> dict[str, Any]:
    """The runtime's spec for an order, without the values of secrets.

    A window ends so long after ``now_ms``: its machine counts from there by a clock of its own that
    nobody sets.
    """
    return {
        "v": SPEC_VERSION,
        "run": order.run,
        "generation": order.generation,
        "epoch": order.epoch,
        "workload": order.workload,
        "name": order.name,
        "project": order.project,
        "script": None if order.argv else order.script,
        "argv": list(order.argv) or None,
        "setup": order.setup or None,
        "setup_env": order.setup_env,
        "cwd": order.cwd or None,
        "checkpoint_dir": order.checkpoint_dir or None,
        "output_dir": order.output_dir or None,
        "env": order.env,
        "inherit_env": order.inherit_env,
        "shell": order.shell,
        "ranks": [{"rank": rank.rank, "env": rank.env} for rank in order.ranks],
        "grace_ms": order.grace_ms,
        "term_signals": [[number, lead_ms] for number, lead_ms in order.term_signals],
        "recover_on_exit_codes": list(order.recover_on_exit_codes),
        "time_limit_ms": order.time_limit_ms or None,
        "window_end_in_ms": max(1, order.window_end_ms - now_ms) if order.window_end_ms else None,
        "log_limit_bytes": order.log_limit_bytes,
        **({"holds": held} if (held := holds_of(order)) else {}),
    }


def holds_of(order: StartOrder) -> dict[str, Any]:
    """What a run was given on the machines of its ranks, as other Stellwerks there are told."""
    if order.allocation is None:
        return {}
    nodes = {rank.node for rank in order.ranks}
    parts = [part for part in order.allocation.nodes if part.node in nodes]
    gpus: dict[str, int] = {}
    for share in (share for part in parts for share in part.devices):
        gpus[str(share.index)] = gpus.get(str(share.index), 0) + share.memory_bytes
    return {
        "cpus_milli": sum(part.cpus_milli for part in parts),
        "memory_bytes": sum(part.memory_bytes for part in parts),
        "gpus": gpus,
    }


def report_of(cluster: str, said: JSONObject, ahead_ms: int = 0) -> RunReport:
    """What the runtime says of a run, as a report; its clock may be ahead of ours."""
    ended = said.get("ended")
    status = said.get("status") or {}
    return RunReport(
        cluster=cluster,
        run=RunId(str(said["run"])),
        generation=_number(said.get("generation")),
        phase="Ended" if ended else PHASES.get(str(said.get("state")), "Starting"),
        end=end_of(ended, ahead_ms) if ended else None,
        at_ms=_time((ended or {}).get("ended_at_ms") or status.get("at_ms"), ahead_ms),
        why=_why(status.get("notice") or {}),
    )


def _why(notice: JSONObject) -> NoticeWhy | Literal[""]:
    """Why the runtime gave notice, unless that was taken back."""
    found = WHYS.get(str(notice.get("why")))
    return "" if found is None or notice.get("withdrawn_at_ms") else found


def sample_of(cluster: str, push: JSONObject, ahead_ms: int = 0) -> RunSample:
    """What the runtime measured of a run."""
    sample = push.get("sample") or {}
    return RunSample(
        cluster=cluster,
        run=RunId(str(push.get("run"))),
        at_ms=_time(sample.get("at_ms"), ahead_ms),
        memory_bytes=_number(sample.get("memory_bytes")),
        cpu_ms=_number(sample.get("cpu_ms")),
        processes=_number(sample.get("processes")),
        log_bytes=_number(sample.get("log_bytes")),
        peak_memory_bytes=_number(sample.get("peak_memory_bytes")),
        guest_cpu_ms=_optional_number(sample.get("guest_cpu_ms")),
        guest_typed_bytes=_number(sample.get("guest_typed_bytes")),
        guest_carried_bytes=_number(sample.get("guest_carried_bytes")),
        gpus=tuple(
            GpuUse(
                index=_number(gpu.get("index")),
                memory_bytes=_optional_number(gpu.get("memory_bytes")),
                busy_percent=_optional_number(gpu.get("busy_percent")),
                free_bytes=_optional_number(gpu.get("free_bytes")),
            )
            for gpu in sample.get("gpus") or ()
        ),
    )


def why_of(why: NoticeWhy) -> str:
    """The runtime's word for the cause of a notice; it puts an aborted run back no more than that
    of somebody who cancelled, and one whose machine is drained as any other that is preempted.
    """
    return {"abort": "cancel", "drain": "preempt"}.get(why, why)


def inventory_of(
    cluster: str, runs: Sequence[JSONObject], asked_at_ms: int, ahead_ms: int = 0
) -> Inventory:
    """All runs of a machine, by name; ``asked_at_ms`` is by our clock."""
    reports = (report_of(cluster, said, ahead_ms) for said in runs)
    return Inventory(cluster, tuple(sorted(reports, key=lambda report: report.run)), asked_at_ms)


def end_of(ended: JSONObject, ahead_ms: int = 0) -> RunEnd:
    """How a run ended, from the record that the runtime wrote by its own clock."""
    ranks = ended.get("ranks") or {}
    return RunEnd(
        how=str(ended.get("how", "unknown")),
        code=_optional_number(ended.get("code")),
        signal=_optional_number(ended.get("signal")),
        rank=_number(ended.get("rank")),
        ranks={str(rank): _number(code) for rank, code in ranks.items() if int(rank) >= 0},
        put_back=ended.get("put_back") is True,
        checkpointed=ended.get("checkpointed") is True,
        new_checkpoint=ended.get("new_checkpoint") is True,
        started_at_ms=_time(ended.get("started_at_ms"), ahead_ms),
        ended_at_ms=_time(ended.get("ended_at_ms"), ahead_ms),
        peak_memory_bytes=_number(ended.get("peak_memory_bytes")),
        cpu_ms=_number(ended.get("cpu_ms")),
        message=str(ended.get("message") or ""),
        last_lines=tuple(str(line) for line in ended.get("last_lines") or ()),
        oom_kills=_number(ended.get("oom_kills")),
        of_machine=ended.get("of_machine") is True,
        disk_free_bytes=_optional_number(ended.get("disk_free_bytes")),
    )


def _number(value: object) -> int:
    return _optional_number(value) or 0


def _time(value: object, ahead_ms: int) -> int:
    """A time by our clock; what didn't happen stays 0."""
    said = _number(value)
    return said - ahead_ms if 0 < said < NEVER_MS else 0


def _optional_number(value: object) -> int | None:
    return value if type(value) is int and abs(value) < MOST else None
