"""What must hold of any state at any moment, and of any start: the simulations ask at each step."""

from collections import Counter

from stellwerk.core.data.node_windows import Closings, is_windowed
from stellwerk.core.describe.queues_checks import problems_together
from stellwerk.core.gates import is_alive
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import CATALOGUE
from stellwerk.core.model.ids import workload_of
from stellwerk.core.model.workload import ENDED
from stellwerk.core.place.candidates import serves
from stellwerk.core.place.derived import derived
from stellwerk.core.place.room import Room
from stellwerk.core.queue.tree import QuotaTree
from stellwerk.core.state import State, queue_key


def violations(state: State) -> list[str]:
    """Gives every broken invariant in words; an empty list is a sound state."""
    return [*_runs(state), *_queues(state), *_reasons(state), *_quota(state), *_objects(state)]


def overstays(state: State, now_ms: int) -> list[str]:
    """Says what runs on after its window has closed, and hasn't been told to stop."""
    found = []
    for name in sorted(state.allocations):
        cluster = state.clusters.get(name)
        if cluster is None or not is_windowed(cluster):
            continue
        closings = Closings(cluster, now_ms)
        for run in sorted(state.allocations[name]):
            closed = closings.of(one.node for one in state.allocations[name][run].nodes)
            if closed is None or closed[0] > now_ms:
                continue
            workload = state.workloads[workload_of(run)]
            live = workload.live_run
            if live is not None and not live.notice and not workload.cancelling:
                found.append(f"{run} runs on although {name} is closed, and has no notice")
    return found


def overbooks(state: State, planned: ev.RunPlanned) -> list[str]:
    """Says where a start, before it is folded, gives away what isn't there.

    A state alone doesn't tell: where a card was taken out under a running job, nodes hold more than
    they have, and only starts are to blame for what they take.
    """
    cluster = state.clusters.get(planned.allocation.cluster)
    if cluster is None:
        return [f"{planned.run} is planned on {planned.allocation.cluster}, which nobody knows"]
    room = Room(cluster, state.allocations[cluster.name].values())
    found = []
    if not serves(cluster, planned.allocation.person):
        found.append(f"{planned.run} is planned on {cluster.name} for whom it can't start anything")
    for part in planned.allocation.nodes:
        node = room.nodes.get(part.node)
        where = f"{planned.run} on {cluster.name}/{part.node}"
        if node is None or node.node.state != "ready":
            found.append(f"{where}: the node isn't ready")
            continue
        node.take(part)
        for held, left in (
            (part.cpus_milli, node.cpus_milli),
            (part.memory_bytes, node.memory_bytes),
            (part.disk_bytes, node.disk_bytes),
            *(
                (share.memory_bytes, node.device_bytes.get(share.index, -1))
                for share in part.devices
            ),
        ):
            if held and left < 0:
                found.append(f"{where}: overbooked by {-left}")
        found += [
            f"{where}: GPU {share.index} is shared by more than {node.most_jobs}"
            for share in part.devices
            if node.most_jobs and node.device_jobs[share.index] > node.most_jobs
        ]
    return found


def overcharges(state: State, planned: ev.RunPlanned) -> list[str]:
    """Says where a start, before it is folded, takes more than its queue has on any level.

    Quota may be lowered below what is in use; so only starts are to blame.
    """
    objects = derived(state.queueing.objects, tuple(state.clusters.values()))
    holding = planned.holding
    if holding is None:
        return []
    tree = QuotaTree(objects.queues, objects.cohorts)
    for key in state.quota.holders:
        run = state.workloads[key].live_run
        held = run.holding if run is not None else None
        if held is not None and held.queue in tree.queues:
            tree.queues[held.queue].add(held.usage)
    node = tree.queues.get(holding.queue)
    if node is None:
        return [f"{planned.run} takes quota of {holding.queue}, which isn't there"]
    return [
        f"{planned.run} takes {amount} of {pair} in {holding.queue}, which has {free}"
        for pair, amount in holding.usage.items()
        if amount > (free := max(0, node.available(pair)))
    ]


def _quota(state: State) -> list[str]:
    """Who holds quota runs; who was promised a place waits, and what is in its way has notice."""
    found = []
    runs = {key: one.live_run for key, one in state.workloads.items()}
    holders = sorted(key for key, run in runs.items() if run is not None and run.holding)
    claims = sorted(key for key, one in state.workloads.items() if one.claim is not None)
    if sorted(state.quota.holders) != holders or sorted(state.quota.claims) != claims:
        found.append("who holds quota or was promised a place isn't who is listed")
    for key in claims:
        claimant = state.workloads[key]
        if claimant.phase != "Pending":
            found.append(f"{key} is {claimant.phase} and was promised a place")
        for victim in claimant.claim.victims if claimant.claim is not None else ():
            run = runs.get(workload_of(victim))
            if run is not None and run.id == victim and not run.notice:
                found.append(f"{victim} is in the way of {key} and wasn't told to stop")
    return found


def _runs(state: State) -> list[str]:
    found = []
    for key, workload in state.workloads.items():
        live = [run.id for run in workload.runs if run.phase != "Ended"]
        if len(live) > 1:
            found.append(f"{key} has {len(live)} live runs")
        if workload.phase in ENDED:
            found.append(f"{key} is over but still in memory")
        waits = workload.phase in {"Pending", "Held"}
        if waits == bool(live):
            found.append(f"{key} is {workload.phase} with live runs {live}")
        numbers = [run.number for run in workload.runs]
        if len(set(numbers)) != len(numbers):
            found.append(f"{key} numbers a run twice")
        if live and state.running.get(key) != live[0]:
            found.append(f"{key} runs {live[0]}, which is not listed as running")
    allocated = Counter(workload_of(run) for held in state.allocations.values() for run in held)
    if sorted(allocated) != sorted(state.running) or any(n > 1 for n in allocated.values()):
        found.append("what is allocated isn't what runs")
    return found


def _queues(state: State) -> list[str]:
    found = []
    queued: list[str] = []
    for key, queue in state.shapes.items():
        queued.extend(entry[2] for entry in queue.entries)
        if queue.entries != sorted(queue.entries):
            found.append(f"the queue of shape {key} is out of order")
        users = sum(1 for w in state.workloads.values() if w.shape == key)
        waiting = sum(
            1 for w in state.workloads.values() if w.shape == key and w.phase == "Pending"
        )
        if waiting != queue.pending:
            found.append(f"shape {key} counts {queue.pending} that wait and has {waiting}")
        if users != queue.users:
            found.append(f"shape {key} counts {queue.users} users and has {users}")
        found.extend(
            f"{entry[2]} stands in the queue under an old key"
            for entry in queue.entries
            if queue_key(state.workloads[entry[2]]) != entry
        )
    pending = sorted(w.id for w in state.workloads.values() if w.phase == "Pending")
    if sorted([*queued, *state.delayed, *state.gates.shut]) != pending:
        found.append("what waits isn't what is queued")
    return [*found, *_gates(state)]


def _gates(state: State) -> list[str]:
    """Who waits before a gate waits for something that lives, and no array exceeds its limit."""
    found = []
    under_way: Counter[str] = Counter()
    for key, workload in state.workloads.items():
        part = workload.array
        if part is not None and part.limit and not workload.gate and workload.phase != "Held":
            under_way[part.id] += 1
            if under_way[part.id] > part.limit:
                found.append(f"{key} exceeds the limit of {part.name}")
        if workload.live_run is not None and workload.gate:
            found.append(f"{key} runs though its gate is shut")
        if workload.gate == "after" and key not in state.gates.news:
            dead = [one.id for one in workload.after if not (one.ended or is_alive(state, one.id))]
            found.extend(f"{key} waits for {id}, which is over" for id in dead)
            if all(one.ended for one in workload.after):
                found.append(f"{key} waits for nobody")
    return found


def _objects(state: State) -> list[str]:
    """Objects of queueing stand under their names, and no cohort is above itself."""
    kept = state.queueing.kept
    found = [f"{key.shown} is kept as {one.object.key.shown}" for key, one in kept.items()
             if one.object.key != key]  # fmt: skip
    return found + [one.message for one in problems_together(state.queueing.objects)]


def _reasons(state: State) -> list[str]:
    """Every reason has a remedy, and what is held or delayed says why by itself."""
    found = []
    for key, workload in state.workloads.items():
        if workload.phase == "Held" and not workload.reasons:
            found.append(f"{key} is held without a reason")
        found.extend(
            f"{key} has the unknown reason {reason.code}"
            for reason in workload.reasons
            if reason.code not in CATALOGUE
        )
    return found
