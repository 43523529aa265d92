"""The view of a cycle: an immutable cut of the live state that ``plan`` reads in another thread.

A view costs what changed: the parts of shapes and clusters that did not change since the last view
are taken over as they are. Of each shape only the first waiting workloads are in it.
"""

from bisect import bisect_left
from itertools import pairwise

from msgspec import Struct

from stellwerk.core.budgets import renewed_ms, used_up
from stellwerk.core.lengths import History, limit_of
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.draining import Drain
from stellwerk.core.model.holding import Claim
from stellwerk.core.model.ids import RunId, ShapeId, WorkloadId, digest, workload_of
from stellwerk.core.model.lengths import Begun, Sketch, Work
from stellwerk.core.model.limits import NO_LIMITS, Limits
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.past import LastPlace, last_place
from stellwerk.core.model.queueing import ClusterQueue, QueueObjects
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reservations import Reservation
from stellwerk.core.model.resources import Allocation, Shape, named
from stellwerk.core.model.standing import NOT_YET, Decided
from stellwerk.core.model.workload import Workload
from stellwerk.core.queue.quota import Held
from stellwerk.core.state import QueueKey, State, Waits

HEADS = 256
"""Waiting workloads of one shape that one cycle looks at."""

CLASSES = 32
"""Of so many different priorities of one shape the first are looked at."""

DAY_MS = 86_400_000
SHAPES_KEPT = 256
"""Views of shapes that nobody waits for, kept until there are more of them than of others."""


NOBODYS = Work("", "", "", "")


class Head(Struct, frozen=True):
    """A waiting workload as the plan sees it. ``limit_ms`` ends its run in any case (0: nothing
    does), grace and all; ``work`` is what its length is known by. ``goes_on``: stopped, it goes on
    from what it saves in ``grace_ms``; but not in the first ``protected_ms``. ``last`` is where a
    gang was before.
    """

    id: WorkloadId
    version: int
    priority: int
    order: int
    queued_ms: int
    name: str
    work: Work = NOBODYS
    limit_ms: int = 0
    grace_ms: int = 0
    goes_on: bool = False
    protected_ms: int = 0
    last: LastPlace | None = None


class ShapeView(Struct, frozen=True):
    """The waiting workloads of a shape: the first of them, and how many there are."""

    id: ShapeId
    shape: Shape
    version: int
    heads: tuple[Head, ...]
    count: int
    waits: Waits | None


class ClusterView(Struct, frozen=True):
    """A cluster with what its runs hold; ``facts`` is the hash of what was observed.

    ``drains`` says which nodes of it (or all) somebody keeps free, and who. ``begun`` is what the
    ends of its runs are predicted from.
    """

    cluster: Cluster
    version: int
    facts: str
    allocations: tuple[tuple[RunId, Allocation], ...]
    drains: dict[str, Drain] = {}
    begun: dict[RunId, Begun] = {}


class StopView(Struct, frozen=True):
    """A live run of a workload that somebody cancelled and that has not been told so yet."""

    workload: WorkloadId
    version: int
    run: RunId
    grace_ms: int


class ClaimView(Struct, frozen=True):
    """A waiting workload that was promised a place. ``live`` are the runs in its way, by name of
    their workload; ``broken`` = one of them can't be counted on to end. ``checks`` haven't agreed.
    """

    id: WorkloadId
    version: int
    name: str
    order: int
    shape: ShapeView
    claim: Claim
    live: tuple[str, ...] = ()
    broken: bool = False
    checks: tuple[str, ...] = ()


class View(Struct, frozen=True):
    """Everything ``plan`` may look at. ``now_ms`` and ``seed`` come in as values.

    ``placements`` are the decisions about all placements, by key, ``own`` those about the own
    placements of work that has wishes, by shape. ``queueing`` are the objects of queueing (None:
    there are no queues), ``held`` is what runs hold of quota, in the order of ids. ``lengths`` are
    the past lengths of work by key, ``reservations`` who was promised room for times to come.
    ``past_use`` is what LocalQueues used before, by resource, decayed.
    """

    seq: int
    now_ms: int
    seed: int
    clusters: tuple[ClusterView, ...]
    shapes: tuple[ShapeView, ...]
    stops: tuple[StopView, ...]
    next_due_ms: int = 0
    placements: dict[str, Decided] = {}
    own: dict[ShapeId, OwnDecided] = {}
    limits: Limits = NO_LIMITS
    queueing: QueueObjects | None = None
    queueing_version: int = 0
    held: tuple[Held, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    used_up: dict[str, Reason] = {}
    lengths: dict[str, Sketch] = {}
    reservations: tuple[Reservation, ...] = ()
    past_use: dict[str, dict[str, float]] = {}
    stopped: dict[str, tuple[int, ...]] = {}


def head_of(workload: Workload) -> Head:
    """A waiting workload as the plan sees it."""
    policies = workload.policies
    return Head(
        id=workload.id,
        version=workload.version,
        priority=workload.priority,
        order=workload.order,
        queued_ms=workload.queued_ms,
        name=workload.name,
        work=Work(workload.project, workload.owner, workload.name, workload.task),
        limit_ms=limit_of(workload.limit_ms, policies.grace_ms),
        grace_ms=policies.grace_ms,
        goes_on=policies.goes_on,
        protected_ms=policies.protected_ms,
        last=last_place(workload) if workload.runs else None,
    )


class Viewer:
    """Takes views of one state, reusing the parts of the last view that did not change."""

    def __init__(self, state: State, limits: Limits = NO_LIMITS) -> None:
        self._state = state
        self._limits = limits
        self._clusters: dict[str, ClusterView] = {}
        self._shapes: dict[ShapeId, ShapeView] = {}
        self._placements: dict[str, Decided] = {}
        self._own: dict[ShapeId, OwnDecided] = {}
        self._placements_at = 0
        self._held: tuple[Held, ...] = ()
        self._holds: dict[WorkloadId, tuple[Workload, Held]] = {}
        self._quota_at = 0
        self._budgeted: tuple[QueueObjects | None, list[ClusterQueue]] = None, []
        self._lengths: dict[str, Sketch] = {}
        self._lengths_at: tuple[History | None, int] = None, -1

    def take(self, now_ms: int, seed: int = 0) -> View:
        """Cuts a view of the state at ``now_ms`` (UTC milliseconds)."""
        state = self._state
        next_due_ms = state.let_due_in(now_ms)
        stopping = ((run, state.workloads[key]) for key, run in state.to_stop.items())
        stops = tuple(
            StopView(w.id, w.version, run, 0 if w.cancel_now else w.policies.grace_ms)
            for run, w in stopping
        )
        queueing = self._queueing()
        closed = self._used_up(queueing, now_ms)
        if closed and queueing is not None:
            due = [next_due_ms, renewed_ms(queueing.queues, closed, now_ms)]
            next_due_ms = min(one for one in due if one)
        return View(
            seq=state.seq,
            now_ms=now_ms,
            seed=seed,
            clusters=tuple(self._cluster(name) for name in sorted(state.clusters)),
            shapes=self._shape_views(),
            stops=stops,
            next_due_ms=next_due_ms,
            placements=self._placement_views(),
            own=self._own,
            limits=self._limits,
            queueing=queueing,
            queueing_version=state.queueing.version,
            held=self._held,
            claims=self._claims(),
            used_up=closed,
            lengths=self._past_lengths(),
            past_use=state.past_use.at(now_ms, queueing.settings.past_use if queueing else None),
            reservations=state.reservations.all(),
            stopped={name: tuple(times) for name, times in state.stops.image().items()},
        )

    def _past_lengths(self) -> dict[str, Sketch]:
        """The past lengths; the same object as long as nothing ended."""
        history = self._state.lengths
        if self._lengths_at != (history, history.version):
            self._lengths_at = history, history.version
            self._lengths = history.sketches()
        return self._lengths

    def _queueing(self) -> QueueObjects | None:
        """The objects of queueing, if there are queues; with it, who holds quota."""
        quota, objects = self._state.quota, self._state.queueing.objects
        if self._quota_at != quota.version:
            self._quota_at = quota.version
            before, self._holds = self._holds, {}
            for id in sorted(quota.holders):
                workload, known = self._state.workloads[id], before.get(id)
                same = known is not None and known[0] is workload
                self._holds[id] = known if known and same else (workload, self._hold(workload))
            self._held = tuple(held for _, held in self._holds.values())
        return objects if objects.queues or objects.local_queues else None

    def _used_up(self, objects: QueueObjects | None, now_ms: int) -> dict[str, Reason]:
        """Why queues start nothing more, by what they have spent."""
        if objects is None:
            return {}
        if self._budgeted[0] is not objects:
            self._budgeted = objects, [one for one in objects.queues if one.budgets]
        if not self._budgeted[1]:
            return {}
        live = [(one.holding, one.planned_ms) for one in self._held]
        return used_up(self._budgeted[1], self._state.spent, live, now_ms)

    def _hold(self, workload: Workload) -> Held:
        run = workload.live_run
        assert run is not None, "only what runs holds quota"
        assert run.holding is not None, "only what runs holds quota"
        stopping = bool(run.notice) or workload.cancelling
        namespace, queue = named(self._state.shapes[workload.shape].shape.queue)
        return Held(
            workload=workload.id,
            version=workload.version,
            run=run.id,
            name=workload.name,
            local_queue=f"{namespace}/{queue}",
            priority=workload.priority,
            order=workload.order,
            holding=run.holding,
            allocation=run.allocation,
            planned_ms=run.planned_ms,
            since_ms=max(run.saved_ms, run.started_ms or run.planned_ms),
            grace_ms=workload.policies.grace_ms,
            leaving=stopping and run.reachable,
            stuck=not run.reachable,
            preemptions=workload.preemptions,
            least_run_ms=self._limits.least_run_ms,
            began_ms=run.started_ms or run.planned_ms,
            protected_ms=workload.policies.protected_ms,
            copy_ms=run.copy_ms,
            rests_ms=self._rests_ms(workload),
            shape=self._state.shapes[workload.shape].shape,
        )

    def _rests_ms(self, workload: Workload) -> int:
        """Until when a workload isn't stopped again, having been so often enough for a day."""
        most = self._limits.stops_per_day
        told = [one.notice_ms for one in workload.runs if one.notice == "preempt"]
        return told[-most] + DAY_MS if 0 < most <= len(told) else 0

    def _claims(self) -> tuple[ClaimView, ...]:
        """Who was promised a place, in the order of the promises."""
        found = [self._claim(self._state.workloads[id]) for id in self._state.quota.claims]
        return tuple(sorted(found, key=lambda one: (one.claim.since_ms, one.order)))

    def _claim(self, workload: Workload) -> ClaimView:
        claim = workload.claim
        assert claim is not None, "only what was promised a place has a claim"
        live: list[str] = []
        broken = False
        for run in claim.victims:
            victim = self._state.workloads.get(workload_of(run))
            one = victim.live_run if victim is not None else None
            if victim is not None and one is not None and one.id == run:
                live.append(victim.name)
                broken = broken or not one.reachable or not one.notice
        queue = self._state.shapes[workload.shape]
        head = head_of(workload)
        shape = ShapeView(workload.shape, queue.shape, queue.version, (head,), 1, queue.waits)
        return ClaimView(
            workload.id, workload.version, workload.name, workload.order, shape, claim,
            tuple(live), broken,
            tuple(one.name for one in workload.checks if one.state != "Ready"),
        )  # fmt: skip

    def _placement_views(self) -> dict[str, Decided]:
        """The decisions of all placements; the same object as long as none has changed."""
        standing = self._state.standing
        if self._placements_at != standing.version:
            self._placements_at = standing.version
            found = standing.placements.items()
            self._placements = {key: one.decided or NOT_YET for key, one in found}
            self._own = dict(standing.own)
        return self._placements

    def _cluster(self, name: str) -> ClusterView:
        version = self._state.cluster_versions[name]
        cached = self._clusters.get(name)
        if cached is not None and cached.version == version:
            return cached
        cluster = self._state.clusters[name]
        same = cached is not None and cached.cluster is cluster
        view = ClusterView(
            cluster=cluster,
            version=version,
            facts=cached.facts if cached is not None and same else digest(cluster),
            allocations=tuple(sorted(self._state.allocations[name].items())),
            drains=dict(self._state.drains.get(name, {})),
            begun=self._begun(name, cached.begun if cached is not None else {}),
        )
        self._clusters[name] = view
        return view

    def _begun(self, name: str, before: dict[RunId, Begun]) -> dict[RunId, Begun]:
        found = {}
        for run in self._state.allocations[name]:
            known = before.get(run)
            if known is None:
                workload = self._state.workloads[workload_of(run)]
                known = self._begins(workload, run)
            found[run] = known
        return found

    def _begins(self, workload: Workload, run: RunId) -> Begun:
        planned_ms = next(one.planned_ms for one in workload.runs if one.id == run)
        head = head_of(workload)
        queue = "/".join(named(self._state.shapes[workload.shape].shape.queue))
        safe_ms = planned_ms + head.protected_ms if head.protected_ms else 0
        return Begun(
            planned_ms, head.work, head.limit_ms, queue, head.grace_ms, safe_ms, head.goes_on
        )

    def _shape_views(self) -> tuple[ShapeView, ...]:
        views = []
        for key, queue in self._state.shapes.items():
            if not queue.entries:
                continue
            cached = self._shapes.get(key)
            if (
                cached is None
                or cached.version != queue.version
                or (cached.waits is not queue.waits)
            ):
                cached = self._shapes[key] = self._shape(key)
            views.append(cached)
        if len(self._shapes) > 2 * len(views) + SHAPES_KEPT:
            self._shapes = {view.id: view for view in views}
        return tuple(views)

    def _shape(self, key: ShapeId) -> ShapeView:
        queue = self._state.shapes[key]
        waiting = (self._state.workloads[entry[2]] for entry in _first(queue.entries))
        return ShapeView(
            id=key,
            shape=queue.shape,
            version=queue.version,
            heads=tuple(map(head_of, waiting)),
            count=len(queue.entries),
            waits=queue.waits,
        )


def _first(entries: list[QueueKey]) -> list[QueueKey]:
    """The first that wait; of several priorities the first of each, as what waits may rise."""
    if len(entries) <= HEADS:
        return entries
    starts = [0]
    while starts[-1] < len(entries) and len(starts) <= CLASSES:
        starts.append(bisect_left(entries, (entries[starts[-1]][0] + 1,)))
    each = HEADS // (len(starts) - 1)
    parts = pairwise(starts)
    return [one for begin, end in parts for one in entries[begin : min(end, begin + each)]]
