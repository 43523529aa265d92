"""What must hold after the soak, each as the complaints about it."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stellwerk.client import Client
from stellwerk.engine.taking_over import load_state
from stellwerk.store import Store, WorkloadFilter
from tests.flows.person import pids
from tests.soak.crowd import Expected

UNFINISHED_NAMES = (".tmp", ".unfinished")
"""A blob's beginning isn't among them: an interrupted `put` leaves it to the garbage collection."""

FD_SLACK = 4
HELPERS_S = 10
"""A helper of the agent, as for a look at the machine, may live for a moment longer than it."""


class Usage(NamedTuple):
    """What server, agent and disk hold at a quiet moment, when so many runs have ended."""

    runs: int
    server_files: int
    agent_files: int
    disk_bytes: int

    def __str__(self) -> str:
        each = self.disk_bytes / max(1, self.runs) / 1000
        return (
            f"{self.runs} runs ended; open files: server {self.server_files}, "
            f"agent {self.agent_files}; disk {self.disk_bytes / 1e6:.1f} MB, {each:.0f} kB a run"
        )


def usage(state: Path, server: int, agent: int) -> Usage:
    """Looks now."""
    ended = sum(1 for _ in (state / "runtime" / "runs").glob("*/ended.json"))
    disk = sum(path.lstat().st_blocks * 512 for path in state.rglob("*"))
    return Usage(ended, _open_files(server), _open_files(agent), disk)


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def every_workload_ended_as_it_must(
    client: Client, expected: Iterable[Expected], said: Path
) -> Iterator[str]:
    """All that was acknowledged is there, has ended so, and each of its runs ran once."""
    for one in expected:
        show = client.get(one.id)
        if show.phase != one.kind.phase:
            why = "; ".join(reason.sentence for reason in show.reasons)
            yield f"{one.name} ({one.kind.name}) is {show.phase}, not {one.kind.phase}: {why}"
        file = said / one.id
        lines = file.read_text().split() if file.exists() else []
        runs = [f"{one.id}-{number}" for number in range(1, one.kind.runs + 1)]
        right = lines == runs or (one.kind.phase == "Cancelled" and lines in (runs[:1], []))
        if not right:
            yield f"{one.name} ({one.kind.name}) ran as {lines}, not as {runs}"


def the_store_agrees_with_itself(home: Path, expected: Iterable[Expected]) -> Iterator[str]:
    """Nobody else is using it: verified, and folded anew from its journal."""
    with Store.open(home) as store:
        yield from (str(problem) for problem in store.verify())
        state, _ = load_state(store)
        if state.workloads:
            yield f"still alive after a fold of the journal: {sorted(state.workloads)[:5]}"
        known = {row.workload.id for row in store.workloads(WorkloadFilter(live=False))}
        for one in expected:
            if one.id not in known:
                yield f"{one.name} was acknowledged and is not there"
        extra = known - {one.id for one in expected}
        if extra:
            yield f"{len(extra)} workloads that nobody submitted: {sorted(extra)[:5]}"


def nothing_is_left_over(folder: Path) -> Iterator[str]:
    """Server and agent have ended: no process is left, and no file that was never finished."""
    gone_by = time.monotonic() + HELPERS_S
    while (left := _processes_of(folder)) and time.monotonic() < gone_by:
        time.sleep(0.2)
    for pid, command in left.items():
        yield f"process {pid} is left: {command[:150]!r}"
    for path in (folder / "state").rglob("*"):
        if path.name.endswith(UNFINISHED_NAMES):
            yield f"{path.relative_to(folder)} was never finished"


def _processes_of(folder: Path) -> dict[int, str]:
    mark, found = str(folder).encode(), {}
    for pid in set(pids()) - {os.getpid()}:
        with suppress(OSError):
            parts = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
            if any(mark in part for part in parts):
                found[pid] = parts[0].decode(errors="replace")
    return found


def usage_is_flat(first: Usage, last: Usage) -> Iterator[str]:
    """No file stays open for a run that has ended, and a run costs no more disk than at first."""
    if last.server_files > first.server_files + FD_SLACK:
        yield f"the server has {last.server_files} files open, {first.server_files} at first"
    if last.agent_files > first.agent_files + FD_SLACK:
        yield f"the agent has {last.agent_files} files open, {first.agent_files} at first"
    before, now = first.disk_bytes / first.runs, last.disk_bytes / last.runs
    if now > 1.3 * before:
        yield f"a run takes {now / 1000:.0f} kB of disk, {before / 1000:.0f} kB at first"
