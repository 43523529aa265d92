"""What is alive, with all that is derived from it, and its persisted form, the *state image*.

Only what is alive is here. An ended workload leaves with its last value in ``touched``, from where
the engine hands it to the read models.
"""

from bisect import bisect_left, insort
from heapq import heappop, heappush
from sys import intern

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.budgets import copied
from stellwerk.core.data.node_windows import with_windows
from stellwerk.core.inventory.gpu_faults import forgivable, still_told, withheld
from stellwerk.core.lengths import History
from stellwerk.core.model.budgets import Spent
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.draining import WHOLE, Drain, with_drains
from stellwerk.core.model.gates import Tally
from stellwerk.core.model.ids import RunId, ShapeId, WorkloadId, digest, workload_of
from stellwerk.core.model.lengths import HistoryImage
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.queue_object import KeptObject
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reservations import Reservation
from stellwerk.core.model.resources import Allocation, Shape, named
from stellwerk.core.model.standing import Declared, Standing
from stellwerk.core.model.workload import Phase, Run, Workload
from stellwerk.core.state.gates import Gates, told
from stellwerk.core.state.past_use import Consumed, PastUses
from stellwerk.core.state.queueing import Queueing
from stellwerk.core.state.quiet import Quiet
from stellwerk.core.state.quota import QuotaIndex
from stellwerk.core.state.reservations import Reservations
from stellwerk.core.state.shapes import ShapeQueue, Waits, queue_key
from stellwerk.core.state.standing import Policies
from stellwerk.core.state.stops import Stops


class StateImage(Struct, frozen=True):
    """All that a restart needs besides the journal's tail."""

    seq: int
    at_ms: int
    epoch: int
    clusters: list[Cluster]
    workloads: list[Workload]
    shapes: dict[ShapeId, Shape]
    waits: dict[ShapeId, Waits]
    quarantined: dict[str, dict[str, Reason]] = {}
    faults: dict[str, dict[str, tuple[WorkloadId, ...]]] = {}
    declared: list[Declared] = []
    placements: list[Standing] = []
    arrays: dict[WorkloadId, Tally] = {}
    drains: dict[str, dict[str, Drain]] = {}
    forgiven: dict[str, tuple[str, ...]] = {}
    queue_objects: list[KeptObject] = []
    own: dict[ShapeId, OwnDecided] = {}
    lengths: HistoryImage = HistoryImage()
    spent: Spent = {}
    past_use: dict[str, Consumed] = {}
    reservations: list[Reservation] = []
    stopped: dict[str, list[int]] = {}
    calendars: list[Calendar] = []


IMAGE_SCHEMA = digest(msgspec.json.schema(StateImage))
"""Changes whenever a stored struct does: an image of another schema is rebuilt from the journal."""


class State:
    """What is alive now. Read it freely; its changing methods are for ``fold`` alone.

    ``delayed`` are the pending workloads whose time hadn't come when ``let_due_in`` was last asked.
    ``observed`` are the clusters as their drivers see them, ``clusters`` with quarantined and
    drained nodes marked, and sick GPUs withheld whose faults aren't ``forgiven``. ``drains`` says
    who keeps a node free, ``stops`` when runs were stopped for others, ``faults`` by node whose
    ended there in a row for its fault, ``lengths`` how long work runs, ``spent`` its use of quota.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.at_ms = 0
        self.epoch = 0
        self.observed: dict[str, Cluster] = {}
        self.clusters: dict[str, Cluster] = {}
        self.quarantined: dict[str, dict[str, Reason]] = {}
        self.faults: dict[str, dict[str, tuple[WorkloadId, ...]]] = {}
        self.drains: dict[str, dict[str, Drain]] = {}
        self.forgiven: dict[str, tuple[str, ...]] = {}
        self.cluster_versions: dict[str, int] = {}
        self.allocations: dict[str, dict[RunId, Allocation]] = {}
        self.workloads: dict[WorkloadId, Workload] = {}
        self.shapes: dict[ShapeId, ShapeQueue] = {}
        self.delayed: dict[WorkloadId, int] = {}
        self._due: list[tuple[int, WorkloadId]] = []
        self._queue_version = 0
        self.running: dict[WorkloadId, RunId] = {}
        self.to_stop: dict[WorkloadId, RunId] = {}
        self.touched: dict[WorkloadId, Workload] = {}
        self.standing = Policies()
        self.gates = Gates()
        self.quota = QuotaIndex()
        self.queueing = Queueing()
        self.lengths = History()
        self.spent: Spent = {}
        self.past_use = PastUses()
        self.reservations = Reservations()
        self.stops = Stops()
        self.calendars: dict[str, Calendar] = {}
        self.windows_quiet = Quiet()

    def image(self) -> StateImage:
        """Takes the state as a value to be stored."""
        return StateImage(
            seq=self.seq,
            at_ms=self.at_ms,
            epoch=self.epoch,
            clusters=list(self.observed.values()),
            workloads=list(self.workloads.values()),
            shapes={key: queue.shape for key, queue in self.shapes.items()},
            waits={key: queue.waits for key, queue in self.shapes.items() if queue.waits},
            quarantined={name: dict(nodes) for name, nodes in self.quarantined.items()},
            faults={name: dict(nodes) for name, nodes in self.faults.items()},
            declared=list(self.standing.declared.values()),
            placements=list(self.standing.placements.values()),
            arrays=dict(self.gates.tallies),
            drains={name: dict(nodes) for name, nodes in self.drains.items()},
            forgiven=dict(self.forgiven),
            queue_objects=list(self.queueing.kept.values()),
            own=dict(self.standing.own),
            lengths=self.lengths.image(),
            spent=copied(self.spent),
            past_use=dict(sorted(self.past_use.kept.items())),
            reservations=list(self.reservations.kept.values()),
            stopped=self.stops.image(),
            calendars=list(self.calendars.values()),
        )

    @classmethod
    def from_image(cls, image: StateImage) -> "State":
        """Rebuilds the live state, with all that is derived, from an image."""
        state = cls()
        state.seq, state.at_ms, state.epoch = image.seq, image.at_ms, image.epoch
        state.quarantined = {name: dict(nodes) for name, nodes in image.quarantined.items()}
        state.faults = {name: dict(nodes) for name, nodes in image.faults.items()}
        state.drains = {name: dict(nodes) for name, nodes in image.drains.items()}
        state.forgiven = dict(image.forgiven)
        state.calendars = {one.cluster: one for one in image.calendars}
        for cluster in image.clusters:
            state.put_cluster(cluster)
        for key, shape in image.shapes.items():
            state.shapes[key] = ShapeQueue(shape)
        state.gates.tallies = dict(image.arrays)
        state.workloads = {workload.id: workload for workload in image.workloads}
        for workload in sorted(image.workloads, key=queue_key):
            state.enter(workload)
        for key, waits in image.waits.items():
            state.shapes[key].waits = waits
        state.standing.take_over(image.declared, image.placements, image.own)
        state.queueing.take_over(image.queue_objects)
        state.lengths = History(image.lengths)
        state.spent = copied(image.spent)
        state.past_use.kept = dict(image.past_use)
        state.reservations.take_over(image.reservations)
        state.stops = Stops(image.stopped)
        return state

    def drain_touched(self) -> tuple[Workload, ...]:
        """Gives the last value of every workload changed since the last call, and forgets them."""
        touched = tuple(self.touched.values())
        self.touched.clear()
        return touched

    def put_cluster(self, cluster: Cluster) -> None:
        """Takes over a cluster's facts."""
        self.observed[cluster.name] = cluster
        if forgiven := self.forgiven.get(cluster.name):
            self.forgiven[cluster.name] = still_told(cluster, forgiven)
        self.allocations.setdefault(cluster.name, {})
        self._mark(cluster.name)

    def _mark(self, name: str) -> None:
        """Marks a cluster's quarantined and drained nodes; what is out of reach stays so."""
        cluster = self.observed.get(name)
        if cluster is None:
            return
        cluster = withheld(cluster, self.forgiven.get(name, ()))
        reasons = self.quarantined.get(name)
        if reasons:
            nodes = tuple(_marked(node, reasons.get(node.name)) for node in cluster.nodes)
            cluster = replace(cluster, nodes=nodes)
        if name in self.drains:
            cluster = replace(cluster, nodes=with_drains(cluster, self.drains[name]))
        if name in self.calendars:
            cluster = with_windows(cluster, self.calendars[name])
        self.clusters[name] = cluster
        self.cluster_changed(name)

    def quarantine(self, cluster: str, node: str, reason: Reason) -> None:
        """Keeps a node from getting anything new."""
        self.quarantined.setdefault(cluster, {})[node] = reason
        self.clear_faults(cluster, node)
        self._mark(cluster)

    def resume(self, cluster: str, node: str) -> None:
        """Lets a quarantined node work again, and GPUs of it that their driver calls sick."""
        if found := forgivable(self.observed.get(cluster), node):
            self.forgiven[cluster] = (*self.forgiven.get(cluster, ()), *found)
        nodes = self.quarantined.get(cluster, {})
        nodes.pop(node, None)
        if not nodes:
            self.quarantined.pop(cluster, None)
        self.clear_faults(cluster, node)
        self._mark(cluster)

    def drain(self, cluster: str, nodes: tuple[str, ...], drain: Drain) -> None:
        """Keeps a cluster, or some nodes, from getting anything new."""
        drained = self.drains.setdefault(cluster, {})
        drained.update(dict.fromkeys(nodes or (WHOLE,), drain))
        self._mark(cluster)

    def end_drain(self, cluster: str, nodes: tuple[str, ...]) -> None:
        """Lets a cluster with all of its nodes, or some nodes, get new work."""
        drained = self.drains.pop(cluster, {})
        left = {name: one for name, one in drained.items() if nodes and name not in nodes}
        if left:
            self.drains[cluster] = left
        self._mark(cluster)

    def set_calendar(self, cluster: str, calendar: Calendar | None) -> None:
        """Takes over when a cluster may be used; without a calendar that is always."""
        if calendar is None:
            self.calendars.pop(cluster, None)
        else:
            self.calendars[cluster] = calendar
        self._mark(cluster)

    def drop_cluster(self, name: str) -> None:
        """Forgets a cluster on which nothing runs, with all that was said about it."""
        assert not self.allocations.get(name), "a cluster on which something runs isn't removed"
        for known in (self.observed, self.clusters, self.allocations):
            known.pop(name, None)
        for said in (self.quarantined, self.faults, self.drains, self.forgiven, self.calendars):
            said.pop(name, None)
        self.cluster_changed(name)

    def add_fault(self, cluster: str, node: str, workload: WorkloadId) -> None:
        """Notes that a workload ended for a node's fault; each counts once."""
        nodes = self.faults.setdefault(cluster, {})
        known = nodes.get(node, ())
        if workload not in known:
            nodes[node] = (*known, workload)

    def clear_faults(self, cluster: str, node: str) -> None:
        """Notes that a node works."""
        nodes = self.faults.get(cluster)
        if nodes is not None and nodes.pop(node, None) is not None and not nodes:
            del self.faults[cluster]

    def cluster_changed(self, name: str) -> None:
        """Makes plans that relied on a cluster's room or facts stale."""
        self.cluster_versions[name] = self.cluster_versions.get(name, 0) + 1

    def enter(self, workload: Workload) -> None:
        """Takes in a workload with all that is derived from it."""
        self.workloads[workload.id] = workload
        self.shapes[workload.shape].users += 1
        self.gates.enter(workload)
        self.quota.keep_up(workload)
        if workload.phase == "Pending":
            self.enqueue(workload)
        run = workload.live_run
        if run is not None:
            self.running[workload.id] = run.id
            if run.holding is not None:
                self.past_use.hold(self.queue_of(workload), run.holding)
            self.allocations.setdefault(run.allocation.cluster, {})[run.id] = run.allocation
            self.cluster_changed(run.allocation.cluster)
            self.tell_to_stop(workload, run)

    def queue_of(self, workload: Workload) -> str:
        """The LocalQueue that a workload named, as ``namespace/name``."""
        return "/".join(named(self.shapes[workload.shape].shape.queue))

    def tell_to_stop(self, workload: Workload, run: Run) -> None:
        """Notes whether a live run must still be told that its workload is cancelled."""
        told = run.notice == "cancel" and (run.grace_ms == 0 or not workload.cancel_now)
        if workload.cancelling and not told:
            self.to_stop[workload.id] = run.id
        else:
            self.to_stop.pop(workload.id, None)

    def enqueue(self, workload: Workload) -> None:
        """Gives a pending workload its place: in the queue, before a gate, or until a time."""
        self.shapes[workload.shape].pending += 1
        if workload.gate:
            self.gates.park(workload)
        elif workload.not_before_ms:
            self.delayed[workload.id] = workload.not_before_ms
            heappush(self._due, (workload.not_before_ms, workload.id))
        else:
            self._queue_in(workload)

    def _queue_in(self, workload: Workload) -> None:
        queue = self.shapes[workload.shape]
        self._queue_changed(queue)
        key = queue_key(workload)
        if not queue.entries or queue.entries[-1] < key:
            queue.entries.append(key)
        else:
            insort(queue.entries, key)

    def _queue_changed(self, queue: ShapeQueue) -> None:
        self._queue_version += 1
        queue.version = self._queue_version

    def let_due_in(self, now_ms: int) -> int:
        """Queues the workloads whose time has come; gives the time of the next one, 0 for none.

        This changes where they are kept, not what is known of them: no fact follows from it.
        """
        while self._due:
            due_ms, key = self._due[0]
            waits = self.delayed.get(key) == due_ms
            if waits and due_ms > now_ms:
                return due_ms
            heappop(self._due)
            if waits:
                del self.delayed[key]
                self._queue_in(self.workloads[key])
        return 0

    def dequeue(self, workload: Workload) -> None:
        """Takes a pending workload out of where it waits."""
        queue = self.shapes[workload.shape]
        queue.pending -= 1
        if queue.pending == 0:
            queue.waits = None
        if workload.gate:
            self.gates.unpark(workload)
            return
        if self.delayed.pop(workload.id, None) is not None:
            return
        key = queue_key(workload)
        place = bisect_left(queue.entries, key)
        assert queue.entries[place] == key, "a pending workload is in its queue"
        del queue.entries[place]
        self._queue_changed(queue)

    def change(self, workload: Workload, **changes: object) -> Workload:
        """Replaces a workload by its next version."""
        changed = replace(workload, version=workload.version + 1, **changes)
        self.workloads[workload.id] = changed
        self.touched[workload.id] = changed
        self.quota.keep_up(changed)
        return changed

    def change_run(self, run_id: RunId, then: Phase | None = None, **changes: object) -> Workload:
        """Changes the newest run of a workload, and its phase to ``then``."""
        workload = self.workloads[workload_of(run_id)]
        run = replace(workload.runs[-1], **changes)
        assert run.id == run_id, "only the newest run of a workload changes"
        return self.change(workload, runs=(*workload.runs[:-1], run), phase=then or workload.phase)

    def move_to(self, shape: Shape, workload: Workload) -> ShapeId:
        """Counts a workload, which is in no queue now, among those of another shape."""
        key = ShapeId(intern(digest(shape)))
        self.shapes.setdefault(key, ShapeQueue(shape)).users += 1
        self._used_no_more(workload.shape)
        return key

    def leave(self, workload: Workload) -> None:
        """Forgets a workload that is over."""
        del self.workloads[workload.id]
        self.quota.leave(workload.id)
        self.delayed.pop(workload.id, None)
        self._used_no_more(workload.shape)
        for id, phase in self.gates.leave(workload):
            for waiting in self.gates.waiting_for(id):
                self.change(self.workloads[waiting], after=told(self.workloads[waiting], id, phase))
                self.gates.news[waiting] = None

    def _used_no_more(self, shape: ShapeId) -> None:
        queue = self.shapes[shape]
        queue.users -= 1
        if queue.users == 0:
            del self.shapes[shape]
            self.standing.drop_own(shape)


def _marked(node: Node, reason: Reason | None) -> Node:
    if reason is None or node.state != "ready":
        return node
    return replace(node, state="quarantined", note=render(reason).sentence)
