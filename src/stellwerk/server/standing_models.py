"""What travels about placements and declared fleets; like all models it only ever gains fields."""

import msgspec

from stellwerk.core.model.errors import Notice
from stellwerk.core.model.placing import Explained, Trouble
from stellwerk.server.queueing_models import Consequences, ObjectChangeView


class ApplyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fleet file. ``name`` is what it is known by: applied again, it says all anew."""

    text: str
    file: str = ""
    name: str = ""
    dry_run: bool = False


class MoveView(msgspec.Struct, frozen=True):
    """A cluster that was left, or taken, with the reason in words."""

    left: str
    taken: str
    code: str
    why: str


class ConditionView(msgspec.Struct, frozen=True):
    """A condition in the words of the reference."""

    type: str
    status: str
    reason: str
    message: str


class GroupView(msgspec.Struct, frozen=True):
    """Chosen clusters that belong together."""

    index: int
    name: str
    clusters: list[str]


class PlacementRow(msgspec.Struct, frozen=True):
    """One line of a list. ``wanted`` None = all; ``candidates`` counts the clusters that passed."""

    key: str
    namespace: str
    name: str
    clusters: list[str]
    wanted: int | None
    candidates: int
    conditions: list[ConditionView]
    since_ms: int | None
    applied_ms: int
    by: str
    kept: bool
    decision: str


class PlacementShow(msgspec.Struct, frozen=True):
    """Everything about one placement; ``object`` is what can be applied again."""

    row: PlacementRow
    object: dict[str, object]
    totals: list[int]
    standby: list[str]
    groups: list[GroupView]
    moves: list[MoveView]
    refused: dict[str, str]
    unscheduled: int
    left_to_jobs: list[str]
    seq: int


class PlacementRows(msgspec.Struct, frozen=True):
    """All placements, by key."""

    items: list[PlacementRow]
    seq: int


class AppliedPlacement(msgspec.Struct, frozen=True):
    """What became of one placement of a file, or would: ``change`` is new, changed or same."""

    key: str
    change: str
    before: list[str]
    clusters: list[str]
    conditions: list[ConditionView]


class Applied(msgspec.Struct, frozen=True):
    """What a fleet file changed, or would change."""

    name: str
    dry_run: bool
    clusters: int
    added: list[str]
    changed: list[str]
    removed: list[str]
    placements: list[AppliedPlacement]
    moved: list[AppliedPlacement]
    notices: list[Notice]
    seq: int
    objects: list[ObjectChangeView] = []
    consequences: Consequences | None = None


class Deleted(msgspec.Struct, frozen=True):
    """A placement that is gone."""

    key: str


class ExplainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of a placement: a decision (the newest), clusters (all), what if."""

    decision: str = ""
    clusters: list[str] = []
    changes: list[str] = []


class PlacementExplained(msgspec.Struct, frozen=True):
    """Why these clusters. ``at_ms`` is when that was decided.

    With changes, ``changed`` says which clusters would be chosen, and ``before`` those that are.
    """

    key: str
    decision: str
    at_ms: int
    core_version: str
    clusters: list[str]
    standby: list[str]
    conditions: list[ConditionView]
    moves: list[MoveView]
    troubles: list[Trouble]
    margin: int | None
    tied: int
    candidates: list[Explained]
    before: list[str]
    changes: list[str]
    seq: int


class DecisionRow(msgspec.Struct, frozen=True):
    """One decision of a placement's history."""

    decision: str
    at_ms: int
    clusters: list[str]
    moves: list[MoveView]
    conditions: list[ConditionView]
    core_version: str
    seq: int
    deleted: bool = False


class History(msgspec.Struct, frozen=True):
    """The decisions of a placement, newest first."""

    key: str
    items: list[DecisionRow]


class Replayed(msgspec.Struct, frozen=True):
    """A decision computed again from what was stored of it."""

    decision: str
    key: str
    identical: bool
    same_version: bool
    core_version: str
    then: list[str]
    now: list[str]
    differences: list[str]


class ClusterDiff(msgspec.Struct, frozen=True):
    """What differs about one cluster between two decisions, in words."""

    cluster: str
    facts: list[str]
    verdict: list[str]
    scores: list[str]


class Difference(msgspec.Struct, frozen=True):
    """Why one decision isn't another."""

    first: str
    second: str
    key: str
    inputs: list[str]
    taken: list[str]
    left: list[str]
    clusters: list[ClusterDiff]
    more: int = 0


class FactView(msgspec.Struct, frozen=True):
    """One fact of a cluster: who said it, and how old that is."""

    fact: str
    value: str
    source: str
    age_ms: int | None


class ContradictionView(msgspec.Struct, frozen=True):
    """Two sources that say different things."""

    fact: str
    said: list[list[str]]
    used: str


class ScoreView(msgspec.Struct, frozen=True):
    """A dynamic score with its validity."""

    name: str
    value: int
    source: str
    age_ms: int | None
    valid_until_ms: int
    stale: bool


class HeldView(msgspec.Struct, frozen=True):
    """Data that a cluster holds."""

    data: str
    bytes: int | None
    source: str
    age_ms: int | None


class TaintView(msgspec.Struct, frozen=True):
    """A taint, and since when."""

    key: str
    value: str
    effect: str
    since_ms: int


class LinkView(msgspec.Struct, frozen=True):
    """A way for data."""

    source: str
    target: str
    bits_per_s: float
    usd_per_gb: float


class ClusterFacts(msgspec.Struct, frozen=True):
    """All that is known of a cluster beside its nodes, from whom, and how old it is."""

    sets: list[str]
    taints: list[TaintView]
    facts: list[FactView]
    scores: list[ScoreView]
    held: list[HeldView]
    links: list[LinkView]
    contradictions: list[ContradictionView]
    placements: list[str]
