"""Folds the lines of a journal and says in plain values what is known at their end.

Plain values, and not the state's own structs: those may grow while an old journal must go on to
mean what it meant.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from stellwerk.core.model import events as ev
from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.state import State, fold

read = msgspec.json.Decoder(ev.Record).decode


def summary(lines: Sequence[bytes]) -> dict[str, Any]:
    """What is alive, what has ended, what waits for what, and what the clusters are."""
    state, known = State(), dict[str, Workload]()
    for line in lines:
        fold(state, read(line))
        known.update({workload.id: workload for workload in state.drain_touched()})
    return {
        "seq": state.seq,
        "at_ms": state.at_ms,
        "epoch": state.epoch,
        "live": sorted(state.workloads),
        "running": dict(sorted(state.running.items())),
        "workloads": {id: _workload(workload) for id, workload in sorted(known.items())},
        "waiting": sorted(
            [reason.code for reason in queue.waits.reasons]
            for queue in state.shapes.values()
            if queue.waits is not None
        ),
        "nodes": {
            f"{name}/{node.name}": [node.state, node.cpus_milli, len(node.devices)]
            for name, cluster in sorted(state.clusters.items())
            for node in cluster.nodes
        },
        "placements": {
            key: [one.version, list(one.decided.clusters) if one.decided else None]
            for key, one in sorted(state.standing.placements.items())
        },
        "declared": {
            name: [one.text, one.clusters] for name, one in sorted(state.standing.declared.items())
        },
        "queue_objects": {
            key.shown: [one.generation, one.by] for key, one in sorted(state.queueing.kept.items())
        },
        "held": {
            f"{name}/{run}": sum(part.cpus_milli for part in allocation.nodes)
            for name, runs in sorted(state.allocations.items())
            for run, allocation in sorted(runs.items())
        },
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "owner": workload.owner,
        "project": workload.project,
        "phase": workload.phase,
        "priority": workload.priority,
        "order": workload.order,
        "labels": workload.labels,
        "retries": workload.retries,
        "preemptions": workload.preemptions,
        "grace_ms": workload.policies.grace_ms,
        "runs": [_run(run) for run in workload.runs],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "generation": run.generation,
        "phase": run.phase,
        "notice": run.notice,
        "reachable": run.reachable,
        "nodes": [part.node for part in run.allocation.nodes],
        "end": run.end and [run.end.how, run.end.code, run.end.signal, run.end.put_back],
        "reason": run.reason and run.reason.code,
    }
