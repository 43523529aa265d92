"""An object of queueing as somebody applied it: what was written, and what was read of it.

Both are kept, so that what it said stays what it said, whatever a later version would read.
"""

from typing import NamedTuple

from msgspec import Struct

from stellwerk.core.model.admission import AdmissionCheck
from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    PriorityClass,
    QueueSettings,
    ResourceFlavor,
    Topology,
)

SPACED = ("LocalQueue",)
"""Kinds whose objects are in a namespace."""
SETTINGS = "Configuration"
SETTINGS_NAME = "default"
"""There is one Configuration, and it is written without a name."""


class ObjectKey(NamedTuple):
    """What names an object; ``namespace`` is "" for kinds without one."""

    kind: str
    namespace: str
    name: str

    @property
    def shown(self) -> str:
        """``Kind name`` or ``Kind namespace/name``."""
        return f"{self.kind} {self.path}"

    @property
    def path(self) -> str:
        """``name`` or ``namespace/name``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class QueueObject(Struct, frozen=True, omit_defaults=True):
    """One object. ``manifest`` is what was written, as JSON; the one field of the rest that is set
    is what it says (``labels`` for a Namespace).
    """

    kind: str
    name: str
    namespace: str = ""
    manifest: str = ""
    flavor: ResourceFlavor | None = None
    queue: ClusterQueue | None = None
    cohort: Cohort | None = None
    local_queue: LocalQueue | None = None
    priority_class: PriorityClass | None = None
    topology: Topology | None = None
    settings: QueueSettings | None = None
    labels: dict[str, str] | None = None
    check: AdmissionCheck | None = None

    @property
    def key(self) -> ObjectKey:
        """What names it."""
        return ObjectKey(self.kind, self.namespace, self.name)


class KeptObject(Struct, frozen=True, omit_defaults=True):
    """An object with who applied it and when; ``generation`` counts how often it changed."""

    object: QueueObject
    created_by: str = ""
    created_ms: int = 0
    by: str = ""
    applied_ms: int = 0
    generation: int = 1
