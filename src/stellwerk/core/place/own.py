"""Decides where work with wishes may start, and in which order, as a plan over the fleet would.

The policy is the placement that the work names, or none, narrowed by its wishes. Each alternative
is judged on each cluster with the rules and the estimates of `on_fleet`; what is full now stays in
the order, since every cycle looks at room itself. Of a cluster whose window opens later nothing
worse is used before, if it has room: to wait is a choice like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from math import floor, inf

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.data.sources import Grounds
from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.estimates import JobProfile
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import digest
from stellwerk.core.model.own import OwnDecided, OwnOption, OwnRefusal
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Choice, FailedRule, PlacingContext
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Allocation, Alternative, Shape
from stellwerk.core.model.task import Task
from stellwerk.core.place.admitted import Tools
from stellwerk.core.place.explained import explain
from stellwerk.core.place.fleet_record import refusals_of
from stellwerk.core.place.node import unheld
from stellwerk.core.place.on_fleet import (
    Answer,
    Ask,
    as_seen,
    jobs_of,
    measurable,
    numbers_of,
    open_to_tasks,
)
from stellwerk.core.place.options import Hall, Option, best_option, options_of
from stellwerk.core.place.placing import choose
from stellwerk.core.place.policies import NO_WISHES, OPEN, narrowed
from stellwerk.core.place.written import EPOCH

OF_ROOM = ("Demand", "Infra", "Needs")
"""Rules that every cycle asks anew; it has better words for them."""

MOST_FAR = 16
"""So many clusters that no driver reaches are told of, of those that would do."""

LOOKED_AT = ("clusters", "taken", "sets", "bindings", "data", "links", "latencies")
"""The parts of a fleet on which decisions depend."""

LABELS = {
    "usd_max": "max-usd",
    "usd_per_hour_max": "max-usd-per-hour",
    "finish_by_ms": "finish-by",
    "latency_ms": "max-latency",
}
"""Which label a limit stands in."""


class OwnAnswer(Struct, frozen=True):
    """A decision, and when time alone may change it (0 = never)."""

    decided: OwnDecided
    due_ms: int = 0


class _Judged(Struct, frozen=True):
    """An option, and whether there is room for it now."""

    option: Option
    has_room: bool


_Found = tuple[Cluster, tuple[Allocation, ...], list[_Judged]]
"""What was found of a cluster with what was in use of it."""


class OwnGround:
    """A fleet prepared for deciding own placements, and what was found of clusters that stay."""

    def __init__(self, fleet: Fleet, before: OwnGround | None = None) -> None:
        self._of = fleet
        self.fleet = open_to_tasks(fleet)
        self.grounds = Grounds(self.fleet)
        self.hall = Hall(self.fleet.clusters, self.fleet.taken, ())
        self.tools = Tools(FleetColumns(as_seen(self.fleet, self.hall, waits=True)))
        self._found: dict[tuple[str, str], _Found] = {}
        self._before = before._found if before is not None else {}  # noqa: SLF001 - its own kind

    def is_of(self, fleet: Fleet) -> bool:
        """Whether a fleet says the same, whoever said it and when."""
        return all(getattr(self._of, name) == getattr(fleet, name) for name in LOOKED_AT)

    def judged(
        self, shape: Shape, policy: Placement, jobs: Sequence[JobProfile], now_ms: int
    ) -> dict[str, list[_Judged]]:
        """All alternatives on every cluster; what was found of one before holds where nothing that
        it depends on can have changed.
        """
        asked = digest((shape, policy))
        moves = bool(policy.limits.finish_by_ms or jobs[0].data)
        found = {}
        for cluster in self.hall.clusters:
            key, taken = (asked, cluster.name), self.hall.taken(cluster.name)
            known = self._found.get(key) or self._before.get(key)
            if known is None or moves or cluster.windows or known[:2] != (cluster, taken):
                each = enumerate(zip(shape.alternatives, jobs, strict=True))
                judged = [self._one(cluster, n, one, job, now_ms) for n, (one, job) in each]
                known = (cluster, taken, judged)
            self._found[key] = known
            found[cluster.name] = known[2]
        return found

    def _one(
        self, cluster: Cluster, number: int, alternative: Alternative, job: JobProfile, now_ms: int
    ) -> _Judged:
        """What it would get now, or else what it would get if nothing were there."""

        def option(hall: Hall) -> Option:
            found = options_of([alternative], [job], hall, self.grounds, now_ms, service=False)
            return replace(found[cluster.name][0], alternative=number)

        now = option(Hall((cluster,), self.hall.taken(cluster.name), ()))
        if now.parts:
            return _Judged(now, has_room=True)
        return _Judged(option(Hall((_bare(cluster),), (), ())), has_room=False)


def _bare(cluster: Cluster) -> Cluster:
    """A cluster with all of its nodes ready, of which nobody outside holds anything."""
    nodes = tuple(replace(unheld(one), state="ready") for one in cluster.nodes)
    return replace(cluster, nodes=nodes)


def own_policy(shape: Shape, placements: Mapping[str, Placement]) -> Placement | None:
    """What holds for work of a shape; None = the placement that it names isn't there."""
    named = placements.get(shape.placement) if shape.placement else OPEN
    if named is None:
        return None
    policy = narrowed(named, shape.wishes or NO_WISHES, "work", shape.num_nodes)
    return replace(policy, count=None, spread=(), groups=(), clusters_per_group="100%")


def decide_own(
    shape: Shape,
    policy: Placement,
    ground: OwnGround,
    now_ms: int,
    here: Collection[str] | None = None,
) -> OwnAnswer:
    """Decides for all work of a shape.

    Only of clusters that are ``here`` (that a driver reaches; None = all) it is told why they are
    refused; of the others that would do only the best are named.
    """
    wishes = shape.wishes or NO_WISHES
    jobs, problems = jobs_of(shape, wishes, policy, ground.grounds)
    if problems:
        return _broken(((one.message, one.help) for one in problems), now_ms)
    policy = measurable(policy, jobs[0], service=False)
    clusters = ground.hall.clusters
    judged = ground.judged(shape, policy, jobs, now_ms)
    asked = _Asked(shape, policy, jobs, ground, now_ms)
    tries = [
        asked.choose({name: those[number].option for name, those in judged.items()}, number)
        for number in range(len(shape.alternatives))
    ]
    troubles = [one for each in tries for one in each.choice.troubles]
    if troubles:
        return _broken(((one.message, one.help) for one in troubles), now_ms)
    pairs = _nearby(_in_order(asked, judged, tries), here)
    ranked, held_back = _open_now(pairs, judged, now_ms, here)
    refused = [one for each in tries for one in _refusals(each, here)]
    decided = OwnDecided(
        ranked=tuple(_told(judged[name][number].option, name) for name, number in ranked),
        refused=(*held_back, *refused),
        at_ms=now_ms,
    )
    dues = [one.choice.requeue_at_ms for one in tries if one.choice.requeue_at_ms]
    dues += [
        due
        for cluster in clusters
        for one in judged[cluster.name]
        for due in _dues(cluster, one.option, policy)
    ]
    return OwnAnswer(decided, min((one for one in dues if one > now_ms), default=0))


def _broken(problems: Iterable[tuple[str, str]], now_ms: int) -> OwnAnswer:
    found = dict.fromkeys(problems)
    reasons = tuple(
        Reason("wish_broken", {"problem": message, **({"help": help} if help else {})})
        for message, help in found
    )
    return OwnAnswer(OwnDecided(broken=reasons, at_ms=now_ms))


class _Asked(Struct, frozen=True):
    """What is the same for all alternatives of a shape."""

    shape: Shape
    policy: Placement
    jobs: list[JobProfile]
    ground: OwnGround
    now_ms: int

    def choose(self, options: dict[str, Option], number: int) -> Answer:
        """What the policy says if this is what each cluster is asked for."""
        policy, tools, job = self.policy, self.ground.tools, self.jobs[number]
        timed = job.runtime_s is not None
        failed = {name: one.failed for name, one in options.items() if one.failed}
        context = PlacingContext(
            now_ms=self.now_ms,
            estimates=numbers_of(policy, options, self.ground.hall, timed=timed),
            refused={name: tuple(rule.found for rule in rules) for name, rules in failed.items()},
        )
        choice: Choice = choose(policy, tools.columns, context, tools)
        ask = Ask("work", Task(), policy)
        return Answer(ask, self.shape, policy, job, choice, options, context, tools.columns)


Pair = tuple[str, int]
"""A cluster and an alternative."""


def _in_order(
    asked: _Asked, judged: Mapping[str, list[_Judged]], tries: Sequence[Answer]
) -> list[Pair]:
    """All that may be, best first.

    In an order of preference a later alternative comes after all clusters of the earlier ones.
    Otherwise the objective compares; by scores, clusters come before alternatives.
    """
    each = [(name, number) for number, one in enumerate(tries) for name in one.choice.clusters]
    if len(tries) == 1 or asked.shape.ordered:
        return each
    policy = asked.policy
    liked = {name: _liked(asked, [one.option for one in those]) for name, those in judged.items()}
    options = {name: judged[name][numbers[0]].option for name, numbers in liked.items()}
    place = {name: n for n, name in enumerate(asked.choose(options, 0).choice.clusters)}

    def order(pair: Pair) -> tuple[float, int, int]:
        name, number = pair
        option = judged[name][number].option
        worth = _worth(option, policy) if policy.objective != "score" else 0.0
        return worth, place.get(name, len(place)), liked[name].index(number)

    return sorted(each, key=order)


def _liked(asked: _Asked, options: Sequence[Option]) -> list[int]:
    """The alternatives of one cluster, best first."""
    policy, left, found = asked.policy, list(options), []
    while left:
        best = best_option(left, policy.objective, policy.limits, asked.now_ms, ordered=False)
        found.append(best.alternative)
        left = [one for one in left if one.alternative != best.alternative]
    return found


def _worth(option: Option, policy: Placement) -> float:
    one = option.estimate
    estimate = {"start": one.start, "cost": one.cost, "weighted": one.objective}.get(
        policy.objective, one.finish
    )
    return inf if estimate.value is None else float(f"{estimate.value:.9g}")


def _open_now(
    pairs: Sequence[Pair],
    judged: Mapping[str, list[_Judged]],
    now_ms: int,
    here: Collection[str] | None,
) -> tuple[list[Pair], list[OwnRefusal]]:
    """Those that may start now; the others with the window that they wait for. Nothing waits for
    one that no driver reaches: there it couldn't start then either.
    """
    ranked: list[Pair] = []
    later: list[OwnRefusal] = []
    waits_for: dict[str, Param] = {}
    for name, number in pairs:
        one = judged[name][number]
        opens_s = one.option.estimate.opens_in_s
        if waits_for:
            params: dict[str, Param] = {"cluster": name, **waits_for}
            later.append(OwnRefusal(name, number, (Reason("better_opens", params),), later=True))
        elif opens_s > 0:
            opens = _moment(now_ms + round(opens_s * 1000))
            reason = Reason("opens_later", {"cluster": name, "opens": opens})
            later.append(OwnRefusal(name, number, (reason,), later=True))
            if one.has_room and (here is None or name in here):
                waits_for = {"better": name, "opens": opens}
        else:
            ranked.append((name, number))
    return ranked, later


def _moment(at_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")


def _nearby(pairs: list[Pair], here: Collection[str] | None) -> list[Pair]:
    """Those that a driver reaches, and the best of the others."""
    if here is None:
        return pairs
    far = dict.fromkeys(name for name, _ in pairs if name not in here)
    told = list(far)[:MOST_FAR]
    return [one for one in pairs if one[0] in here or one[0] in told]


def _refusals(answer: Answer, here: Collection[str] | None) -> list[OwnRefusal]:
    """Why each cluster that doesn't pass doesn't, with all rules that it fails."""
    passed = dict.fromkeys(answer.choice.clusters)
    names = [
        one.name
        for one in answer.columns.clusters
        if one.name not in passed and (here is None or one.name in here)
    ]
    if not names:
        return []
    found = []
    for one in explain(answer.policy, answer.choice, answer.columns, answer.context, names):
        option = answer.options[one.cluster]
        reasons = list(option.estimate.rejections)
        is_late = any(reason.code == "after_deadline" for reason in reasons)
        room: list[Reason] = []
        for refusal in refusals_of(answer, one):
            rule = refusal.rule
            if rule.filter == "Estimates" or (is_late and _key(rule) == "finish_by_ms"):
                continue
            into = room if rule.filter in OF_ROOM else reasons
            into.append(_unmet(one.cluster, rule, answer))
        found.append(OwnRefusal(one.cluster, option.alternative, tuple(reasons), tuple(room)))
    return found


def _key(rule: FailedRule) -> str:
    return rule.change.key if rule.change is not None else ""


def _unmet(cluster: str, rule: FailedRule, answer: Answer) -> Reason:
    wanted = rule.rule
    if _key(rule) == "finish_by_ms":
        wanted = f"over by {_moment(answer.policy.limits.finish_by_ms)}"
    params: dict[str, Param] = {"cluster": cluster, "found": rule.found, "rule": wanted}
    if rule.change is not None:
        label = LABELS.get(rule.change.key if rule.change.kind == "limit" else "")
        params["change"] = rule.change.text + (f" by `stellwerk/{label}`" if label else "")
    return Reason("wish_unmet", params)


def _told(option: Option, cluster: str) -> OwnOption:
    one = option.estimate
    return OwnOption(
        cluster=cluster,
        alternative=option.alternative,
        starts_s=_rounded(one.start.value),
        finishes_s=_rounded(one.finish.value),
        cost_usd=_rounded(one.cost.value),
        usd_per_hour=_rounded(option.usd_per_hour),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _dues(cluster: Cluster, option: Option, policy: Placement) -> list[int]:
    """When time alone may change what an option is: its deadline nears, a window opens or ends."""
    estimate = option.estimate
    dues = []
    if policy.limits.finish_by_ms and estimate.finish.value is not None:
        dues.append(floor(policy.limits.finish_by_ms - estimate.finish.value * 1000) + 1)
    span_s = (estimate.start.value or 0.0) - estimate.opens_in_s + (estimate.run.value or 0.0)
    for opens_ms, closes_ms in cluster.windows:
        dues += [opens_ms, closes_ms, floor(closes_ms - span_s * 1000) + 1]
    return dues
