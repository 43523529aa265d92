"""Facts as they were written before they could say more still fold, and mean what they did."""

import msgspec

from stellwerk.core.invariants import violations
from stellwerk.core.model import events as ev
from stellwerk.core.state import State, fold

SUBMIT = {
    "id": "w-1",
    "name": "job",
    "project": "p",
    "shape": {"alternatives": [{"request": {"memory_bytes": 8}}]},
    "task": "0",
    "policies": {"max_restarts_on_errors": 2},
}
NODE = {"name": "n1", "cpus_milli": 4000, "memory_bytes": 99}
PLANNED = {
    "type": "run-planned",
    "workload": "w-1",
    "allocation": {"cluster": "lab", "nodes": [{"node": "n1", "cpus_milli": 1000}]},
    "decision": "d-1",
}
REASON = {"code": "exit_code", "params": {"exit_code": 1}}
EVENTS: list[dict[str, object]] = [
    {"type": "cluster-observed", "cluster": {"name": "lab", "driver": "local", "nodes": [NODE]}},
    {"type": "submitted", "owner": "ada", "submit": SUBMIT},
    {**PLANNED, "run": "w-1-1", "generation": 1},
    {"type": "run-progressed", "run": "w-1-1", "phase": "Running"},
    {"type": "run-ended", "run": "w-1-1", "end": {"how": "exited", "code": 1}, "reason": REASON},
    {"type": "requeued", "id": "w-1", "reason": REASON, "not_before_ms": 5, "charged": True},
    {**PLANNED, "run": "w-1-2", "generation": 2},
    {"type": "run-progressed", "run": "w-1-2", "phase": "Running"},
    {"type": "notice-given", "run": "w-1-2", "why": "preempt", "grace_ms": 30_000},
]


def test_facts_of_before_telemetry_and_quarantine() -> None:
    """No node is blamed, no shape changes, and a notice has no more of a reason than its cause."""
    state = State()
    for seq, event in enumerate(EVENTS, 1):
        record = {"seq": seq, "at_ms": seq, "epoch": 1, "actor": "a", "project": "p"}
        line = msgspec.json.encode({**record, "event": event})
        fold(state, msgspec.json.decode(line, type=ev.Record))
    assert not violations(state)
    (workload,) = state.workloads.values()
    assert (workload.phase, workload.retries, len(state.shapes)) == ("Stopping", 1, 1)
    assert workload.runs[-1].notice_reason is None
    assert (state.faults, state.quarantined) == ({}, {})
    assert state.clusters == state.observed
