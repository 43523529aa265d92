"""What the API says of those for whom a waiting workload waits."""

import msgspec

from stellwerk.core.model.reasons import RenderedReason


class HolderView(msgspec.Struct, frozen=True):
    """Who holds some of what another waits for; when it likely ends, and when at the latest, `null`
    where nobody knows. `passed`: it stands behind the waiting one and started before it.
    """

    id: str
    name: str
    owner: str
    cluster: str
    holds: str
    since_ms: int
    likely_ms: int | None
    latest_ms: int | None
    passed: bool = False


class NarrowView(msgspec.Struct, frozen=True):
    """What is lacking of a flavor's resource, and the level that lets the least through."""

    flavor: str
    resource: str
    wanted: str
    available: str
    level: str


class ContenderView(msgspec.Struct, frozen=True):
    """A run that holds what is lacking. ``standing``: leaves, may be stopped, not yet (but from
    ``until_ms`` on), may not be stopped.
    """

    id: str
    name: str
    owner: str
    queue: str
    priority: int
    holds: dict[str, str]
    standing: str
    why: str
    until_ms: int | None = None


class WayView(msgspec.Struct, frozen=True):
    """A change that was tried and lets it start: in words that `whatif` takes, and what follows."""

    kind: str
    change: str
    then: str


class RisesView(msgspec.Struct, frozen=True):
    """How its priority rises: an hour, so far, at most; and from when on new work of the highest
    priority that waits (``passes``) comes after it (0: never).
    """

    per_hour: int
    gained: int
    most: int
    passes: int = 0
    at_ms: int = 0


class StandingView(msgspec.Struct, frozen=True):
    """How a waiting workload stands in its queue; ``queue`` "" = no ClusterQueue binds it.

    ``ahead_wants`` is what those before it ask for together, by resource.
    """

    queue: str
    place: int
    waiting: int
    ahead_wants: dict[str, str]
    narrow: list[NarrowView] = []
    contenders: list[ContenderView] = []
    more_contenders: int = 0
    ways: list[WayView] = []
    rises: RisesView | None = None


class LineItem(msgspec.Struct, frozen=True):
    """One that waits: every reason, its ClusterQueue, and who holds most of what it lacks."""

    id: str
    reasons: list[RenderedReason]
    held_by: list[str] = []
    more_holders: int = 0
    queue: str = ""


class Line(msgspec.Struct, frozen=True):
    """The first in line."""

    items: list[LineItem]
    seq: int
