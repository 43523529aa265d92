"""Room that somebody is promised for times to come: how much, for whom, where and when.

What is kept are parts of nodes, chosen when the reservation is made and again where they are lost.
"""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.lengths import Work
from stellwerk.core.model.quantity import write_cpus
from stellwerk.core.model.resources import DEFAULT_QUEUE, NodeAllocation

MOST_RESERVATIONS = 64
MOST_SPANS = 60
MOST_AHEAD_MS = 430 * 86_400_000
LONGEST_MS = 31 * 86_400_000
"""So many reservations at a time, so many times each, so far ahead, and each so long at most."""

_DEFAULT = f"{DEFAULT_QUEUE}/"

HolderKind = Literal["person", "project", "queue"]
HOLDERS: tuple[HolderKind, ...] = ("person", "project", "queue")
OverWhy = Literal["expired", "unused", "cancelled"]


class Holder(Struct, frozen=True):
    """Whose work may start in it; a queue is a LocalQueue (``namespace/name``)."""

    kind: HolderKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def owns(self, work: Work, queue: str) -> bool:
        """Whether work of this owner and project, in this queue, is this one's."""
        match self.kind:
            case "person":
                return work.owner == self.name
            case "project":
                return work.project == self.name
            case "queue":
                whole = queue or f"{DEFAULT_QUEUE}/{DEFAULT_QUEUE}"
                return whole.removeprefix(_DEFAULT) == self.name.removeprefix(_DEFAULT)


class Span(Struct, frozen=True):
    """From when until when (UTC milliseconds)."""

    from_ms: int
    until_ms: int

    def meets(self, other: "Span") -> bool:
        """Whether both have a moment in common."""
        return self.from_ms < other.until_ms and other.from_ms < self.until_ms


class Wanted(Struct, frozen=True, omit_defaults=True):
    """How much: whole nodes, cards with their part of their nodes, or CPUs; one of the three.

    ``kind`` is the accelerator that is meant, ``clusters`` are where it may be (empty: anywhere).
    """

    nodes: int = 0
    gpus: int = 0
    cpus_milli: int = 0
    kind: str = ""
    clusters: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" of {self.kind}" if self.kind else ""
        if self.nodes:
            return f"{self.nodes} node{'s' * (self.nodes > 1)}{of}"
        if self.gpus:
            return f"{self.gpus} {self.kind or 'GPU'}{'s' * (self.gpus > 1)}"
        return f"{write_cpus(self.cpus_milli)} CPU{'s' * (self.cpus_milli > 1000)}{of}"


class Reservation(Struct, frozen=True, omit_defaults=True):
    """A promise of room. ``spans`` are the times that are left of it, the next one first.

    ``release_ms`` after its begin a time is given up in which nothing of its holder has started
    (0: never). ``used_ms`` is when the last run started in it, ``broken`` why it can't be kept as
    things are ("" = it can).
    """

    name: str
    actor: str
    holder: Holder
    wanted: Wanted
    cluster: str
    parts: tuple[NodeAllocation, ...]
    spans: tuple[Span, ...]
    release_ms: int = 0
    made_ms: int = 0
    used_ms: int = 0
    broken: str = ""

    def at(self, now_ms: int) -> Span | None:
        """The time that goes on, or else the next one."""
        return next((one for one in self.spans if one.until_ms > now_ms), None)

    def open_at(self, now_ms: int) -> bool:
        """Whether its holder's work may start in it."""
        return any(one.from_ms <= now_ms < one.until_ms for one in self.spans)

    def meets(self, spans: tuple[Span, ...]) -> bool:
        """Whether it has a moment in common with other times."""
        return any(mine.meets(one) for mine in self.spans for one in spans)


class ReservationWish(Struct, frozen=True, forbid_unknown_fields=True):
    """A reservation as somebody asks for it."""

    name: str
    holder: Holder
    wanted: Wanted
    spans: list[Span]
    release_ms: int = 0


class ReservationNow(Struct, frozen=True, omit_defaults=True):
    """A reservation as it stands. ``running`` are its holder's runs in it, ``leaving`` those of
    others that are stopped before it begins (all by name). ``note`` says why nobody's work could
    start in it ("" = nothing speaks against it).
    """

    reservation: Reservation
    open: bool = False
    running: list[str] = []
    leaving: list[str] = []
    note: str = ""


class ReservationList(Struct, frozen=True):
    """All reservations, those that begin first come first."""

    items: list[ReservationNow]
