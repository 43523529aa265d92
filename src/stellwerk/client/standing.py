"""What travels about how a waiting workload stands in its queue."""

from msgspec import Struct


class Narrow(Struct):
    """What is lacking of a flavor's resource, and the level that lets the least through."""

    flavor: str
    resource: str
    wanted: str = ""
    available: str = ""
    level: str = ""


class Contender(Struct):
    """A run that holds what is lacking, and whether it may be stopped for it, and why not."""

    name: str
    id: str = ""
    owner: str = ""
    queue: str = ""
    priority: int = 0
    holds: dict[str, str] = {}
    standing: str = ""
    why: str = ""
    until_ms: int | None = None


class Way(Struct):
    """A change that was tried and lets it start, as `whatif` takes it."""

    change: str
    kind: str = ""
    then: str = ""


class Rises(Struct):
    """How its priority rises: an hour, so far, at most, and whom it passes from when on."""

    per_hour: int = 0
    gained: int = 0
    most: int = 0
    passes: int = 0
    at_ms: int = 0


class Standing(Struct):
    """How a waiting workload stands in its queue."""

    queue: str = ""
    place: int = 0
    waiting: int = 0
    ahead_wants: dict[str, str] = {}
    narrow: list[Narrow] = []
    contenders: list[Contender] = []
    more_contenders: int = 0
    ways: list[Way] = []
    rises: Rises | None = None
