"""One way in which things may go on from a view: the core run forward, with given lengths.

Who is stopped for others ends when its grace is over, and waits again with what is left of its
length: all of it since its last checkpoint, where it doesn't say that it goes on from one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.lengths import OF_THE_SAME
from stellwerk.core.model.actions import ClaimRoom, StartRun
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.ids import RunId, ShapeId, WorkloadId, digest, run_id
from stellwerk.core.model.lengths import Begun, Length
from stellwerk.core.model.resources import named
from stellwerk.core.place.checking import as_if_agreed
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import starts
from stellwerk.core.queue.quota import Held
from stellwerk.core.view import ClaimView, Head, ShapeView, View

MANY = 5
"""Past runs of the same work from which on its length counts as well known."""

FARTHEST_MS = 10 * 365 * 86_400_000
"""Nothing is said of what is farther away than that."""

UNKNOWN = Length()


class Knowledge(Struct, frozen=True):
    """Lengths as far as somebody knows them: of live runs with their beginnings, of the waiting."""

    live: Mapping[RunId, tuple[int, Length]] = {}
    waiting: Mapping[WorkloadId, Length] = {}


class Future:
    """One way in which things may go on from a view."""

    def __init__(
        self, view: View, known: Knowledge, take: Callable[[str, Length], int | None], most: int
    ) -> None:
        self.started: dict[WorkloadId, int] = {}
        self.fewest_known: dict[WorkloadId, int] = {}
        self.unknown = 0
        self.steps = 0
        self._most = most
        view = as_if_agreed(view)
        self._view = view
        self._known = known
        self._take = take
        self._memory = Memory()
        self._fewest = 1 << 30
        self._clusters = {one.cluster.name: one for one in view.clusters}
        self._shapes: dict[str, ShapeView] = {shape.id: shape for shape in view.shapes}
        self._unseen = {shape.id: shape.count - len(shape.heads) for shape in view.shapes}
        self._held = {one.run: one for one in view.held}
        self._claims = {one.id: one for one in view.claims}
        self._rest: dict[WorkloadId, int | None] = {}
        self._end_at: dict[RunId, int] = {}
        self._cut: dict[RunId, None] = {}
        self._whole_end: dict[RunId, int] = {}
        self._ends: list[tuple[int, RunId, str, int]] = []
        for name, cluster in self._clusters.items():
            for run, _ in cluster.allocations:
                began_ms, length = known.live.get(run, (view.now_ms, UNKNOWN))
                self._will_end(run, name, began_ms, length)

    def play(self, wanted: Collection[WorkloadId]) -> Future:
        """Goes on until all that is wanted has started, or nothing more can be said.

        What outlives all that is known of it is expected to go on as long again, and so for ever.
        """
        now_ms = self._view.now_ms
        while self.steps < self._most:
            self.steps += 1
            planned, wake_ms = starts(self._seen_at(now_ms), self._memory)
            for action in planned:
                if isinstance(action, StartRun):
                    self._start(action, now_ms)
                else:
                    self._claim(action, now_ms)
            if all(key in self.started for key in wanted) or self._is_cut_off():
                break
            if planned:
                continue
            times = [end for end, *_ in self._ends[:1]] + ([wake_ms] if wake_ms else [])
            if not times or min(times) > self._view.now_ms + FARTHEST_MS:
                break
            now_ms = max(now_ms, min(times))
            self._end_until(now_ms)
        return self

    def _seen_at(self, now_ms: int) -> View:
        return replace(
            self._view,
            now_ms=now_ms,
            clusters=tuple(self._clusters.values()),
            shapes=tuple(self._shapes.values()),
            stops=(),
            next_due_ms=0,
            held=tuple(self._held.values()),
            claims=tuple(self._promised()),
        )

    def _promised(self) -> list[ClaimView]:
        """Who was promised a place, with those that are still in the way."""
        names = {run: held.name for run, held in self._held.items()}
        found = [
            replace(one, live=tuple(names[run] for run in one.claim.victims if run in names))
            for one in self._claims.values()
        ]
        return sorted(found, key=lambda one: (one.claim.since_ms, one.order))

    def _claim(self, action: ClaimRoom, now_ms: int) -> None:
        """Others are stopped for a workload: they end when their grace is over, and come back."""
        if action.claim is None:
            self._claims.pop(action.workload, None)
            return
        shape = next(
            one
            for one in self._shapes.values()
            if any(head.id == action.workload for head in one.heads)
        )
        head = next(one for one in shape.heads if one.id == action.workload)
        alone = replace(shape, heads=(head,), count=1)
        claim = replace(action.claim, since_ms=now_ms)
        self._claims[head.id] = ClaimView(
            head.id, head.version, head.name, head.order, alone, claim
        )
        for stop in action.stops:
            held = self._held[stop.run]
            self._held[stop.run] = replace(held, leaving=True)
            self._cut[stop.run] = None
            self._push(now_ms + stop.grace_ms + held.copy_ms, stop.run, held.allocation.cluster)

    def _come_back(self, held: Held, begun: Begun | None, now_ms: int) -> None:
        """One that was stopped waits again, with what is left of its length."""
        if held.shape is None or begun is None:
            return
        key = ShapeId(digest(held.shape))
        head = Head(
            held.workload, held.version, held.priority, held.order, now_ms, held.name, begun.work,
            begun.limit_ms, held.grace_ms, begun.goes_on, held.protected_ms,
        )  # fmt: skip
        known = self._shapes.get(key) or ShapeView(key, held.shape, -1, (), 0, None)
        heads = sorted((*known.heads, head), key=lambda one: (-one.priority, one.order))
        self._shapes[key] = replace(known, heads=tuple(heads), count=known.count + 1)
        end_ms = self._whole_end.pop(held.run, None)
        saved_ms = now_ms if begun.goes_on else held.since_ms
        self._rest[held.workload] = None if end_ms is None else max(0, end_ms - saved_ms)

    def _start(self, start: StartRun, now_ms: int) -> None:
        self.started.setdefault(start.workload, now_ms)
        self.fewest_known.setdefault(start.workload, self._fewest)
        name = start.allocation.cluster
        cluster = self._clusters[name]
        run = run_id(start.workload, 0)
        begun = cluster.begun
        for key, shape in self._shapes.items():
            head = next((one for one in shape.heads if one.id == start.workload), None)
            if head is not None:
                one = Begun(
                    now_ms, head.work, head.limit_ms, shape.shape.queue, head.grace_ms,
                    goes_on=head.goes_on,
                )  # fmt: skip
                begun = {**begun, run: one}
                self._take_head(key, shape, head)
                if start.holding is not None:
                    self._held[run] = self._hold(start, start.holding, head, shape, run, now_ms)
                break
        self._clusters[name] = replace(
            cluster, allocations=(*cluster.allocations, (run, start.allocation)), begun=begun
        )
        self._claims.pop(start.workload, None)
        if start.workload in self._rest:
            rest_ms = self._rest.pop(start.workload)
            if rest_ms is None:
                self.unknown += 1
            else:
                self._whole_end[run] = now_ms + rest_ms
                self._push(now_ms + rest_ms, run, name)
            return
        self._will_end(run, name, now_ms, self._known.waiting.get(start.workload, UNKNOWN))

    def _hold(
        self,
        start: StartRun,
        holding: Holding,
        head: Head,
        shape: ShapeView,
        run: RunId,
        now_ms: int,
    ) -> Held:
        """What it holds of quota, so that it may be stopped for others too."""
        namespace, queue = named(shape.shape.queue)
        return Held(
            workload=start.workload,
            version=start.workload_version,
            run=run,
            name=head.name,
            local_queue=f"{namespace}/{queue}",
            priority=head.priority,
            order=head.order,
            holding=holding,
            allocation=start.allocation,
            planned_ms=now_ms,
            since_ms=now_ms,
            grace_ms=head.grace_ms,
            least_run_ms=self._view.limits.least_run_ms,
            protected_ms=head.protected_ms,
            shape=shape.shape,
        )

    def _take_head(self, key: str, shape: ShapeView, head: Head) -> None:
        if len(shape.heads) > 1:
            left = tuple(one for one in shape.heads if one is not head)
            self._shapes[key] = replace(shape, heads=left, count=shape.count - 1)
        else:
            del self._shapes[key]

    def _is_cut_off(self) -> bool:
        """Whether somebody whom the view doesn't show would have a turn from here on."""
        return any(unseen and key not in self._shapes for key, unseen in self._unseen.items())

    def _will_end(self, run: RunId, cluster: str, began_ms: int, length: Length) -> None:
        now_ms = max(began_ms, self._view.now_ms)
        lasts_ms = self._take(run, length)
        if lasts_ms is None:
            self.unknown += 1
        else:
            seen = length.seen if length.basis in OF_THE_SAME else min(length.seen, MANY - 1)
            end_ms = max(began_ms + lasts_ms, now_ms)
            self._whole_end[run] = end_ms
            self._push(end_ms, run, cluster, seen)

    def _push(self, end_ms: int, run: RunId, cluster: str, seen: int = MANY) -> None:
        """A run ends then, whatever was known of its end before; one that is stopped no later."""
        if end_ms < self._end_at.get(run, end_ms + 1):
            self._end_at[run] = end_ms
            heappush(self._ends, (end_ms, run, cluster, seen))

    def _end_until(self, now_ms: int) -> None:
        while self._ends and self._ends[0][0] <= now_ms:
            end_ms, over, name, known_from = heappop(self._ends)
            if self._end_at.get(over) != end_ms:
                continue
            del self._end_at[over]
            self._fewest = min(self._fewest, known_from)
            held, cluster = self._held.pop(over, None), self._clusters[name]
            if held is not None and over in self._cut and self._whole_end.get(over) != end_ms:
                self._come_back(held, cluster.begun.get(over), end_ms)
            self._cut.pop(over, None)
            left = tuple((run, held) for run, held in cluster.allocations if run != over)
            self._clusters[name] = replace(cluster, allocations=left)
