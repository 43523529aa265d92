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
    """One cluster, for one alternative of a request: the verdict and the numbers behind it."""

    cluster: str
    alternative: int
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    scores: dict[str, int] = {}
    total: int = 0


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


class Decision(Struct, frozen=True, omit_defaults=True):
    """Where one shape went, or why it waits. ``change``: the smallest that would turn it."""

    id: DecisionId
    inputs: Inputs
    candidates: tuple[Candidate, ...]
    chosen: int = -1
    runner_up: int = -1
    reasons: tuple[Reason, ...] = ()
    change: tuple[str, ...] = ()
