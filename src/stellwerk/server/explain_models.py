"""What travels about one candidate of a workload, and about "if …" on what is live."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stellwerk.core.model.placing import Explained
from stellwerk.core.model.reasons import RenderedReason
from stellwerk.server.models import CandidateView, ShortfallView

CHANGES = 100


class ChangeView(msgspec.Struct, frozen=True):
    """One change in words; `change_if` is how `--if` takes it, "" where nobody can ask for it."""

    text: str
    change_if: str


class NodeOn(msgspec.Struct, frozen=True):
    """One node: how many replicas fit there, and if none, why not."""

    node: str
    fits: int
    why: str


class AlternativeOn(msgspec.Struct, frozen=True):
    """One alternative of the request on the cluster.

    `behind` is by how much its total is less than that of the one chosen. Each of `ways` is a set
    of changes that together let it start there. `more_nodes` counts nodes that aren't listed.
    """

    alternative: int
    wants: str
    verdict: str
    reasons: list[RenderedReason]
    shortfalls: list[ShortfallView]
    scores: dict[str, int]
    total: int
    behind: int | None
    ways: list[list[ChangeView]]
    nodes: list[NodeOn]
    more_nodes: int
    figures: dict[str, float] = {}


class InPlacement(msgspec.Struct, frozen=True):
    """Where the cluster stands in the decision of the placement that bounds the workload.

    `changes` are those that turn its failed rules, by their place; "" where nobody can ask for one.
    """

    placement: str
    decision: str
    at_ms: int
    clusters: list[str]
    candidate: Explained | None
    changes: list[str]


class OnCluster(msgspec.Struct, frozen=True):
    """Everything about one candidate of a workload, as of `at_ms`.

    `decision` is the one that is told of; "" where it is what would be decided at that moment.
    `reasons` are those for waiting that are about no cluster, such as quota.
    """

    id: str
    name: str
    phase: str
    run: int | None
    cluster: str
    at_ms: int
    decision: str
    chosen: str | None
    alternatives: list[AlternativeOn]
    placement: InPlacement | None
    seq: int
    reasons: list[RenderedReason] = []


class IfBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes in words, applied in this order; nothing is carried out."""

    changes: Annotated[
        list[Annotated[str, Meta(max_length=1_000)]], Meta(min_length=1, max_length=CHANGES)
    ]


class IfOutcome(msgspec.Struct, frozen=True):
    """What would become of the workload: where it starts, or why it waits.

    `alone` is where it would start if nobody else waited; `ahead` counts those before it.
    `placement` are the clusters that its placement gives it, `null` without one.
    """

    cluster: str | None
    nodes: list[str]
    reasons: list[RenderedReason]
    candidates: list[CandidateView]
    alone: str | None
    ahead: int
    placement: list[str] | None


class IfAnswer(msgspec.Struct, frozen=True):
    """What changes would do to a workload, `before` and `after` them.

    One that has a run (on `runs_on`) is looked at as if it waited in its place in line.
    """

    id: str
    name: str
    phase: str
    runs_on: str | None
    changes: list[str]
    before: IfOutcome
    after: IfOutcome
    at_ms: int
    seq: int
