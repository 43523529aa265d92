"""Turns what is asked of queueing's objects into events: all that were asked for, or none.

Whether objects can stand beside each other was looked at before, with the places in the text; here
it is asked once more, since others may have been applied meanwhile.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct

from stellwerk.core.describe.queues_checks import Place, problems_together
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.ids import ShapeId, WorkloadId
from stellwerk.core.model.queue_object import KeptObject, ObjectKey, QueueObject
from stellwerk.core.model.queueing import QueueObjects, ResourceGroup, Strategy
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import named
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.derived import derived
from stellwerk.core.state import State
from stellwerk.core.state.queueing import together

DEFAULT_NAMESPACE = "default"
Kept = Mapping[ObjectKey, KeptObject]
Doors = Mapping[ShapeId, ObjectKey]


class QueueingNow(Struct, frozen=True):
    """The objects of queueing with all live work, and where it waits, at one moment."""

    kept: dict[ObjectKey, KeptObject]
    objects: QueueObjects
    live: tuple[Workload, ...]
    doors: dict[ShapeId, ObjectKey]
    past_use: dict[str, dict[str, float]] = {}


def queueing_now(state: State, now_ms: int = 0) -> QueueingNow:
    """What is known now, as a value that stays as it is; past use as it counts at ``now_ms``."""
    queueing = state.queueing
    live = tuple(state.workloads.values())
    past = state.past_use.at(now_ms, queueing.objects.settings.past_use)
    objects = derived(queueing.objects, tuple(state.clusters.values()))
    return QueueingNow(dict(queueing.kept), objects, live, doors_of(state), past)


class Use(Struct, frozen=True):
    """What an object is needed for: by other objects, and by how much live work."""

    key: ObjectKey
    objects: tuple[ObjectKey, ...] = ()
    workloads: tuple[WorkloadId, ...] = ()


def on_apply(state: State, command: cmd.ApplyQueues) -> list[ev.Event]:
    """What objects change; what is said again gives nothing."""
    kept = state.queueing.kept
    fresh = [one for one in command.objects if _is_news(kept, one)]
    if not fresh:
        return []
    after = objects_after(kept, fresh)
    wrong = [*moved(kept, fresh), *problems_together(after)]
    if wrong:
        return [_refused("apply-queues", wrong[0].message)]
    return [ev.QueueObjectApplied(one) for one in fresh]


def on_delete(state: State, command: cmd.DeleteQueueObjects) -> list[ev.Event]:
    """Forgets objects that are there."""
    kept = state.queueing.kept
    gone = [key for key in command.keys if key in kept]
    if not gone:
        return []
    if not command.force:
        work, doors = state.workloads.values(), doors_of(state)
        used = in_use(state.queueing.objects, gone, work, doors)
        if used:
            return [_refused("delete-queue-objects", f"{used[0].key.shown} is in use")]
    return [ev.QueueObjectDeleted(key.kind, key.name, key.namespace) for key in gone]


def _refused(command: str, why: str) -> ev.CommandRefused:
    return ev.CommandRefused(command, WorkloadId(""), Reason("objects_refused", {"note": why}))


def _is_news(kept: Kept, one: QueueObject) -> bool:
    known = kept.get(one.key)
    return known is None or known.object != one


def objects_after(
    kept: Kept, put: Iterable[QueueObject], gone: Iterable[ObjectKey] = ()
) -> QueueObjects:
    """What all objects say together once some are applied and others deleted."""
    left = {key: one.object for key, one in kept.items()}
    left.update((one.key, one) for one in put)
    for key in gone:
        left.pop(key, None)
    return together(left.values())


def moved(
    kept: Kept, put: Iterable[QueueObject], places: Mapping[ObjectKey, Place] | None = None
) -> list[Problem]:
    """What can't change while an object stands, as work was taken in by what it said before."""
    found = []
    for one in put:
        known = kept.get(one.key)
        if known is None:
            continue
        local, flavor = one.local_queue, one.flavor
        was = known.object
        if local is not None and was.local_queue is not None:
            before, after, path = was.local_queue.queue, local.queue, "spec.clusterQueue"
        elif flavor is not None and was.flavor is not None and was.flavor.topology:
            before, after, path = was.flavor.topology, flavor.topology, "spec.topologyName"
        else:
            continue
        if before != after:
            message = f"`{path}` of {one.key.shown} is `{before}` and can't become `{after}`"
            help = f"`stw delete {one.kind.lower()} {one.key.path}` first, or use another name"
            file, line, column = (places or {}).get(one.key, ("", 0, 0))
            found.append(Problem("queue/immutable", message, help, file, line, column, path))
    return found


def doors_of(state: State) -> dict[ShapeId, ObjectKey]:
    """The LocalQueue that the work of each shape asks for, whether there is one or not."""
    kept = state.queueing.kept
    return {id: door_of(kept, queue.shape.queue) for id, queue in state.shapes.items()}


def door_of(known: Container[ObjectKey], queue: str) -> ObjectKey:
    """The LocalQueue that a shape's queue means: of its own namespace, else of `default`."""
    own = ObjectKey("LocalQueue", *named(queue))
    shared = own._replace(namespace=DEFAULT_NAMESPACE)
    return shared if own not in known and shared in known else own


def strategy_of(objects: QueueObjects, queue: str) -> Strategy | None:
    """How the ClusterQueue behind a shape's queue orders its work; None = there is none."""
    doors = {ObjectKey("LocalQueue", one.namespace, one.name): one for one in objects.local_queues}
    local = doors.get(door_of(doors, queue))
    found = (one.strategy for one in objects.queues if local and one.name == local.queue)
    return next(found, None)


def in_use(
    objects: QueueObjects, gone: Iterable[ObjectKey], live: Iterable[Workload], doors: Doors
) -> list[Use]:
    """Which of the objects that would go others need that would stay, or live work."""
    going = dict.fromkeys(gone)
    needed: dict[ObjectKey, dict[ObjectKey, None]] = {key: {} for key in going}
    for user, wanted in _references(objects):
        if wanted in needed and user not in going:
            needed[wanted][user] = None
    leads = {one.key: one.queue for one in objects.local_queues}
    work: dict[ObjectKey, list[WorkloadId]] = {}
    for one in live:
        door = doors[one.shape]
        behind = leads.get(door.path)
        if behind is None:
            continue
        for key in (door, ObjectKey("ClusterQueue", "", behind)):
            if key in going:
                work.setdefault(key, []).append(one.id)
    uses = (Use(key, tuple(needed[key]), tuple(work.get(key, ()))) for key in going)
    return [use for use in uses if use.objects or use.workloads]


def _references(objects: QueueObjects) -> Iterable[tuple[ObjectKey, ObjectKey]]:
    """Who names whom."""
    for local in objects.local_queues:
        user = ObjectKey("LocalQueue", local.namespace, local.name)
        yield user, ObjectKey("ClusterQueue", "", local.queue)
    for queue in objects.queues:
        user = ObjectKey("ClusterQueue", "", queue.name)
        yield user, ObjectKey("Cohort", "", queue.cohort)
        yield from ((user, flavor) for flavor in _flavors(queue.groups))
        yield from ((user, ObjectKey("AdmissionCheck", "", rule.name)) for rule in queue.checks)
    for cohort in objects.cohorts:
        user = ObjectKey("Cohort", "", cohort.name)
        yield user, ObjectKey("Cohort", "", cohort.parent)
        yield from ((user, flavor) for flavor in _flavors(cohort.groups))
    for one in objects.flavors:
        yield ObjectKey("ResourceFlavor", "", one.name), ObjectKey("Topology", "", one.topology)


def _flavors(groups: Iterable[ResourceGroup]) -> list[ObjectKey]:
    return [
        ObjectKey("ResourceFlavor", "", one.flavor) for group in groups for one in group.flavors
    ]
