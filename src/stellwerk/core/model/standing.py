"""What stands until somebody changes it: declared fleets, placements and their decisions.

A declared fleet is kept by the hashes of its text and of what was read of it, so that what it said
stays what it said, whatever a later version would read.
"""

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.fleet import Told
from stellwerk.core.model.ids import BlobHash
from stellwerk.core.model.placement import Condition, DecisionGroup, Placement
from stellwerk.core.model.placing import Choice, Move
from stellwerk.core.model.resources import Allocation


class Declared(Struct, frozen=True, omit_defaults=True):
    """What one fleet file says, under the name that it was applied as.

    ``facts`` is the content that was read of ``text``; ``clusters`` counts those in it.
    """

    name: str
    text: BlobHash
    facts: BlobHash
    clusters: int = 0
    by: str = ""
    at_ms: int = 0


class Refusal(Struct, frozen=True):
    """Why a cluster wasn't chosen: the rule in words, and what was found."""

    rule: str
    found: str = ""


class Decided(Struct, frozen=True, omit_defaults=True):
    """What a placement was given last, and why as an id under which all of it is stored.

    ``refused`` says, of clusters that can run work here, why they weren't chosen; ``candidates``
    counts those that passed.
    ``kept``: the placement is broken, and these are the clusters of its last good decision.
    """

    decision: str
    clusters: tuple[str, ...] = ()
    totals: tuple[int, ...] = ()
    standby: tuple[str, ...] = ()
    groups: tuple[DecisionGroup, ...] = ()
    conditions: tuple[Condition, ...] = ()
    unscheduled: int = 0
    moves: tuple[Move, ...] = ()
    refused: dict[str, Refusal] = {}
    candidates: int = 0
    kept: bool = False

    @property
    def matters(self) -> tuple[object, ...]:
        """What makes two decisions different ones; numbers that change nothing aren't among it."""
        rules = tuple((name, why.rule) for name, why in sorted(self.refused.items()))
        return (self.clusters, self.standby, self.groups, self.conditions, rules, self.kept)


NOT_YET = Decided("")
"""What a placement has before it is decided for the first time."""


class Standing(Struct, frozen=True, omit_defaults=True):
    """A placement as it was applied, and its decision. ``version`` counts how often it was applied.

    ``decided_ms`` is when its clusters, groups or conditions last changed, ``decided_for`` the
    version that was decided.
    """

    placement: Placement
    by: str = ""
    applied_ms: int = 0
    version: int = 1
    decided: Decided | None = None
    decided_ms: int = 0
    decided_for: int = 0

    def says(self, decided: Decided) -> bool:
        """Whether a decision is no news."""
        known = self.decided
        return (
            known is not None
            and self.decided_for == self.version
            and known.matters == decided.matters
        )


class Inputs(Struct, frozen=True, omit_defaults=True):
    """What a decision about a placement was made of, by the ids of stored parts.

    The decisions of all placements before it are those that the journal has before its record.
    ``looked_ms`` is when filters and scores were computed, ``now_ms`` when it was decided. ``own``
    is what the placement's own work held ("" = nothing, or the placement asks for no room).
    """

    spec: str
    facts: str
    now_ms: int
    looked_ms: int
    core_version: str
    own: str = ""


class StoredDecision(Struct, frozen=True, omit_defaults=True):
    """A decision about a placement in full; its shared explanation is a part of its own."""

    inputs: Inputs
    choice: Choice


class FactRow(Struct, frozen=True, omit_defaults=True):
    """What was known of one cluster: what it is, what is in use on it, and who told it."""

    cluster: Cluster
    taken: tuple[Allocation, ...] = ()
    told: dict[str, Told] = {}


class FactTable(Struct, frozen=True, omit_defaults=True):
    """The facts of a whole fleet by the ids of parts, 8 bytes for each row.

    One with a ``base`` says only what differs from that: rows of it that are ``changed`` or
    ``gone``, and those ``added``. Rows are in the order of names. ``around`` is the fleet less
    clusters.
    """

    around: str
    rows: bytes = b""
    base: str = ""
    changed: dict[int, bytes] = {}
    gone: tuple[int, ...] = ()
    added: bytes = b""
