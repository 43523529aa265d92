"""The part of the live state that says how work is queued: the objects that people applied."""

from collections.abc import Iterable

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.queue_object import KeptObject, ObjectKey, QueueObject
from stellwerk.core.model.queueing import QueueObjects, QueueSettings

QueueingEvent = ev.QueueObjectApplied | ev.QueueObjectDeleted


class Queueing:
    """All objects of queueing. ``version`` counts changes; ``objects`` is the same value as long as
    it stays.
    """

    def __init__(self) -> None:
        self.kept: dict[ObjectKey, KeptObject] = {}
        self.version = 0
        self._objects: QueueObjects | None = QueueObjects()

    @property
    def objects(self) -> QueueObjects:
        """What all of it says, each kind in the order of names."""
        found = self._objects
        if found is None:  # any thread may ask: nothing is iterated that could change meanwhile
            found = self._objects = together([one.object for one in tuple(self.kept.values())])
        return found

    def take_over(self, kept: Iterable[KeptObject]) -> None:
        """Takes what an image holds."""
        self.kept = {one.object.key: one for one in kept}
        self.version = sum(one.generation for one in self.kept.values())
        self._objects = None

    def put(self, kept: KeptObject) -> None:
        """An object is new or another one than before."""
        self.kept[kept.object.key] = kept
        self._changed()

    def drop(self, key: ObjectKey) -> None:
        """An object is gone."""
        del self.kept[key]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._objects = None


def fold_queueing(queueing: Queueing, at_ms: int, actor: str, event: QueueingEvent) -> None:
    """Applies one fact."""
    if isinstance(event, ev.QueueObjectDeleted):
        queueing.drop(ObjectKey(event.kind, event.namespace, event.name))
        return
    known = queueing.kept.get(event.object.key)
    if known is None:
        queueing.put(KeptObject(event.object, actor, at_ms, actor, at_ms))
    else:
        changed = replace(
            known,
            object=event.object,
            by=actor,
            applied_ms=at_ms,
            generation=known.generation + 1,
        )
        queueing.put(changed)


def together(objects: Iterable[QueueObject]) -> QueueObjects:
    """What objects say together, each kind in the order of names."""
    found = sorted(objects, key=lambda one: one.key)
    named = {one.name: one.labels for one in found if one.labels is not None}
    settings = [one.settings for one in found if one.settings is not None]
    return QueueObjects(
        flavors=tuple(one.flavor for one in found if one.flavor is not None),
        queues=tuple(one.queue for one in found if one.queue is not None),
        cohorts=tuple(one.cohort for one in found if one.cohort is not None),
        local_queues=tuple(one.local_queue for one in found if one.local_queue is not None),
        priority_classes=tuple(
            one.priority_class for one in found if one.priority_class is not None
        ),
        topologies=tuple(one.topology for one in found if one.topology is not None),
        checks=tuple(one.check for one in found if one.check is not None),
        namespaces=named,
        settings=settings[0] if settings else QueueSettings(),
    )
