"""What choosing clusters for a placement gives: the choice, its conditions, and why, as columns.

Columns run over the roster: the clusters of a fleet in the order in which `inventory.columns` keeps
them. Bits are packed eight to a byte, the first cluster in the lowest bit of the first byte.
"""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.placement import Condition, DecisionGroup
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation

Code = Literal["Success", "Warning", "Misconfigured"]


class Trouble(Struct, frozen=True, omit_defaults=True):
    """Something wrong with a placement itself; ``path`` is where in its spec (dotted)."""

    plugin: str
    message: str
    path: str = ""
    help: str = ""


class Status(Struct, frozen=True, omit_defaults=True):
    """How the run of the pipeline went; with a Warning it went on, Misconfigured it stopped."""

    code: Code = "Success"
    plugin: str = ""
    message: str = ""


class Move(Struct, frozen=True, omit_defaults=True):
    """A change of the chosen clusters; ``left`` "" = one more, ``taken`` "" = one less."""

    left: str
    taken: str
    reason: Reason


class Column(Struct, frozen=True, omit_defaults=True):
    """Numbers of one width, little-endian; ``code`` as in the module `array`.

    Each number stands for ``scale`` times itself.
    """

    code: str
    data: bytes
    scale: int = 1


class FilterColumn(Struct, frozen=True, omit_defaults=True):
    """One filter: which clusters fail it, as bits, and what can't be found again from the facts.

    ``details`` (by place in the roster) are runtime errors of expressions and free room.
    """

    name: str
    failed: bytes
    details: dict[int, tuple[str, ...]] = {}


class ScoreColumn(Struct, frozen=True, omit_defaults=True):
    """One prioritizer over the clusters that passed, in the order of the roster.

    ``raw`` is None where the value is the raw number already. ``unknown`` and ``stale`` are bits
    over those that passed. ``observed_ms`` is by place among them, where an age is known.
    """

    title: str
    weight: int
    values: Column
    unit: str = ""
    raw: Column | None = None
    unknown: bytes = b""
    stale: bytes = b""
    observed_ms: Column | None = None


class SharedExplanation(Struct, frozen=True, omit_defaults=True):
    """The part of an explanation that placements with equal specs have in common.

    ``roster`` identifies the names that the columns run over (`FleetColumns.roster_id`), ``size``
    says how many; ``candidates`` are those in the placement's sets.
    """

    roster: str
    size: int
    candidates: bytes
    filters: tuple[FilterColumn, ...]
    scores: tuple[ScoreColumn, ...]
    now_ms: int = 0


class Explanation(Struct, frozen=True, omit_defaults=True):
    """Why these clusters. ``shared`` is left out where it is stored by its ``shared_id``.

    ``scores`` are those that only this placement has (Balance, Steady), over ``passed``. ``ranked``
    holds the places in the roster of the best, chosen ones first, one runner-up after them;
    ``margin`` is the last chosen one's total less the runner-up's, None without one.
    ``tied`` counts the clusters with the total of the last chosen one; the name broke the tie.
    ``skipped`` are places that a spread constraint kept from being chosen, with the constraint.
    """

    shared_id: str = ""
    shared: SharedExplanation | None = None
    passed: bytes = b""
    scores: tuple[ScoreColumn, ...] = ()
    ranked: tuple[int, ...] = ()
    margin: int | None = None
    tied: int = 0
    skipped: dict[int, str] = {}


class Choice(Struct, frozen=True, omit_defaults=True):
    """The answer for one placement: the clusters, best first, and everything said about them.

    ``totals`` go with ``clusters``. ``standby`` are the n+1 beyond them. ``requeue_at_ms`` is when
    the answer may change by itself (0 = never). ``kept`` says that the placement is broken and
    these are the clusters of its last good decision.
    """

    placement: str
    clusters: tuple[str, ...] = ()
    totals: tuple[int, ...] = ()
    standby: tuple[str, ...] = ()
    groups: tuple[DecisionGroup, ...] = ()
    conditions: tuple[Condition, ...] = ()
    unscheduled: int = 0
    requeue_at_ms: int = 0
    moves: tuple[Move, ...] = ()
    status: Status = Status()
    troubles: tuple[Trouble, ...] = ()
    kept: bool = False
    explanation: Explanation = Explanation()


class Existing(Struct, frozen=True):
    """The clusters that a placement has been given already, best first."""

    namespace: str
    placement: str
    clusters: tuple[str, ...]


class PlacingContext(Struct, frozen=True, omit_defaults=True):
    """What a choice depends on beside the placement and the fleet.

    ``existing`` are the decisions of all placements, this one's too. ``estimates`` give numbers
    by prioritizer or objective (Start, Transfer, Finish in s, Cost in usd, Energy in Wh) and
    cluster. ``own`` is what the placement's own work holds, which doesn't count against it.
    ``refused`` are clusters that the estimates rule out (data, window, deadline), each with why.
    """

    now_ms: int
    existing: tuple[Existing, ...] = ()
    estimates: dict[str, dict[str, float]] = {}
    own: tuple[Allocation, ...] = ()
    refused: dict[str, tuple[str, ...]] = {}


class Change(Struct, frozen=True, omit_defaults=True):
    """A change that would turn one failed rule.

    ``kind``: label, unlabel, claim, unclaim (of the cluster), tolerate, limit (of the placement),
    bind (a set to the namespace), open (a window), free (room; ``effect`` says how little is enough
    if that is known), add (what it hasn't got at all),
    tell (a fact), expression, remedy (what the catalogue says of the reason that is ``key``).
    """

    kind: str
    text: str
    key: str = ""
    value: str = ""
    effect: str = ""


class FailedRule(Struct, frozen=True, omit_defaults=True):
    """One rule that a cluster fails, with what was wanted and what was found.

    ``needed`` is False for rules of predicates that are farther from being met than another:
    one predicate is enough. ``change`` None = nothing turns it.
    """

    filter: str
    rule: str
    found: str
    change: Change | None = None
    needed: bool = True


class ScoreLine(Struct, frozen=True, omit_defaults=True):
    """One score of a candidate; ``value`` None = unknown, which ranks it behind those known."""

    title: str
    weight: int
    value: int | None
    contribution: int
    raw: float | None = None
    unit: str = ""
    age_ms: int | None = None
    note: str = ""


class Explained(Struct, frozen=True, omit_defaults=True):
    """One cluster as a candidate: the verdict, every failed rule, every score, its place.

    ``rank`` counts from 1 among those that passed. ``margin`` is its total less that of the best
    one not chosen, or of the last chosen one where it wasn't chosen itself; None where an estimate
    was the objective.
    """

    cluster: str
    verdict: Literal["chosen", "standby", "passed", "refused"]
    failed: tuple[FailedRule, ...] = ()
    scores: tuple[ScoreLine, ...] = ()
    total: int | None = None
    rank: int = 0
    margin: int | None = None
    note: str = ""
