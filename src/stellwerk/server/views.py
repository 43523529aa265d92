"""Renders stored nouns as the API's models: pure, so that each sentence can be tested."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from stellwerk.core.gates import gate_reasons
from stellwerk.core.model.catalogue import render, worst_first
from stellwerk.core.model.cluster import Cluster, Device, Node
from stellwerk.core.model.decisions import Candidate, Decision, Shortfall
from stellwerk.core.model.reasons import Param, Reason, RenderedReason
from stellwerk.core.model.resources import (
    Allocation,
    Alternative,
    GpuRequest,
    NodeAllocation,
    Request,
    Shape,
)
from stellwerk.core.model.telemetry import Usage
from stellwerk.core.model.workload import ENDED, Run, RunEnd, Workload
from stellwerk.core.place.amounts import amount
from stellwerk.core.place.room import NodeRoom, gpu_name
from stellwerk.server import fleet_models, models
from stellwerk.server.telemetry_views import usage_view


class Place(NamedTuple):
    """A cluster, and since when it is as it is."""

    cluster: Cluster
    since_ms: int


Allocations = Iterable[tuple[str, Allocation]]
"""What runs hold, by run id."""


def rendered(reasons: Iterable[Reason]) -> list[RenderedReason]:
    """Reasons for people, worst first, each once."""
    unique: list[Reason] = []
    unique.extend(reason for reason in reasons if reason not in unique)
    return [render(reason) for reason in worst_first(tuple(unique))]


def headline(
    workload: Workload, shape: Shape | None, waits: Iterable[Reason], sampled: Usage | None = None
) -> dict[str, Any]:
    """The fields that a row and a page share; `waits` are the reasons its shape waits for, and
    `sampled` is what its run uses now.
    """
    run = workload.runs[-1] if workload.runs else None
    is_current = run is not None and (workload.live_run is not None or workload.ended_ms > 0)
    reasons = reasons_of(workload, waits)
    return {
        "id": workload.id,
        "name": workload.name,
        "project": (shape.project if shape else "") or workload.project,
        "owner": workload.owner,
        "kind": workload.kind,
        "phase": workload.phase,
        "priority": workload.priority,
        "queue": workload.queue,
        "submitted_ms": workload.submitted_ms,
        "started_ms": began_ms(run) if run and is_current else None,
        "ended_ms": _ended_ms(workload, run),
        "cluster": run.allocation.cluster if run else None,
        "nodes": node_names(run.allocation) if run else [],
        "wants": wants_of(shape) if shape else "",
        "exit_code": exit_code(run.end) if run and run.end else None,
        "reason": reasons[0] if reasons else None,
        "labels": workload.labels,
        "usage": usage_view(run, sampled),
    }


TOGETHER_MS = 1_000
"""The facts that a run and then its workload have ended are written down in one go."""


def began_ms(run: Run) -> int | None:
    """When a run started: as it was first seen or, of one too short for that, by its machine."""
    told = run.end.started_at_ms if run.end else 0
    if run.started_ms or not told:
        return run.started_ms or None
    return max(run.planned_ms, min(told, over_ms(run) or told))


def over_ms(run: Run) -> int | None:
    """When a run ended: by its machine, if that fits between its start and the time we knew."""
    told = run.end.ended_at_ms if run.end else 0
    return (told if run.started_ms <= told <= run.ended_ms else run.ended_ms) or None


def _ended_ms(workload: Workload, run: Run | None) -> int | None:
    """When a workload ended: with its run, or by itself, as one cancelled while it waits."""
    if run is not None and 0 <= workload.ended_ms - run.ended_ms < TOGETHER_MS:
        return over_ms(run)
    return workload.ended_ms or None


def row(
    workload: Workload,
    shape: Shape | None,
    waits: Iterable[Reason] = (),
    sampled: Usage | None = None,
) -> models.Row:
    """A workload in a list."""
    count = workload.runs[-1].number if workload.runs else 0
    return models.Row(**headline(workload, shape, waits, sampled), runs=count)


def reasons_of(workload: Workload, waits: Iterable[Reason], ahead: int = 0) -> list[RenderedReason]:
    """Why it waits, goes back, can't be followed or has ended; a waiting one always has a reason.

    `waits` are what its shape waits for, or why nothing is heard of its run.
    """
    own = workload.reasons
    if workload.phase in ENDED:
        return rendered(own)
    if workload.phase == "Held":
        return rendered(own or (Reason("held", {"actor": workload.owner}),))
    if workload.phase == "Pending" and workload.gate:
        return rendered(gate_reasons(workload))
    if workload.phase == "Pending":
        asked_anew = workload.claim is not None
        found = [*(one for one in own if not asked_anew or one.code != "check_retry"), *waits]
        if ahead:
            found.append(Reason("behind", {"ahead": ahead, "queue": workload.queue}))
        return rendered(found if any(found) else [Reason("not_planned")])
    return [*rendered(waits), *rendered(own)]


def out_of_reach(
    workload: Workload, places: Mapping[str, Place], now_ms: int
) -> tuple[Reason, ...]:
    """That the machine of its run doesn't answer, since when, and what it says instead."""
    run = workload.live_run
    place = places.get(run.allocation.cluster) if run is not None else None
    if run is None or place is None:
        return ()
    held = node_names(run.allocation)
    silent = [
        node for node in place.cluster.nodes if node.name in held and node.state == "unreachable"
    ]
    if not silent:
        return ()
    since_ms = max(place.since_ms, run.planned_ms)
    params: dict[str, Param] = {
        "cluster": place.cluster.name,
        "for_ms": max(0, now_ms - since_ms),
        "since_ms": since_ms,
    }
    if silent[0].note:
        params["note"] = silent[0].note
    return (Reason("out_of_reach", params),)


def exit_code(end: RunEnd) -> int | None:
    """The exit code as a shell tells it: 128 and the signal for a process ended by one."""
    if end.code is not None:
        return end.code
    return 128 + end.signal if end.signal is not None else None


def node_names(allocation: Allocation) -> list[str]:
    """The nodes of an allocation, each once, in rank order."""
    return list(dict.fromkeys(part.node for part in allocation.nodes))


def wants_of(shape: Shape) -> str:
    """`1 CPU, 2 GiB, 1xA100`; further alternatives are joined by `or`, by `else` in order."""
    joint = ", else " if shape.ordered else " or "
    texts = list(dict.fromkeys(wants_one(one) for one in shape.alternatives))
    text = joint.join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
    least = f"{shape.min_nodes} to " if 0 < shape.min_nodes < shape.num_nodes else ""
    return text if shape.num_nodes == 1 else f"{least}{shape.num_nodes} nodes of {text}"


def wants_one(alternative: Alternative) -> str:
    """One alternative, with the place it is bound to."""
    text = request_text(alternative.request)
    return f"{text} on {alternative.infra}" if alternative.infra else text


def request_text(request: Request) -> str:
    """What one replica asks for."""
    parts = [_cpus(request.cpus_milli)]
    if request.memory_bytes:
        parts.append(amount(request.memory_bytes, "bytes"))
    if request.disk_bytes:
        parts.append(f"{amount(request.disk_bytes, 'bytes')} disk")
    if request.gpu is not None:
        parts.append(_gpu(request.gpu))
    return ", ".join(parts)


def _cpus(milli: int) -> str:
    return f"{amount(milli, 'milli')} CPU{'' if milli == 1000 else 's'}"


def _gpu(gpu: GpuRequest) -> str:
    many = gpu_name(gpu)
    one = many.replace("GPUs", "GPU")
    if not gpu.shares:
        return f"{gpu.count}x{one}"
    part = f"{gpu.fraction_milli / 10:g}%"
    if gpu.share_bytes:
        part = amount(gpu.share_bytes, "bytes")
    return f"{part} of one {one}" if gpu.count == 1 else f"{part} of each of {gpu.count} {many}"


def holds_text(allocation: Allocation) -> str:
    """What a run holds on all its nodes together."""

    def total(field: str) -> int:
        return sum(getattr(part, field) for part in allocation.nodes)

    parts = [_cpus(total("cpus_milli"))]
    if total("memory_bytes"):
        parts.append(amount(total("memory_bytes"), "bytes"))
    shares = [share.memory_bytes for part in allocation.nodes for share in part.devices]
    if shares:
        each = f"{amount(min(shares), 'bytes')}{' each' if len(shares) > 1 else ''}"
        parts.append(f"{len(shares)} GPU{'' if len(shares) == 1 else 's'} ({each})")
    return ", ".join(parts)


def run_view(run: Run) -> models.RunView:
    """One attempt."""
    nodes = node_names(run.allocation)
    return models.RunView(
        id=run.id,
        number=run.number,
        phase=run.phase,
        cluster=run.allocation.cluster,
        node=nodes[0] if nodes else "",
        nodes=nodes,
        holds=holds_text(run.allocation),
        planned_ms=run.planned_ms,
        started_ms=began_ms(run),
        running_ms=run.running_ms or None,
        ended_ms=over_ms(run),
        notice=run.notice,
        notice_ms=run.notice_ms or None,
        reachable=run.reachable,
        end=end_view(run.end) if run.end else None,
        reason=render(run.reason) if run.reason else None,
        decision=run.decision,
        warning=render(run.warning) if run.warning else None,
    )


def end_view(end: RunEnd) -> models.EndView:
    """How a run ended."""
    return models.EndView(
        how=end.how,
        code=end.code,
        signal=end.signal,
        message=end.message,
        last_lines=list(end.last_lines),
        peak_memory_bytes=end.peak_memory_bytes,
        cpu_ms=end.cpu_ms,
        checkpointed=end.checkpointed,
        put_back=end.put_back,
    )


def decision_view(decision: Decision, shape: Shape | None, now_ms: int) -> models.DecisionView:
    """A stored decision with its sentences."""
    at_ms = decision.inputs.now_ms
    return models.DecisionView(
        id=decision.id,
        at_ms=at_ms,
        age_ms=max(0, now_ms - at_ms),
        candidates=[candidate_view(one, shape) for one in decision.candidates],
        chosen=_cluster_at(decision, decision.chosen),
        runner_up=_cluster_at(decision, decision.runner_up),
        change=list(decision.change),
        inputs=msgspec.to_builtins(decision.inputs),
        quota=None if decision.quota is None else msgspec.to_builtins(decision.quota),
    )


def _cluster_at(decision: Decision, index: int) -> str | None:
    return decision.candidates[index].cluster if 0 <= index < len(decision.candidates) else None


def candidate_view(candidate: Candidate, shape: Shape | None) -> models.CandidateView:
    """One cluster's verdict."""
    known = shape is not None and candidate.alternative < len(shape.alternatives)
    return models.CandidateView(
        cluster=candidate.cluster,
        alternative=candidate.alternative,
        wants=wants_one(shape.alternatives[candidate.alternative]) if shape and known else "",
        verdict=candidate.verdict,
        reasons=rendered(candidate.reasons),
        shortfalls=[shortfall_view(one) for one in candidate.shortfalls],
        scores=candidate.scores,
        total=candidate.total,
        figures=candidate.figures,
    )


def shortfall_view(short: Shortfall) -> models.ShortfallView:
    """One number that wasn't enough."""
    wanted, free, largest = (
        amount(value, short.unit) for value in (short.wanted, short.free, short.largest)
    )
    return models.ShortfallView(
        resource=short.resource,
        wanted=short.wanted,
        free=short.free,
        largest=short.largest,
        unit=short.unit,
        text=f"{short.resource}: {wanted} wanted, {free} free, {largest} at most",
    )


def cluster_view(
    cluster: Cluster, allocations: Mapping[str, Allocation], facts_age_ms: int | None
) -> fleet_models.ClusterView:
    """A cluster with what the given live runs hold on it."""
    nodes = [_node_view(node, allocations) for node in cluster.nodes]
    ready = sum(node.state == "ready" for node in cluster.nodes)
    state = "ready" if ready == len(nodes) and nodes else "degraded" if ready else "not ready"
    if nodes and all(node.state == "drained" for node in cluster.nodes):
        state = "drained"
    return fleet_models.ClusterView(
        name=cluster.name,
        driver=cluster.driver,
        kind=cluster.kind,
        state=state,
        nodes=nodes,
        runs=sorted(allocations),
        facts_age_ms=facts_age_ms,
        labels=cluster.labels,
        claims=cluster.claims,
        windows=cluster.windows,
    )


def _node_view(node: Node, allocations: Mapping[str, Allocation]) -> fleet_models.NodeView:
    room = NodeRoom(node)
    held: list[tuple[str, NodeAllocation]] = [
        (run, part)
        for run, allocation in allocations.items()
        for part in allocation.nodes
        if part.node == node.name
    ]
    for _, part in held:
        room.take(part)
    return fleet_models.NodeView(
        name=node.name,
        state=node.state,
        note=node.note,
        cpus=node.cpus_milli / 1000,
        cpus_free=room.cpus_milli / 1000,
        memory_bytes=node.memory_bytes,
        memory_free_bytes=room.memory_bytes,
        disk_bytes=node.disk_bytes,
        disk_free_bytes=room.disk_bytes,
        devices=[_device_view(device, held) for device in node.devices],
        windows=node.windows,
    )


def _device_view(device: Device, held: list[tuple[str, NodeAllocation]]) -> fleet_models.DeviceView:
    holding: dict[str, int] = {}
    for run, part in held:
        for share in part.devices:
            if share.index == device.index:
                holding[run] = holding.get(run, 0) + share.memory_bytes
    return fleet_models.DeviceView(
        index=device.index,
        kind=device.kind,
        product=device.product,
        uuid=device.uuid,
        memory_bytes=device.memory_bytes,
        held_bytes=sum(holding.values()),
        # Of one that is sick all memory is taken out of use, which isn't what others hold.
        foreign_bytes=0 if device.fault else device.foreign_bytes,
        runs=sorted(holding),
        foreign_compute=device.foreign_compute,
        health=device.health,
        fault=device.fault,
        label=device.label,
        reserved_bytes=device.reserved_bytes,
        unified=device.unified,
        part_of=device.part_of,
        island=device.island,
        users=[fleet_models.GpuUserView(run, "", share) for run, share in sorted(holding.items())],
    )
