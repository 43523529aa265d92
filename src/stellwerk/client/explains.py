"""What travels about one candidate, what if, and decisions of a workload, and the calls for it."""

from collections.abc import Sequence
from urllib.parse import urlencode

from msgspec import Struct

from stellwerk.client.ahead import Forecasts, Foretold
from stellwerk.client.parts import part
from stellwerk.client.placements import CandidateOf, Difference, Replayed
from stellwerk.client.requests import Requests
from stellwerk.client.wire import CandidateView, ShortfallView
from stellwerk.core.model.reasons import RenderedReason


class ChangeOf(Struct):
    """One change in words, and as `--if` takes it."""

    text: str
    change_if: str = ""


class NodeOn(Struct):
    """One node: how many replicas fit there, and if none, why not."""

    node: str
    fits: int = 0
    why: str = ""


class AlternativeOn(Struct):
    """One alternative of a request on a cluster."""

    alternative: int = 0
    wants: str = ""
    verdict: str = ""
    reasons: list[RenderedReason] = []
    shortfalls: list[ShortfallView] = []
    scores: dict[str, int] = {}
    total: int = 0
    behind: int | None = None
    ways: list[list[ChangeOf]] = []
    nodes: list[NodeOn] = []
    more_nodes: int = 0
    figures: dict[str, float] = {}


class InPlacement(Struct):
    """Where a cluster stands in the decision of a placement."""

    placement: str
    decision: str = ""
    at_ms: int = 0
    clusters: list[str] = []
    candidate: CandidateOf | None = None
    changes: list[str] = []


class OnCluster(Struct):
    """Everything about one candidate of a workload."""

    name: str
    cluster: str
    id: str = ""
    phase: str = ""
    run: int | None = None
    at_ms: int = 0
    decision: str = ""
    chosen: str | None = None
    alternatives: list[AlternativeOn] = []
    placement: InPlacement | None = None
    seq: int = 0
    reasons: list[RenderedReason] = []


class IfOutcome(Struct):
    """What would become of a workload: where it starts, or why it waits."""

    cluster: str | None = None
    nodes: list[str] = []
    reasons: list[RenderedReason] = []
    candidates: list[CandidateView] = []
    alone: str | None = None
    ahead: int = 0
    placement: list[str] | None = None


class IfAnswer(Struct):
    """What changes would do to a workload."""

    name: str
    before: IfOutcome
    after: IfOutcome
    id: str = ""
    phase: str = ""
    runs_on: str | None = None
    changes: list[str] = []
    at_ms: int = 0
    seq: int = 0


class ExplainCalls(Requests):
    """Each endpoint that explains a workload further as a method."""

    def foretold(self) -> Foretold | None:
        """How right forecasts of starts have been since the server began."""
        return self._get("/v1/forecast", Forecasts).starts

    def explain_cluster(self, name: str, cluster: str, run: int | None = None) -> OnCluster:
        """Everything about one cluster as a candidate of a workload."""
        query = "" if run is None else f"?run={run}"
        return self._get(f"/v1/workloads/{part(name)}/explain/{part(cluster)}{query}", OnCluster)

    def explain_if(self, name: str, changes: Sequence[str]) -> IfAnswer:
        """Where a workload would go now if things were so; nothing is changed."""
        body = {"changes": list(changes)}
        return self._post(f"/v1/workloads/{part(name)}/if", IfAnswer, body, timeout_s=600)

    def compare_decisions(self, name: str, first: str = "", second: str = "") -> Difference:
        """Why one decision about a workload isn't another; without names, of the last two."""
        query = urlencode({"first": first, "second": second})
        return self._get(f"/v1/workloads/{part(name)}/difference?{query}", Difference)

    def replay_decision(self, name: str, decision: str = "") -> Replayed:
        """Decides again what was decided about a workload: its newest decision, or a named one."""
        query = urlencode({"decision": decision})
        return self._get(f"/v1/workloads/{part(name)}/replay?{query}", Replayed)
