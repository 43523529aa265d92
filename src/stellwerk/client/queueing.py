"""What travels about objects of queueing, and the calls that ask for it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from stellwerk.client.calendars import CalendarCalls
from stellwerk.client.parts import part
from stellwerk.client.reservations import ReservationCalls
from stellwerk.client.wire import Changed
from stellwerk.core.model.reasons import RenderedReason


class FieldOf(Struct):
    """A field of an object that changes; "" = it isn't there."""

    path: str
    before: str = ""
    after: str = ""


class ObjectChange(Struct):
    """What becomes of one object; the objects themselves come with a dry run alone."""

    kind: str
    name: str
    namespace: str = ""
    change: str = ""
    fields: list[FieldOf] = []
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class Use(Struct):
    """Who needs an object: other objects, and live work by name (the first of ``live``)."""

    kind: str
    name: str
    namespace: str = ""
    objects: list[str] = []
    workloads: list[str] = []
    live: int = 0


class Moved(Struct):
    """Live work for which a change would matter: what it would do now, and what after it."""

    workload: str
    queue: str = ""
    before: str = ""
    after: str = ""
    why: str = ""
    why_before: str = ""
    others: int = 0


class OverQuota(Struct):
    """A queue or cohort that would use more than it has."""

    name: str
    kind: str = ""
    flavor: str = ""
    resource: str = ""
    used: str = ""
    most: str = ""


class Consequences(Struct):
    """What would follow from a change at once; ``left`` counts those that aren't listed."""

    moved: list[Moved] = []
    left: int = 0
    over: list[OverQuota] = []


class DeletedObjects(Struct):
    """What was deleted, or would be, and who needed it."""

    dry_run: bool = False
    objects: list[ObjectChange] = []
    uses: list[Use] = []
    seq: int = 0
    consequences: Consequences | None = None


class QueueObject(Struct):
    """An object as it was written, and who applied it when."""

    kind: str
    name: str
    namespace: str = ""
    object: dict[str, Any] = {}
    created_by: str = ""
    created_ms: int = 0
    by: str = ""
    applied_ms: int = 0
    generation: int = 0
    about: str = ""


class Objects(Struct):
    """Objects by kind and name; ``counts`` are of all there are."""

    items: list[QueueObject] = []
    counts: dict[str, int] = {}
    seq: int = 0


class PairOf(Struct):
    """A flavor's resource at one queue or cohort, in Kubernetes' quantities."""

    flavor: str
    resource: str
    nominal: str = ""
    quota: str = "0"
    used: str = "0"
    borrowed: str = "0"
    available: str = "0"
    borrowing_limit: str = ""
    lending_limit: str = ""
    used_share: float | None = None
    derived: bool = False


class QueueRow(Struct):
    """How work stands in a ClusterQueue."""

    name: str
    cohort: str = ""
    strategy: str = ""
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    status: str = ""
    about: str = ""
    local_queues: list[str] = []
    used: list[PairOf] = []


class QueueRows(Struct):
    """All ClusterQueues."""

    items: list[QueueRow] = []
    seq: int = 0


class QuotaRow(Struct):
    """A cohort or queue at its depth below the root."""

    name: str
    kind: str = ""
    depth: int = 0
    parent: str = ""
    weight: float = 1.0
    share: float = 0.0
    pairs: list[PairOf] = []


class Quota(Struct):
    """The trees from their roots down."""

    items: list[QuotaRow] = []
    seq: int = 0


class LineItem(Struct):
    """One that waits: every reason, its ClusterQueue, who holds what it lacks."""

    id: str
    reasons: list[RenderedReason] = []
    held_by: list[str] = []
    more_holders: int = 0
    queue: str = ""


class Line(Struct):
    """The first in line."""

    items: list[LineItem] = []
    seq: int = 0


class FairPair(Struct):
    """One flavor's resource at a queue or cohort: now, and unit hours since then."""

    flavor: str
    resource: str
    nominal: str = ""
    used: str = "0"
    borrowed_now: str = "0"
    held_h: float = 0.0
    borrowed_h: float = 0.0
    lent_h: float = 0.0
    part: float | None = None
    own_part: float | None = None


class FairRow(Struct):
    """A cohort or queue at its depth below the root; ``share`` is its weighted share now."""

    name: str
    kind: str = ""
    depth: int = 0
    weight: float = 1.0
    share: float = 0.0
    pairs: list[FairPair] = []


class FairPerson(Struct):
    """What somebody's runs held, and which part that is of all."""

    who: str
    gpu_h: float = 0.0
    cpu_h: float = 0.0
    gpu_part: float | None = None
    cpu_part: float | None = None
    live: int = 0


class PastUse(Struct):
    """What a LocalQueue used, where an amount counts half after each half-life."""

    local_queue: str
    queue: str = ""
    weight: float = 1.0
    used: dict[str, float] = {}
    weighed: float | None = None


class Fair(Struct):
    """Shares of queues and people over time."""

    queues: list[FairRow] = []
    people: list[FairPerson] = []
    past_use: list[PastUse] = []
    half_life_ms: int = 0
    since_ms: int = 0
    until_ms: int = 0
    seq: int = 0


class QueueingCalls(ReservationCalls, CalendarCalls):
    """Each endpoint about queueing as a method."""

    def queue_objects(self, kind: str = "", name: str = "", namespace: str = "") -> Objects:
        """Objects as they were written; one that is named and isn't there is refused."""
        asked = {"kind": kind, "name": name, "namespace": namespace}
        query = urlencode({key: value for key, value in asked.items() if value})
        return self._get(f"/v1/queueing/objects{'?' if query else ''}{query}", Objects)

    def delete_queue_objects(
        self,
        keys: Sequence[tuple[str, str, str]],
        *,
        force: bool = False,
        dry_run: bool = False,
        key: str = "",
    ) -> DeletedObjects:
        """Forgets objects (kind, namespace, name), all or none."""
        named = [{"kind": k, "namespace": space, "name": name} for k, space, name in keys]
        body = {"objects": named, "force": force, "dry_run": dry_run}
        return self._order("/v1/queueing/objects/delete", DeletedObjects, body, key=key)

    def set_check(
        self, name: str, check: str, state: str, *, message: str = "", retry_after_ms: int = 0
    ) -> Changed:
        """Says for an admission check: Ready, Retry, Rejected or Pending."""
        after = {"retry_after_ms": retry_after_ms}
        body = {"check": check, "state": state, "message": message, **after}
        return self._order(f"/v1/workloads/{part(name)}/check", Changed, body)

    def cluster_queues(self) -> tuple[QueueRow, ...]:
        """How work stands in each ClusterQueue."""
        return tuple(self._get("/v1/queueing/queues", QueueRows).items)

    def line(self, *names: str) -> tuple[LineItem, ...]:
        """Every reason of what waits, and who holds what it lacks: of these, or the first."""
        query = urlencode([("workload", name) for name in names])
        return tuple(self._get(f"/v1/queueing/line?{query}", Line).items)

    def fair(self, *, since_ms: int = 0) -> Fair:
        """What queues, cohorts and people held from then on, borrowed and lent."""
        return self._get(f"/v1/fair?{urlencode({'since_ms': since_ms})}", Fair)

    def quota(self, name: str = "") -> tuple[QuotaRow, ...]:
        """The quota trees; with a name, the way to that queue or cohort and what is below it."""
        query = f"?{urlencode({'name': name})}" if name else ""
        return tuple(self._get(f"/v1/queueing/quota{query}", Quota).items)
