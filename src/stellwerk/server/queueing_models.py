"""What travels about objects of queueing; like all models it only ever gains fields.

Quantities are texts as Kubernetes writes them (`500m`, `64Gi`).
"""

from typing import Any

import msgspec


class FieldView(msgspec.Struct, frozen=True):
    """A field of an object that changes; "" = it isn't there."""

    path: str
    before: str
    after: str


class ObjectChangeView(msgspec.Struct, frozen=True):
    """What becomes of one object. ``before`` and ``after`` are the objects, in a dry run alone."""

    kind: str
    namespace: str
    name: str
    change: str
    fields: list[FieldView] = []
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class ObjectRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an object."""

    kind: str
    name: str
    namespace: str = ""


class DeleteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Objects to be deleted, all or none; ``force`` those too that are in use."""

    objects: list[ObjectRef]
    force: bool = False
    dry_run: bool = False


class UseView(msgspec.Struct, frozen=True):
    """Who needs an object: other objects, and live work by name (the first of ``live``)."""

    kind: str
    namespace: str
    name: str
    objects: list[str]
    workloads: list[str]
    live: int


class Moved(msgspec.Struct, frozen=True):
    """Live work for which a change would matter: what it would do now, and what after it, and why.
    ``others`` that ask for the same fare like it.
    """

    workload: str
    queue: str
    before: str
    after: str
    why: str = ""
    why_before: str = ""
    others: int = 0


class OverQuota(msgspec.Struct, frozen=True):
    """A queue or cohort that would use more than it has."""

    name: str
    kind: str
    flavor: str
    resource: str
    used: str
    most: str


class Consequences(msgspec.Struct, frozen=True):
    """What would follow from a change at once. ``left`` counts those that aren't listed."""

    moved: list[Moved] = []
    left: int = 0
    over: list[OverQuota] = []


class DeletedObjects(msgspec.Struct, frozen=True):
    """What was deleted, or would be, and who needed it."""

    dry_run: bool
    objects: list[ObjectChangeView]
    uses: list[UseView]
    seq: int
    consequences: Consequences | None = None


class ObjectView(msgspec.Struct, frozen=True):
    """An object as it was written, and who applied it when."""

    kind: str
    namespace: str
    name: str
    object: dict[str, Any]
    created_by: str
    created_ms: int
    by: str
    applied_ms: int
    generation: int
    about: str = ""


class Objects(msgspec.Struct, frozen=True):
    """Objects by kind and name. ``counts`` says how many there are of each kind."""

    items: list[ObjectView]
    counts: dict[str, int]
    seq: int


class QueueRow(msgspec.Struct, frozen=True):
    """How work stands in a ClusterQueue. ``reserving`` hold or were promised quota; of those
    ``admitted`` run. ``status`` is Ready, or why nothing is taken in.
    """

    name: str
    cohort: str
    strategy: str
    pending: int
    reserving: int
    admitted: int
    status: str
    about: str
    local_queues: list[str]
    used: list["PairView"]


class QueueRows(msgspec.Struct, frozen=True):
    """All ClusterQueues."""

    items: list[QueueRow]
    seq: int


class PairView(msgspec.Struct, frozen=True):
    """A flavor's resource at one queue or cohort. ``nominal`` "" = it has none by itself; limits
    "" = there is none. ``borrowed`` is what is used beyond ``quota``. ``derived`` = ``nominal``
    follows from what the clusters have.
    """

    flavor: str
    resource: str
    nominal: str
    quota: str
    used: str
    borrowed: str
    available: str
    borrowing_limit: str
    lending_limit: str
    used_share: float | None
    derived: bool = False


class QuotaRow(msgspec.Struct, frozen=True):
    """A cohort or queue at its depth below the root."""

    name: str
    kind: str
    depth: int
    parent: str
    weight: float
    share: float
    pairs: list[PairView]


class Quota(msgspec.Struct, frozen=True):
    """All trees from their roots down, or the way to one queue and what is below it."""

    items: list[QuotaRow]
    seq: int
