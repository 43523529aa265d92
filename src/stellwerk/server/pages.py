"""Puts read models together into the answers about workloads and clusters.

Everything here reads only what is committed and may run in a thread.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from stellwerk.core.describe.task_wishes import told as told_wishes
from stellwerk.core.model.ids import DecisionId, RunId, ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.telemetry import Telemetry, Usage
from stellwerk.core.model.workload import Phase, Workload
from stellwerk.core.peaks import Peaks
from stellwerk.core.view import View
from stellwerk.drivers.base import Folders
from stellwerk.server import fleet_models, models, story, views
from stellwerk.server.gpu_advice import advice_for
from stellwerk.server.story_models import SnapshotView
from stellwerk.server.telemetry_views import metric_view
from stellwerk.server.waiting import Waiting
from stellwerk.store import Store, StoreError, Wait, WorkloadFilter

T = TypeVar("T")
LIVE_PHASES: tuple[Phase, ...] = ("Starting", "Dispatched", "SettingUp", "Running", "Stopping")


class _Written(msgspec.Struct):
    """The part of a stored submission that is shown."""

    text: str = ""


class _PackedFile(msgspec.Struct):
    """An entry of a manifest; only files have a hash."""

    hash: str = ""
    size: int = 0


class _Packed(msgspec.Struct):
    """The part of a manifest that is shown."""

    files: list[_PackedFile] = []
    commit: str = ""
    dirty: bool = False


class Pages:
    """Answers about what the store holds. Shapes never change, so each is read once.

    Where a view is given, what waits is told by its numbers, not by those that were told first.
    """

    def __init__(
        self,
        store: Store,
        usage_of: Callable[[RunId], Usage | None],
        now_ms: Callable[[], int],
        peaks: Callable[[], Peaks] = Peaks,
    ) -> None:
        self._store = store
        self._peaks = peaks
        self._usage_of = usage_of
        self._now_ms = now_ms
        self._shapes: dict[ShapeId, Shape] = {}
        self._waiting = Waiting()

    def rows(
        self, wanted: WorkloadFilter, *, count: bool = False, view: View | None = None
    ) -> models.Rows:
        """A page of a list; with `count` it says how many there are on all pages."""
        seq = self._store.seq()
        found = [row.workload for row in self._store.workloads(wanted)]
        waits = self._waits_of(found, view)
        places = self._places_of(found)
        items = [self._row(workload, waits, places) for workload in found]
        full = wanted.limit and len(found) == wanted.limit
        return models.Rows(
            items=items,
            seq=seq,
            next=_cursor(wanted, found[-1]) if full else None,
            total=self._store.count(wanted) if count else None,
        )

    def row(self, workload: Workload) -> models.Row:
        """One line of a list."""
        return self._row(workload, self._waits_of([workload]), self._places_of([workload]))

    def _row(
        self,
        workload: Workload,
        waits: Mapping[ShapeId, Wait],
        places: Mapping[str, views.Place],
    ) -> models.Row:
        reasons = self._why(workload, self._wait_of(workload, waits), places)
        return views.row(workload, self.shape(workload.shape), reasons, self._sampled(workload))

    def _sampled(self, workload: Workload) -> Usage | None:
        run = workload.live_run
        return self._usage_of(run.id) if run is not None else None

    def show(
        self, workload: Workload, folders: Folders, told: Telemetry, view: View | None = None
    ) -> models.Show:
        """Everything about one workload; `told` is what its newest run tells of itself."""
        seq = self._store.seq()
        shape = self.shape(workload.shape)
        wait = self._wait_of(workload, self._waits_of([workload], view))
        why = self._why(workload, wait, self._places_of([workload]))
        return models.Show(
            **views.headline(workload, shape, why, told.usage),
            task=self._text(workload),
            element=workload.array,
            runs=[views.run_view(run) for run in workload.runs],
            reasons=views.reasons_of(workload, why, self._ahead(workload)),
            decision=self._decision_id(workload, wait),
            shape=msgspec.to_builtins(shape) if shape else None,
            policies=_plain(workload.policies),
            snapshot=self._snapshot(workload.snapshot) if workload.snapshot else None,
            work_dir=folders.work or None,
            output_dir=folders.output or None,
            checkpoint_dir=folders.checkpoint or None,
            metrics={name: metric_view(metric) for name, metric in told.metrics.items()},
            position=self._position(workload),
            timeline=story.timeline(self._store.story(workload.id), self._name_of),
            gpu_advice=advice_for(self._peaks(), workload, shape),
            seq=seq,
            wishes=list(told_wishes(shape.wishes)) if shape else [],
            checks=list(workload.checks),
        )

    def explain(self, workload: Workload, number: int, view: View | None = None) -> models.Explain:
        """The decision behind a run (0: the newest, or why it waits) with its reasons."""
        seq = self._store.seq()
        shape = self.shape(workload.shape)
        wait = self._wait_of(workload, self._waits_of([workload], view))
        run = next((run for run in workload.runs if run.number == number), None)
        name = run.decision if run else self._decision_id(workload, wait)
        found = self._store.decision(DecisionId(name)) if name else None
        shown = views.decision_view(found[0], shape, found[1]) if found else None
        newest = workload.runs[-1].number if workload.runs else None
        return models.Explain(
            id=workload.id,
            name=workload.name,
            phase=workload.phase,
            run=run.number if run else newest if not wait else None,
            decision=shown,
            reasons=views.reasons_of(
                workload,
                self._why(workload, wait, self._places_of([workload])),
                self._ahead(workload),
            ),
            position=self._position(workload),
            seq=seq,
            current=self._current(workload, shape, view) if wait and not run else None,
            gpu_advice=advice_for(self._peaks(), workload, shape),
            wishes=list(told_wishes(shape.wishes)) if shape else [],
        )

    def _current(
        self, workload: Workload, shape: Shape | None, view: View | None
    ) -> models.DecisionView | None:
        """What would be decided on a waiting one at this moment; it isn't stored."""
        found = self._waiting.now(view, [workload.shape]) if view is not None else {}
        decision = found.get(workload.shape)
        if decision is None:
            return None
        return views.decision_view(decision, shape, decision.inputs.now_ms)

    def clusters(self, seen_ms: dict[str, int], now_ms: int) -> fleet_models.Clusters:
        """All clusters with what our live runs hold on them."""
        seq = self._store.seq()
        held = self._allocations()
        return fleet_models.Clusters(
            seq=seq,
            items=[
                views.cluster_view(
                    cluster,
                    held.get(cluster.name, {}),
                    max(0, now_ms - seen_ms.get(cluster.name, at_ms)),
                )
                for cluster, at_ms in self._store.clusters()
            ],
        )

    def _ahead(self, workload: Workload) -> int:
        position = self._position(workload)
        return position.ahead if position is not None else 0

    def shape(self, id: ShapeId) -> Shape | None:
        """What workloads of a shape ask for."""
        if id not in self._shapes:
            shape = self._store.shape(id)
            if shape is None:
                return None
            if len(self._shapes) > 10_000:
                self._shapes.clear()
            self._shapes[id] = shape
        return self._shapes[id]

    def _waits_of(
        self, workloads: Iterable[Workload], view: View | None = None
    ) -> dict[ShapeId, Wait]:
        in_line = (one for one in workloads if one.phase == "Pending" and not one.gate)
        shapes = {workload.shape: None for workload in in_line}
        stored = {shape: self._store.waits(shape) for shape in shapes}
        found = {shape: wait for shape, wait in stored.items() if wait is not None}
        now = self._waiting.now(view, found) if view is not None else {}
        return {
            shape: msgspec.structs.replace(wait, reasons=now[shape].reasons)
            if shape in now
            else wait
            for shape, wait in found.items()
        }

    def _wait_of(self, workload: Workload, waits: Mapping[ShapeId, Wait]) -> Wait | None:
        """What its shape was found to wait for; of one that isn't due yet nothing was looked at."""
        return None if self._not_due(workload) else waits.get(workload.shape)

    def _not_due(self, workload: Workload) -> bool:
        return workload.phase == "Pending" and workload.not_before_ms > self._now_ms()

    def _places_of(self, workloads: Iterable[Workload]) -> dict[str, views.Place]:
        """All clusters, if one of these has a run."""
        if not any(workload.live_run is not None for workload in workloads):
            return {}
        found = self._store.clusters()
        return {cluster.name: views.Place(cluster, at_ms) for cluster, at_ms in found}

    def _why(
        self, workload: Workload, wait: Wait | None, places: Mapping[str, views.Place]
    ) -> tuple[Reason, ...]:
        """What a waiting one waits for, or why nothing is heard of one that has a run."""
        if workload.live_run is not None:
            return views.out_of_reach(workload, places, self._now_ms())
        return wait.reasons if wait else ()

    def _decision_id(self, workload: Workload, wait: Wait | None) -> str | None:
        if workload.phase == "Pending" and wait is not None:
            return wait.decision
        return None if self._not_due(workload) else workload.decision or None

    def _position(self, workload: Workload) -> models.Position | None:
        in_line = workload.phase == "Pending" and not workload.gate
        found = self._store.position(workload.id) if in_line else None
        return models.Position(place=found.position, ahead=found.ahead) if found else None

    def _allocations(self) -> dict[str, dict[str, Allocation]]:
        held: dict[str, dict[str, Allocation]] = {}
        for row in self._store.workloads(WorkloadFilter(phases=LIVE_PHASES)):
            run = row.workload.live_run
            if run is not None:
                held.setdefault(run.allocation.cluster, {})[run.id] = run.allocation
        return held

    def _name_of(self, id: str) -> str:
        row = self._store.workload(id, "")
        return row.workload.name if row is not None else id

    def _text(self, workload: Workload) -> str:
        """What was submitted, as it was written; nothing if it isn't there any more."""
        stored = self._stored(workload.task, _Written)
        return stored.text if stored else ""

    def _snapshot(self, hash: str) -> SnapshotView:
        packed = self._stored(hash, _Packed) or _Packed()
        sizes = [one.size for one in packed.files if one.hash]
        return SnapshotView(
            hash=hash, files=len(sizes), bytes=sum(sizes), commit=packed.commit, dirty=packed.dirty
        )

    def _stored(self, hash: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode(self._store.blobs.get(hash), type=kind)
        except (StoreError, msgspec.MsgspecError):
            return None


def _cursor(wanted: WorkloadFilter, last: Workload) -> str:
    """Where the next page begins; `after_of` reads it."""
    return f"{last.priority},{last.order}" if wanted.sort == "line" else str(last.order)


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    """All fields of a struct, those at their defaults too."""
    return {name: msgspec.to_builtins(getattr(value, name)) for name in value.__struct_fields__}
