"""What the parts of a run over several hosts say together, and which order follows. Pure.

Each host has a part: a run of its own agent, which knows the hosts of all others. The parts' ranks
start when every part is prepared: first those of the head, the host of rank 0, whose record of it
decides for all, then those of the others. What a part says is all there is to know, so whoever
hears the parts anew goes on where another has stopped.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from stellwerk.core.model.reports import RunReport
from stellwerk.core.model.workload import RunEnd, RunPhase
from stellwerk.drivers.agents.translate import report_of

JSONObject = Mapping[str, Any]
FAILED = 4
"""The gravity of an end by its own failure."""
PEER = "peer"
"""The runtime's word for a part that was ended because another one was over."""
LOST = ("reboot", "wrapper_died", "machine_lost")
ECHOES = ("by peer", "Broken pipe", "remote process exited", "Connection refused")
"""Words of ranks that fail because another one has: they have lost it."""
ABORTED = 128 + 6
"""How libraries that exchange data end a rank that has lost another one, whatever it says last."""
NOT_BEGUN: tuple[RunPhase, ...] = ("Starting", "SettingUp")


class Host(NamedTuple):
    """A host of a gang, by its node's name, and the ranks there."""

    node: str
    ranks: tuple[int, ...]


class Part(NamedTuple):
    """What one host says of its part: a report as if it were all of the run, and how far it is."""

    hosts: tuple[Host, ...]
    host: int
    report: RunReport
    prepared: bool = False
    released: bool = False
    port: str = ""
    done_said: bool = False
    notice: str = ""
    failed_at_ms: int = 0
    door: tuple[int, tuple[str, ...]] | None = None
    ways: Mapping[str, str] | None = None
    stands_in: bool = False
    launches: Mapping[str, tuple[int, str]] = {}
    launched: Mapping[str, int | None] = {}
    addresses: tuple[str, ...] = ()
    cut_off_ms: int = 0

    @property
    def end(self) -> RunEnd | None:
        """How it ended, if it has."""
        return self.report.end

    @property
    def node(self) -> str:
        """The host's name as a node."""
        return self.hosts[self.host].node


def part_of(cluster: str, said: JSONObject, ahead_ms: int = 0) -> Part | None:
    """Reads what an agent says of a run; None where the run is no part of a gang."""
    gang: Any = said.get("gang")
    try:
        hosts = tuple(Host(str(one["node"]), tuple(one["ranks"])) for one in gang["hosts"])
        host = int(gang["host"])
        first = hosts[host].ranks[0]
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    report = report_of(cluster, said, ahead_ms)
    ended, status = said.get("ended") or {}, said.get("status") or {}
    if report.end is not None and ended.get("rank") is None:
        report = replace(report, end=replace(report.end, rank=first))
    far = status.get("gang") or {}
    notice = (ended or status).get("notice") or {}
    return Part(
        hosts,
        host,
        report,
        prepared=far.get("prepared") is True,
        released=far.get("released") is True,
        port=str(far.get("port") or ""),
        done_said=ended.get("done_said") is True,
        door=_door_of(far.get("door")),
        ways=far.get("ways"),
        addresses=tuple(map(str, far.get("addresses") or ())),
        cut_off_ms=int(gang.get("cut_off_ms") or 0),
        stands_in=far.get("stands_in") is True,
        launches=_launches_of(far.get("launches")),
        launched=dict(far.get("launched") or {}),
        failed_at_ms=max(0, int(far.get("failed_at_ms") or 0) - ahead_ms),
        notice="" if notice.get("withdrawn_at_ms") else str(notice.get("why") or ""),
    )


def _door_of(said: Any) -> tuple[int, tuple[str, ...]] | None:
    return (int(said["port"]), tuple(map(str, said["addresses"]))) if said else None


def _launches_of(said: Any) -> dict[str, tuple[int, str]]:
    return {str(ident): (int(one[0]), str(one[1])) for ident, one in (said or {}).items()}


def lost_part(part: Part, now_ms: int) -> Part:
    """A part of which its host, which answers, has no record any more."""
    message = f"{part.node} has no record of it"
    end = RunEnd(
        how="machine_lost",
        rank=part.hosts[part.host].ranks[0],
        message=message,
        ended_at_ms=now_ms,
        put_back=True,
    )
    return part._replace(report=replace(part.report, phase="Ended", end=end))


def failed(part: Part) -> bool:
    """Whether a part is over, or a rank of it, in a way in which the others can't go on."""
    end = part.end
    if end is None:
        return part.failed_at_ms > 0
    return not part.released or end.how != "exited" or end.code != 0 or end.put_back


class Step(NamedTuple):
    """An order for one host: look for the head, start the ranks, or end as another part is over.

    Where MPI starts its ranks: start something of the head's, tell the head how that ended, or end
    well since the head has.
    """

    op: Literal["go", "find", "peer", "launch", "launched", "over"]
    host: int
    fields: dict[str, Any]

    @property
    def key(self) -> tuple[str, ...]:
        """What it is, so that it isn't given twice at a time."""
        return (self.op, str(self.host), str(self.fields.get("launch", "")))


def next_steps(
    parts: Mapping[int, Part], connected: Collection[int], known: str, *, may_go: bool
) -> list[Step]:
    """Says what is to be ordered now; ``may_go``: the control plane wants this run to begin.

    ``known`` is the address by which the head is known ("" = not known).
    An order that was given may be given again.
    """
    if any(failed(part) for part in parts.values()):
        return [
            Step("peer", host, {})
            for host, part in sorted(parts.items())
            if part.end is None and not part.notice and not failed(part) and host in connected
        ]
    head = parts.get(0)
    if head is None:
        return []
    if not head.released:
        ready = len(parts) == len(head.hosts) and all(part.prepared for part in parts.values())
        if not ready or not may_go or 0 not in connected:
            return []
        return _searches(parts, connected, known) or [Step("go", 0, {"env": _at(parts, known)})]
    if head.report.phase in NOT_BEGUN:
        return []
    env = {**_at(parts, known), **({"MASTER_PORT": head.port} if head.port else {})}
    steps = [
        Step("go", host, {"env": env})
        for host, part in sorted(parts.items())
        if part.prepared and not part.released and part.end is None
    ]
    steps += _launch_steps(parts)
    return [step for step in steps if step.host in connected]


def _launch_steps(parts: Mapping[int, Part]) -> list[Step]:
    """Carries what the head's MPI wants started to the others, and back how it ended."""
    head = parts[0]
    if head.end is not None:
        others = (host for host, part in sorted(parts.items()) if part.stands_in and not part.end)
        return [Step("over", host, {}) for host in others]
    steps = []
    for ident, (host, command) in sorted(head.launches.items()):
        part = parts.get(host)
        if part is None or not part.released:
            continue
        code = part.launched.get(ident)
        if code is not None:
            steps.append(Step("launched", 0, {"launch": ident, "code": code}))
        elif part.end is None and ident not in part.launched:
            steps.append(Step("launch", host, {"launch": ident, "command": command}))
    return steps


def _searches(parts: Mapping[int, Part], connected: Collection[int], known: str) -> list[Step]:
    """Has those look for the head that haven't yet, once it answers."""
    door = parts[0].door
    if door is None:
        return []
    port, addresses = door
    fields = {"addresses": list(dict.fromkeys(filter(None, (known, *addresses)))), "port": port}
    looking = [host for host, part in sorted(parts.items()) if host and part.ways is None]
    return [Step("find", host, fields) for host in looking if host in connected]


def _at(parts: Mapping[int, Part], known: str) -> dict[str, str]:
    """The first address at which all others have found the head, where it isn't the known one."""
    ways = [part.ways for host, part in parts.items() if host and part.ways is not None]
    if not ways or len(ways) + 1 < len(parts):
        return {}
    common = [at for at in ways[0] if all(way.get(at) == "" for way in ways)]
    if not common or known in common:
        return {}
    offered = parts[0].door[1] if parts[0].door else ()
    first = next((address for address in offered if address in common), common[0])
    return {"MASTER_ADDR": first}


def no_way(parts: Mapping[int, Part]) -> str:
    """Says which host has not found the head, and why; "" if all have."""
    for _, part in sorted(parts.items()):
        if part.ways and "" not in part.ways.values():
            tried = ", ".join(f"{address}: {wrong}" for address, wrong in part.ways.items())
            head = part.hosts[0].node
            return f"{part.node} can't reach {head} ({tried}); is a firewall between them?"
    return ""


def is_begun(parts: Mapping[int, Part]) -> bool:
    """Whether the ranks of a part were let go."""
    return any(part.released for part in parts.values())


def together(
    parts: Mapping[int, Part], failures: Sequence[int] = (), *, over: bool = False
) -> RunReport:
    """The report of the whole run; its end is known when those of all parts are.

    ``failures`` are hosts in the order in which they were heard to fail; ``over``: what has ended
    is all that there ever was. Until the head's ranks
    have begun the run is starting: so long it can be started again, or not at all.
    """
    reports = [part.report for _, part in sorted(parts.items())]
    first = reports[0]
    at_ms = max(report.at_ms for report in reports)
    all_known = over or len(parts) == len(next(iter(parts.values())).hosts)
    if all_known and all(report.end is not None for report in reports):
        return replace(first, phase="Ended", end=whole_end(parts, failures), at_ms=at_ms, why="")
    live = [report for report in reports if report.end is None]
    why = next((report.why for report in live if report.why), "")
    phase: RunPhase = "Starting"
    if is_begun(parts):
        phase = "Stopping" if all(one.phase == "Stopping" for one in live) else "Running"
    return replace(
        first, phase=phase, end=None, at_ms=at_ms, why=why if phase == "Stopping" else ""
    )


def whole_end(parts: Mapping[int, Part], failures: Sequence[int] = ()) -> RunEnd:
    """How the run ended: as its deciding part, with what was used by all."""
    ordered = [part for _, part in sorted(parts.items())]
    ends = [part.end for part in ordered if part.end is not None]
    part = min(ordered, key=lambda one: _gravity(one, failures))
    end = part.end
    assert end is not None
    if _is_done(ordered):
        end = replace(end, how="exited", code=0, signal=None, put_back=False)
    free = [one.disk_free_bytes for one in ends if one.disk_free_bytes is not None]
    return replace(
        end,
        ranks={rank: code for one in ends for rank, code in one.ranks.items()},
        message="; ".join(filter(None, (_message(part, end, ordered), _way_told(parts, end)))),
        checkpointed=any(one.checkpointed for one in ends),
        new_checkpoint=any(one.new_checkpoint for one in ends),
        started_at_ms=min((one.started_at_ms for one in ends if one.started_at_ms), default=0),
        ended_at_ms=max(one.ended_at_ms for one in ends),
        peak_memory_bytes=max(one.peak_memory_bytes for one in ends),
        cpu_ms=sum(one.cpu_ms for one in ends),
        oom_kills=end.oom_kills,
        disk_free_bytes=min(free) if free else None,
    )


def _way_told(parts: Mapping[int, Part], end: RunEnd) -> str:
    """What may be the cause of a failure: a host from which there is no way to the head."""
    return no_way(parts) if end.how in {"exited", "signaled"} and end.code else ""


def _is_done(parts: Sequence[Part]) -> bool:
    """Whether the job said on one host that it was done, and no other contradicts that."""
    codes = [part.end.code for part in parts if part.end is not None]
    return any(part.done_said for part in parts) and all(code == 0 for code in codes)


def _gravity(part: Part, failures: Sequence[int]) -> tuple[int, ...]:
    """What decides of several ends: a cancellation, a lost host, a notice, the first failure.

    A failure that speaks of the loss of another rank comes after those that don't. Which was first
    is known from the order in which they were heard; where that isn't known, from the hosts' own
    clocks.
    """
    end = part.end
    assert end is not None
    if end.how == "cancelled":
        rank = 0
    elif end.how in LOST:
        rank = 1
    elif end.how == "time_limit":
        rank = 2
    elif end.put_back or part.notice not in {"", PEER}:
        rank = 3
    elif end.how == PEER:
        rank = 5
    elif end.how == "exited" and end.code == 0:
        rank = 6
    else:
        rank = FAILED
    heard = failures.index(part.host) if part.host in failures else len(part.hosts)
    saved = 0 if end.checkpointed or end.put_back else 1
    return (
        rank,
        saved,
        int(rank == FAILED and _is_echo(end)),
        heard,
        part.failed_at_ms or end.ended_at_ms,
        part.host,
    )


def _is_echo(end: RunEnd) -> bool:
    said = any(word in line for line in end.last_lines for word in ECHOES)
    return said or end.code == ABORTED


def _message(part: Part, end: RunEnd, parts: Sequence[Part]) -> str:
    told = any(other.end is not None and other.end.how == PEER for other in parts)
    if end.message or end.how not in {"exited", "signaled"}:
        text = end.message and f"on {part.node}: {end.message}"
    elif told:
        text = f"rank {end.rank} on {part.node} ended with exit code {end.code}"
    else:
        return ""
    return f"{text}; then its other machines were told to end" if told and text else text
