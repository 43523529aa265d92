"""The record of a plan over a fleet: what `stw plan --fleet -o json` writes, version 1.

Fields are only added. Numbers carry their unit in the name; None is unknown. Times in seconds count
from ``at``.
"""

from msgspec import Struct

from stellwerk.core.model.errors import Problem
from stellwerk.core.model.estimates import Fact, Move
from stellwerk.core.model.placing import FailedRule, ScoreLine

VERSION = 1


class Figures(Struct, frozen=True):
    """What a task would take on a cluster; of a service, one replica of it.

    ``starts_s`` contains the wait for room, until a window opens, and for data.
    """

    starts_s: float | None
    runs_s: float | None
    finishes_s: float | None
    waits_s: float
    opens_s: float
    cost_usd: float | None
    usd_per_hour: float | None
    energy_kwh: float | None
    moves: tuple[Move, ...] = ()


class Refusal(Struct, frozen=True):
    """A rule that keeps a task from a cluster; ``change_if`` is the change as `--if` takes it."""

    rule: FailedRule
    sentence: str
    change_if: str = ""


class CandidateRecord(Struct, frozen=True):
    """One cluster: the verdict, every score, every number, every rule that it fails.

    ``asks`` is the alternative of the task that counts there; ``devices`` what a node of it gets,
    none where it gets nothing. ``behind`` says by how much the last chosen one is better.
    """

    cluster: str
    verdict: str
    asks: str
    devices: str
    rank: int
    total: int | None
    margin: int | None
    scores: tuple[ScoreLine, ...]
    figures: Figures
    refusals: tuple[Refusal, ...] = ()
    facts: tuple[Fact, ...] = ()
    behind: str = ""
    note: str = ""


class NodePart(Struct, frozen=True):
    """What ranks (of a service: replicas) get on one node; devices by index. "" = not known."""

    node: str
    devices: tuple[int, ...]
    ranks: tuple[int, ...]


class Given(Struct, frozen=True):
    """A chosen cluster with what the task gets there. ``after`` is the task that it waits for."""

    cluster: str
    asks: str
    devices: str
    replicas: int
    nodes: tuple[NodePart, ...]
    figures: Figures
    group: str = ""
    after: str = ""


class GroupRecord(Struct, frozen=True):
    """A decision group; they are served in this order."""

    name: str
    clusters: tuple[str, ...]


class DataRecord(Struct, frozen=True):
    """What a task reads."""

    name: str
    revision: str
    bytes: int


class TaskRecord(Struct, frozen=True):
    """One task of a plan.

    ``verdict``: placed, waits (for a task of this plan), partly, nowhere, broken. ``replicas`` and
    ``unplaced`` count replicas of a service, else 1; ``missing_clusters`` is how many fewer were
    found than asked for. ``margin`` says by how much the chosen beat ``runner_up``. ``course`` is
    to run where the data is, to move it, or to wait. ``turns`` are the clusters that would take it
    with the fewest changes, where it goes nowhere.
    """

    name: str
    file: str
    kind: str
    placement: str
    objective: str
    asks: tuple[str, ...]
    nodes: int
    replicas: int
    expected_runtime_s: float | None
    data: tuple[DataRecord, ...]
    verdict: str
    clusters: tuple[Given, ...]
    unplaced: int
    missing_clusters: int
    standby: tuple[str, ...]
    groups: tuple[GroupRecord, ...]
    runner_up: str
    margin: str
    course: str
    candidates: tuple[CandidateRecord, ...]
    turns: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class ChangeRecord(Struct, frozen=True):
    """What a change does to a task: from where to where, why, and how its numbers differ.

    ``left`` "" = one more cluster, ``taken`` "" = one less; equal = it stays. Differences are new
    less old, None where one of the two isn't known.
    """

    task: str
    left: str
    taken: str
    sentence: str
    why: tuple[str, ...] = ()
    starts_s: float | None = None
    finishes_s: float | None = None
    cost_usd: float | None = None


class FleetPlanRecord(Struct, frozen=True, kw_only=True):
    """A whole plan. ``at`` is the moment that it is for (RFC 3339).

    ``changes`` is there where something was asked with `--if`.
    """

    version: int = VERSION
    at: str
    asked_if: tuple[str, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    tasks: tuple[TaskRecord, ...]
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
