"""Writes down how a run ended: what was seen, what it means, the last lines.

The record is complete before it has its name. The agent is told at once: who acts on an end keeps
it in a journal first, and the file survives a power cut a moment later.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from typing import Optional

from .files import (
    JSONObject,
    RunFiles,
    last_lines,
    read_json,
    sync_directory,
    sync_file,
    write_json,
)
from .preparation import Order
from .processes import kill_all_below
from .removing import remove_tree
from .sampling import oom_kills
from .slurm import asked_back
from .spec import Identity
from .stopping import End, Facts, classify
from .system import now_ms
from .telling import tell
from .wrapper import Wrapper

_LOOKED_AT = 2_000
_WRITE_TRIES = 60
_SHARED_DISK = "/tmp"  # noqa: S108 - nothing is written there, only its free space is looked at


def run_and_record(order: Order) -> None:
    """The whole life of a wrapper; whatever goes wrong, an end is written down."""
    files = order.places.run(order.spec.run)
    try:
        wrapper = Wrapper(order)
        wrapper.run()
        record = end_record(wrapper)
    except Exception:  # noqa: BLE001 - the job must not be left without an end by a fault of ours
        while kill_all_below(os.getpid()):
            time.sleep(0.05)
        _keep_traceback(files)
        message = "a fault of the runtime ended the run; wrapper.log beside its output has more"
        record = bare_record(order.spec.identity, "wrapper_died", message)
    _write_end_patiently(files, record)
    tell(order.places.inbox, {"run": order.spec.run})
    with contextlib.suppress(OSError):  # it is there; only a power cut just now could take it
        sync_file(files.ended)
        sync_directory(files.directory)


def _keep_traceback(files: RunFiles) -> None:
    with contextlib.suppress(OSError), open(files.path("wrapper.log"), "a") as log:
        log.write(traceback.format_exc())


def _write_end_patiently(files: RunFiles, record: JSONObject) -> None:
    """Write the end; on a full disk, again and again for a minute."""
    for _ in range(_WRITE_TRIES):
        with contextlib.suppress(OSError):
            write_end(files, record, durable=False)
            return
        time.sleep(1.0)
    write_end(files, record, durable=False)


def write_end(files: RunFiles, record: JSONObject, *, durable: bool = True) -> None:
    """Write ended.json, also where the job has removed the directory, or put something else in its
    place or in that of the file. Raises OSError.
    """
    if not os.path.isdir(files.directory):
        remove_tree(files.directory)
        os.makedirs(files.directory, mode=0o700, exist_ok=True)
    if os.path.isdir(files.ended):
        remove_tree(files.ended)
    write_json(files.ended, record, durable=durable)


def bare_record(identity: Identity, how: str, message: str) -> JSONObject:
    """The end of a run of which little is known."""
    return {
        "v": 1,
        **identity._asdict(),
        "how": how,
        "message": message,
        "ended_at_ms": now_ms(),
        "code": None,
        "signal": None,
        "rank": None,
        "ranks": {},
        "notice": None,
        "checkpointed": False,
        "put_back": how in {"reboot", "wrapper_died"},
        "done_said": False,
        "wrote_checkpoint": False,
        "new_checkpoint": False,
        "started_at_ms": None,
        "peak_memory_bytes": None,
        "cpu_ms": None,
        "log_bytes": None,
        "oom_kills": None,
        "of_machine": False,
        "disk_free_bytes": None,
        "setup": "none",
        "shell": None,
        "left_over": [],
        "last_lines": [],
    }


def end_record(wrapper: Wrapper) -> JSONObject:
    """What ended.json says."""
    rank, code = deciding_code(wrapper)
    done = os.path.exists(wrapper.files.done)
    commands = wrapper.before.commands
    wrote = commands is not None and has_checkpoint(commands.checkpoint_dir)
    end = _meaning(wrapper, rank, code, done_said=done, wrote_checkpoint=wrote)
    log = wrapper.files.setup_log if rank is None else wrapper.files.rank_log(rank)
    record = bare_record(wrapper.spec.identity, end.how, wrapper.message or "")
    record.update(
        code=wrapper.spawn_code if end.how == "spawn_failed" else end.code,
        signal=end.signal,
        rank=rank,
        ranks={str(number): code for number, code in sorted(wrapper.codes.items())},
        notice=wrapper.notice.as_json(),
        checkpointed=end.checkpointed,
        put_back=end.put_back,
        done_said=done,
        wrote_checkpoint=wrote,
        new_checkpoint=wrote
        and commands is not None
        and has_checkpoint(commands.checkpoint_dir, wrapper.started_at_ms),
        started_at_ms=wrapper.started_at_ms,
        peak_memory_bytes=wrapper.sampler.final_peak_bytes(),
        cpu_ms=wrapper.sampler.cpu_ms(),
        log_bytes=wrapper.limits.log_bytes(),
        oom_kills=max(0, oom_kills() - wrapper.oom_kills_before),
        of_machine=wrapper.of_machine,
        disk_free_bytes=disk_free_bytes(wrapper.files.directory, _SHARED_DISK),
        setup=wrapper.before.setup_state,
        shell=wrapper.before.shell,
        left_over=wrapper.left_over,
        last_lines=last_lines(log),
    )
    return record


def deciding_code(wrapper: Wrapper) -> tuple[Optional[int], Optional[int]]:
    """The rank whose exit code is the run's, and that code: saved, else first failed, else 0."""
    codes = wrapper.codes
    if not codes:
        return None, wrapper.before.setup_code
    saved = [rank for rank, code in codes.items() if code in wrapper.spec.put_me_back]
    if saved and wrapper.notice.why is not None:
        return saved[0], codes[saved[0]]
    if wrapper.first_failed is not None:
        return wrapper.first_failed, codes[wrapper.first_failed]
    first = min(codes)
    return first, codes[first]


def _meaning(
    wrapper: Wrapper,
    rank: Optional[int],
    code: Optional[int],
    *,
    done_said: bool,
    wrote_checkpoint: bool,
) -> End:
    notice = wrapper.notice
    end = classify(
        Facts(
            cause=wrapper.cause or "ranks",
            code=code,
            signal=None if rank is None else wrapper.signals.get(rank),
            notice=notice.why,
            withdrawn=notice.withdrawn,
            reached_by_it=notice.may_still_bite,
            reaped_codes=frozenset(wrapper.reaped_codes),
            put_me_back=wrapper.spec.put_me_back,
            done_said=done_said,
            wrote_checkpoint=wrote_checkpoint,
        )
    )
    return asked_back(end) if wrapper.wants_back else end


def disk_free_bytes(*directories: str) -> Optional[int]:
    """The least that is left for this user on the disks of these directories."""
    free = []
    for directory in directories:
        try:
            found = os.statvfs(directory)
        except OSError:
            # Gone with the job, perhaps; the others tell.
            continue
        free.append(found.f_bavail * found.f_frsize)
    return min(free) if free else None


def has_checkpoint(directory: str, since_ms: int = 0) -> bool:
    """Whether the directory holds any file that was written since a time (UTC milliseconds).

    Looks at a bounded number of entries.
    """
    waiting, looked_at = [directory], 0
    while waiting and looked_at < _LOOKED_AT:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    looked_at += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file() and entry.stat().st_mtime_ns >= since_ms * 1_000_000:
                        return True
        except OSError:
            continue
    return False


def reboot_record(files: RunFiles, identity: Identity) -> JSONObject:
    """The end of a run that was cut off when its machine started anew."""
    record = bare_record(identity, "reboot", "the machine started anew while the run was going on")
    started = read_json(files.started) or {}
    record.update(started_at_ms=started.get("at_ms"), last_lines=last_lines(files.rank_log(0)))
    return record
