"""What travels about placements and declared fleets, and the calls that ask for it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from stellwerk.client.fleet import ClusterPage
from stellwerk.client.parts import part
from stellwerk.client.queueing import Consequences, ObjectChange
from stellwerk.client.requests import Requests
from stellwerk.core.model.errors import Notice, StellwerkError


class Condition(Struct):
    """A condition in the words of the reference."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class MoveOf(Struct):
    """A cluster that was left, or taken, with the reason in words."""

    left: str = ""
    taken: str = ""
    code: str = ""
    why: str = ""


class Group(Struct):
    """Chosen clusters that belong together."""

    index: int = 0
    name: str = ""
    clusters: list[str] = []


class PlacementRow(Struct):
    """One line of a list."""

    key: str
    namespace: str = ""
    name: str = ""
    clusters: list[str] = []
    wanted: int | None = None
    candidates: int = 0
    conditions: list[Condition] = []
    since_ms: int | None = None
    applied_ms: int = 0
    by: str = ""
    kept: bool = False
    decision: str = ""


class PlacementRows(Struct):
    """All placements."""

    items: list[PlacementRow] = []
    seq: int = 0


class PlacementShow(Struct):
    """Everything about one placement."""

    row: PlacementRow
    object: dict[str, Any] = {}
    totals: list[int] = []
    standby: list[str] = []
    groups: list[Group] = []
    moves: list[MoveOf] = []
    refused: dict[str, str] = {}
    unscheduled: int = 0
    left_to_jobs: list[str] = []
    seq: int = 0


class AppliedPlacement(Struct):
    """What became of one placement of a file, or would."""

    key: str
    change: str = ""
    before: list[str] = []
    clusters: list[str] = []
    conditions: list[Condition] = []


class Applied(Struct):
    """What a fleet file changed, or would change."""

    name: str
    dry_run: bool = False
    clusters: int = 0
    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    placements: list[AppliedPlacement] = []
    moved: list[AppliedPlacement] = []
    notices: list[Notice] = []
    seq: int = 0
    objects: list[ObjectChange] = []
    consequences: Consequences | None = None


class RuleChange(Struct):
    """A change that would turn one failed rule."""

    kind: str = ""
    text: str = ""
    key: str = ""
    value: str = ""
    effect: str = ""


class FailedRule(Struct):
    """One rule that a cluster fails."""

    filter: str
    rule: str = ""
    found: str = ""
    change: RuleChange | None = None
    needed: bool = True


class ScoreLine(Struct):
    """One score of a candidate."""

    title: str
    weight: int = 0
    value: int | None = None
    contribution: int = 0
    raw: float | None = None
    unit: str = ""
    age_ms: int | None = None
    note: str = ""


class CandidateOf(Struct):
    """One cluster as a candidate."""

    cluster: str
    verdict: str = ""
    failed: list[FailedRule] = []
    scores: list[ScoreLine] = []
    total: int | None = None
    rank: int = 0
    margin: int | None = None
    note: str = ""


class Trouble(Struct):
    """Something wrong with a placement itself."""

    plugin: str = ""
    message: str = ""
    path: str = ""
    help: str = ""


class PlacementExplained(Struct):
    """Why these clusters."""

    key: str
    decision: str = ""
    at_ms: int = 0
    core_version: str = ""
    clusters: list[str] = []
    standby: list[str] = []
    conditions: list[Condition] = []
    moves: list[MoveOf] = []
    troubles: list[Trouble] = []
    margin: int | None = None
    tied: int = 0
    candidates: list[CandidateOf] = []
    before: list[str] = []
    changes: list[str] = []
    seq: int = 0


class DecisionRow(Struct):
    """One decision of a placement's history."""

    decision: str = ""
    at_ms: int = 0
    clusters: list[str] = []
    moves: list[MoveOf] = []
    conditions: list[Condition] = []
    core_version: str = ""
    seq: int = 0
    deleted: bool = False


class History(Struct):
    """The decisions of a placement, newest first."""

    key: str
    items: list[DecisionRow] = []


class Replayed(Struct):
    """A decision computed again from what was stored of it."""

    decision: str
    key: str = ""
    identical: bool = False
    same_version: bool = False
    core_version: str = ""
    then: list[str] = []
    now: list[str] = []
    differences: list[str] = []


class ClusterDiff(Struct):
    """What differs about one cluster between two decisions."""

    cluster: str
    facts: list[str] = []
    verdict: list[str] = []
    scores: list[str] = []


class Difference(Struct):
    """Why one decision isn't another."""

    first: str
    second: str = ""
    key: str = ""
    inputs: list[str] = []
    taken: list[str] = []
    left: list[str] = []
    clusters: list[ClusterDiff] = []
    more: int = 0


class Deleted(Struct):
    """A placement that is gone."""

    key: str


def key_of(name: str) -> str:
    """``namespace/name`` of a placement that may be named without its namespace."""
    return name if "/" in name else f"default/{name}"


def _path(name: str) -> str:
    namespace, _, rest = key_of(name).partition("/")
    if not rest or "/" in rest or {namespace, rest} & {"", ".", ".."}:
        message, help = f"`{name}` can't be a placement", "write NAMESPACE/NAME, or NAME"
        raise StellwerkError.of("find/placement", message, help)
    return f"/v1/placements/{quote(namespace, safe='')}/{quote(rest, safe='')}"


class PlacementCalls(Requests):
    """Each endpoint about placements as a method. A name without a namespace is in ``default``."""

    def apply_fleet(
        self, text: str, *, file: str = "", name: str = "", dry_run: bool = False, key: str = ""
    ) -> Applied:
        """Takes over what a fleet file says, in the place of what the file of this name said
        before; with `dry_run` it only tells what that would change.
        """
        body = {"text": text, "file": file, "name": name, "dry_run": dry_run}
        return self._order("/v1/apply", Applied, body, key=key, timeout_s=600, again=True)

    def placements(self, *, own: bool = False) -> tuple[PlacementRow, ...]:
        """All placements, by key; with ``own`` those too that follow from wishes of work."""
        query = "?own=true" if own else ""
        return tuple(self._get(f"/v1/placements{query}", PlacementRows).items)

    def placement(self, name: str) -> PlacementShow:
        """Everything about one placement."""
        return self._get(_path(name), PlacementShow)

    def delete_placement(self, name: str, *, key: str = "") -> Deleted:
        """Forgets a placement; work that names it waits."""
        return self._order(f"{_path(name)}/delete", Deleted, key=key, again=True)

    def explain_placement(
        self,
        name: str,
        *,
        clusters: Sequence[str] = (),
        changes: Sequence[str] = (),
        decision: str = "",
    ) -> PlacementExplained:
        """Why these clusters, as it was decided; with `changes`, what would be chosen now."""
        body = {"clusters": list(clusters), "changes": list(changes), "decision": decision}
        return self._post(f"{_path(name)}/explain", PlacementExplained, body, timeout_s=600)

    def placement_history(self, name: str, limit: int = 50) -> History:
        """What was decided for a placement, newest first."""
        return self._get(f"{_path(name)}/history?limit={limit}", History)

    def cluster(self, name: str) -> ClusterPage:
        """All that is known of a cluster, from whom, and how old it is."""
        return self._get(f"/v1/clusters/{part(name)}", ClusterPage)

    def replay_placement(self, decision: str) -> Replayed:
        """Computes a decision again from what was stored of it."""
        return self._get(f"/v1/placed/{quote(decision, safe='')}/replay", Replayed)

    def compare_placements(self, first: str, second: str) -> Difference:
        """Why one decision isn't another."""
        query = urlencode({"first": first, "second": second})
        return self._get(f"/v1/placed/difference?{query}", Difference)
