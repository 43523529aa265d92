"""The stored answer to "why here, why not there": a Decision with a verdict for every candidate."""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.ids import DecisionId, ShapeId
from stellwerk.core.model.reasons import Reason

Verdict = Literal["chosen", "fits", "later", "never", "not asked"]
"""``later``: would fit once something ends or opens; ``never``: not as the cluster is now."""


class Shortfall(Struct, frozen=True, omit_defaults=True):
    """How much of one resource was wanted, was free, and could be had at most."""

    resource: str
    wanted: int
    free: int
    largest: int
    unit: str = ""


class Candidate(Struct, frozen=True, omit_defaults=True):
    """One cluster, for one alternative of a request: the verdict and the numbers behind it.

    ``figures`` are what work with wishes would take there, as far as it is known: ``starts_s`` and
    ``finishes_s`` from when it was decided, ``cost_usd``, ``usd_per_hour``.
    """

    cluster: str
    alternative: int
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    scores: dict[str, int] = {}
    total: int = 0
    figures: dict[str, float] = {}


class Inputs(Struct, frozen=True):
    """What the decision was made of, so that it can be made again.

    ``facts`` hashes what each cluster is; what it held then is the state after journal record
    ``seq``.
    """

    shape: ShapeId
    facts: dict[str, str]
    now_ms: int
    seed: int
    core_version: str
    seq: int = 0


class QuotaLevel(Struct, frozen=True, omit_defaults=True):
    """One node on the way from a queue to the root, for one flavor and resource.

    In thousandths of the resource's unit: ``nominal`` is its own, ``quota`` with what is below it,
    ``used`` what is in use there, ``available`` what the queue could get from here up.
    """

    name: str
    kind: Literal["queue", "cohort"]
    nominal: int
    quota: int
    used: int
    available: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class FlavorVerdict(Struct, frozen=True, omit_defaults=True):
    """What one flavor said to one alternative, with the path of the quota it asked for.

    ``outcome``: fits, borrows, short, exceeds, taint, selector, missing, uncovered.
    """

    flavor: str
    resource: str
    outcome: str
    alternative: int = 0
    wanted: int = 0
    available: int = 0
    most: int = 0
    note: str = ""
    path: tuple[QuotaLevel, ...] = ()


class QuotaSaid(Struct, frozen=True, omit_defaults=True):
    """The verdict of the queue that a shape waits in; ``queue`` "" = no quota binds it."""

    queue: str = ""
    flavors: tuple[FlavorVerdict, ...] = ()


class Decision(Struct, frozen=True, omit_defaults=True):
    """Where one shape went, or why it waits. ``change``: the smallest that would turn it.

    ``quota`` is what its queue said, where there are queues.
    """

    id: DecisionId
    inputs: Inputs
    candidates: tuple[Candidate, ...]
    chosen: int = -1
    runner_up: int = -1
    reasons: tuple[Reason, ...] = ()
    change: tuple[str, ...] = ()
    quota: QuotaSaid | None = None
