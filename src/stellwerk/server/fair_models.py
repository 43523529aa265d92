"""What travels about fairness: shares over time, borrowed and lent; what lasts is in hours."""

import msgspec


class FairPair(msgspec.Struct, frozen=True):
    """One flavor's resource at a queue or cohort: now, and unit hours since then.

    ``part`` is its part of all that was held of it in its tree, ``own_part`` the part that its
    nominal quota is of the tree's.
    """

    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed_now: str
    held_h: float
    borrowed_h: float
    lent_h: float
    part: float | None
    own_part: float | None


class FairRow(msgspec.Struct, frozen=True):
    """A cohort or queue at its depth below the root; ``share`` is its weighted share now."""

    name: str
    kind: str
    depth: int
    weight: float
    share: float
    pairs: list[FairPair]


class FairPerson(msgspec.Struct, frozen=True):
    """What somebody's runs held, with or without a queue, and which part that is of all."""

    who: str
    gpu_h: float
    cpu_h: float
    gpu_part: float | None
    cpu_part: float | None
    live: int


class PastUseRow(msgspec.Struct, frozen=True):
    """What a LocalQueue used, where an amount counts half after each half-life; ``weighed`` is the
    one number of it, by the weights of the Configuration (null: a queue of no weight).
    """

    local_queue: str
    queue: str
    weight: float
    used: dict[str, float]
    weighed: float | None


class Fair(msgspec.Struct, frozen=True):
    """Shares of queues and people. ``half_life_ms`` 0 = no past use counts."""

    queues: list[FairRow]
    people: list[FairPerson]
    past_use: list[PastUseRow]
    half_life_ms: int
    since_ms: int
    until_ms: int
    seq: int
