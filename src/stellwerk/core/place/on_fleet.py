"""Decides where tasks would go on a fleet, one after another, and why; nothing is carried out.

On each cluster the alternative counts that does best there. The task's policy chooses clusters
among these, by scores or by estimates; nodes and devices were found before. What one task takes,
the next doesn't find, unless it waits until the first is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.data.jobs import profile_of
from stellwerk.core.data.ranking import views
from stellwerk.core.data.sources import Grounds
from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.inventory.merge import with_global_set
from stellwerk.core.lower import lower
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.estimates import ClusterEstimate, JobProfile
from stellwerk.core.model.fleet import Fleet, SetBinding
from stellwerk.core.model.placement import Objective, Placement, Prioritizer
from stellwerk.core.model.placing import Choice, Existing, PlacingContext
from stellwerk.core.model.resources import Allocation, NodeAllocation, Shape
from stellwerk.core.model.task import Task
from stellwerk.core.model.wishes import Wishes
from stellwerk.core.place.admitted import Tools
from stellwerk.core.place.filters_limits import PRICE, WEIGHTED
from stellwerk.core.place.fragments import usable
from stellwerk.core.place.options import Booking, Hall, Option, best_option, options_of, parts_of
from stellwerk.core.place.placing import choose
from stellwerk.core.place.policies import NO_WISHES, TASKS, policy_of, replicas_of

__all__ = [
    "Answer",
    "Ask",
    "FleetPlan",
    "as_seen",
    "jobs_of",
    "measurable",
    "numbers_of",
    "open_to_tasks",
    "plan_on_fleet",
    "policy_of",
    "replicas_of",
]

TIE_WEIGHT = 10
"""Among those that are equal by the objective, as heavy as no other score is by default."""


class Ask(Struct, frozen=True):
    """A task that asks for a place, with the policy that holds for it; names differ.

    It may begin only when the task that it ``follows`` is over, one that asked before it.
    """

    name: str
    task: Task
    policy: Placement
    follows: str = ""


class Answer(Struct, frozen=True):
    """Where a task would go.

    ``options`` has by cluster the alternative that counts there. ``policy`` is the one that was
    used. ``replicas`` are counted by cluster; ``unplaced`` found no room on those chosen.
    """

    ask: Ask
    shape: Shape
    policy: Placement
    job: JobProfile
    choice: Choice
    options: dict[str, Option]
    context: PlacingContext
    columns: FleetColumns
    allocations: tuple[Allocation, ...] = ()
    replicas: dict[str, int] = {}
    unplaced: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def over_s(self) -> float | None:
        """When all of it is over, in seconds from now; None where nobody knows."""
        ends = [self.options[one.cluster].estimate.finish.value for one in self.allocations]
        if self.ask.task.service is not None or not ends or None in ends:
            return None
        return max(end for end in ends if end is not None)

    @property
    def estimates(self) -> dict[str, ClusterEstimate]:
        """The estimates by cluster."""
        return {name: one.estimate for name, one in self.options.items()}


class FleetPlan(Struct, frozen=True):
    """Answers in the order asked, and what they would hold, and until when."""

    answers: tuple[Answer, ...]
    fleet: Fleet
    bookings: tuple[Booking, ...] = ()

    @property
    def decisions(self) -> tuple[Existing, ...]:
        """What was decided, to be handed to the next plan as what exists."""
        return tuple(
            Existing(one.policy.namespace, one.policy.name, one.choice.clusters)
            for one in self.answers
            if one.choice.clusters
        )


def plan_on_fleet(
    asks: Iterable[Ask], fleet: Fleet, now_ms: int, existing: tuple[Existing, ...] = ()
) -> FleetPlan:
    """Answers for each task in turn; ``existing`` is where tasks and placements are already.

    What follows a task whose end nobody knows is answered as if that took no time.
    """
    fleet = open_to_tasks(fleet)
    grounds = Grounds(fleet)
    answers: list[Answer] = []
    bookings: list[Booking] = []
    since: dict[str, float] = {}
    earlier: dict[str, tuple[str, ...]] = {}
    for ask in asks:
        before = (*earlier.get(ask.follows, ()), ask.follows)
        earlier[ask.name] = before
        begins = (since.get(ask.follows, 0.0), ask.follows)
        held = [one for one in bookings if one.task not in before]
        hall = Hall(fleet.clusters, fleet.taken, held, begins)
        answer = _answer(ask, fleet, grounds, hall, now_ms, existing)
        since[ask.name] = begins[0] if answer.over_s is None else answer.over_s
        answers.append(answer)
        bookings += _booked(answer)
        key = answer.policy.key
        others = tuple(one for one in existing if f"{one.namespace}/{one.placement}" != key)
        existing = (*others, *FleetPlan((answer,), fleet).decisions)
    return FleetPlan(tuple(answers), fleet, tuple(bookings))


def open_to_tasks(fleet: Fleet) -> Fleet:
    """A fleet in which tasks without a placement may go everywhere."""
    if any(one.namespace == TASKS for one in fleet.bindings):
        return fleet
    bound = with_global_set(replace(fleet, bindings=()), (TASKS,))
    mine = tuple(SetBinding(TASKS, one.name, implied=True) for one in bound.sets)
    return replace(fleet, sets=bound.sets, bindings=(*fleet.bindings, *mine))


def _booked(answer: Answer) -> list[Booking]:
    """What an answer holds, and until when: a service for good, a job until its end is expected."""
    found = []
    for one in answer.allocations:
        option = answer.options[one.cluster]
        finish = option.estimate.finish.value
        until_s = inf if finish is None or answer.ask.task.service is not None else finish
        found.append(Booking(answer.ask.name, one, option.from_s, until_s))
    return found


def _answer(
    ask: Ask,
    fleet: Fleet,
    grounds: Grounds,
    hall: Hall,
    now_ms: int,
    existing: tuple[Existing, ...],
) -> Answer:
    shape = lower(ask.task).shape
    service = ask.task.service is not None
    wishes = ask.task.wishes or NO_WISHES
    jobs, problems = jobs_of(shape, wishes, ask.policy, grounds, service=service)
    every = options_of(shape.alternatives, jobs, hall, grounds, now_ms, service=service)
    tools = Tools(FleetColumns(as_seen(fleet, hall, waits=not service)))
    policy = measurable(ask.policy, jobs[0], service=service)
    timed = not service and jobs[0].runtime_s is not None
    options, context, choice = _chosen(
        shape, policy, every, hall, tools, now_ms, existing, timed=timed
    )
    answer = Answer(ask, shape, policy, jobs[0], choice, options, context, tools.columns)
    if problems:
        empty = replace(choice, clusters=(), totals=(), standby=(), groups=(), moves=())
        return replace(answer, choice=empty, problems=problems)
    if not service:
        return replace(answer, **_gang(answer))
    return replace(answer, **_spread_out(answer, hall))


def jobs_of(
    shape: Shape, wishes: Wishes, policy: Placement, grounds: Grounds, *, service: bool = False
) -> tuple[list[JobProfile], tuple[Problem, ...]]:
    """What estimates need to know of each alternative, and what is wrong with the data named."""
    jobs: list[JobProfile] = []
    problems: dict[Problem, None] = {}
    for alternative in shape.alternatives:
        job, wrong = profile_of(
            grounds.catalogue,
            runtime_ms=None if service else wishes.expected_runtime_ms,
            nodes=1 if service else shape.num_nodes,
            request=alternative.request,
            prewarm=wishes.prewarm,
            placement=policy,
        )
        jobs.append(job)
        problems.update(dict.fromkeys(wrong))
    return jobs, tuple(problems)


def as_seen(fleet: Fleet, hall: Hall, *, waits: bool) -> Fleet:
    """The fleet as the policy sees it, with what this plan has given away.

    What can wait for a window to open isn't kept out by one that is closed: the estimate waits.
    """
    clusters = fleet.clusters
    if waits:
        clusters = tuple(replace(one, windows=()) if one.windows else one for one in clusters)
    taken = tuple(one for cluster in clusters for one in hall.taken(cluster.name))
    return replace(fleet, clusters=clusters, taken=taken)


def measurable(policy: Placement, job: JobProfile, *, service: bool) -> Placement:
    """The policy with an objective that can be compared: without a known length no end is known.

    What never ends, or nobody knows when, is ranked by its start in place of its end. Of equals by
    the objective the cheaper is better, or the one that starts sooner. ``demand`` isn't one for all
    clusters, so it stands in the options.
    """
    objective: Objective = policy.objective
    if objective in {"finish", "weighted"} and (service or job.runtime_s is None):
        objective = "start"
    prioritizers = policy.prioritizers
    tie = {"finish": "Cost", "start": "Cost", "cost": "Start", "weighted": "Start"}.get(objective)
    if tie is not None and all(one.title != tie for one in prioritizers):
        prioritizers = (*prioritizers, Prioritizer(tie, TIE_WEIGHT))
    return replace(policy, objective=objective, prioritizers=prioritizers, demand=None)


def _chosen(
    shape: Shape,
    policy: Placement,
    every: dict[str, tuple[Option, ...]],
    hall: Hall,
    tools: Tools,
    now_ms: int,
    existing: tuple[Existing, ...],
    *,
    timed: bool,
) -> tuple[dict[str, Option], PlacingContext, Choice]:
    """The alternative that counts on each cluster, and what the policy chooses of them.

    In an order of preference a later alternative is let in only if the earlier ones don't serve.
    """
    count = len(shape.alternatives)
    for most in range(1 if shape.ordered else count, count + 1):
        options = {
            name: best_option(
                those[:most], policy.objective, policy.limits, now_ms, ordered=shape.ordered
            )
            for name, those in every.items()
        }
        context = PlacingContext(
            now_ms=now_ms,
            existing=existing,
            estimates=numbers_of(policy, options, hall, timed=timed),
            refused={
                name: tuple(rule.found for rule in one.failed)
                for name, one in options.items()
                if one.failed
            },
        )
        choice = choose(policy, tools.columns, context, tools)
        if choice.clusters and choice.unscheduled <= 0:
            break
    return options, context, choice


def numbers_of(
    policy: Placement, options: dict[str, Option], hall: Hall, *, timed: bool
) -> dict[str, dict[str, float]]:
    """What scores, limits and the objective look at, by name and cluster.

    Numbers of clusters that are out for other reasons are told too: they may break limits beside.
    """
    numbers = views(replace(one.estimate, rejections=()) for one in options.values())
    if not timed and not policy.limits.usd_max:
        # What an hour costs is known, where nobody knows how many there will be.
        del numbers["Cost"]
    if policy.objective == "weighted":
        numbers[WEIGHTED] = {
            name: one.estimate.objective.value
            for name, one in options.items()
            if one.estimate.objective.value is not None
        }
    numbers[PRICE] = {
        name: one.usd_per_hour for name, one in options.items() if one.usd_per_hour is not None
    }
    if any(one.name == "Fragmentation" and not one.resource for one in policy.prioritizers):
        numbers["Fragmentation"] = {
            cluster.name: usable(
                cluster,
                hall.taken(cluster.name),
                options[cluster.name].request,
                max(1, len(options[cluster.name].parts)),
            )
            for cluster in hall.clusters
            if cluster.nodes
        }
    return numbers


def _gang(answer: Answer) -> dict[str, object]:
    """A job gets what was found for it on the one cluster that was chosen."""
    if not answer.choice.clusters:
        return {"unplaced": 1}
    name = answer.choice.clusters[0]
    option = answer.options[name]
    return {
        "allocations": (Allocation(name, option.parts, option.alternative),),
        "replicas": {name: 1},
    }


def _spread_out(answer: Answer, hall: Hall) -> dict[str, object]:
    """Puts replicas one by one on the chosen cluster that has the fewest, of those with room.

    Of several with as few, the better comes first.
    """
    clusters = {one.name: one for one in hall.clusters}
    given: dict[str, list[NodeAllocation]] = {name: [] for name in answer.choice.clusters}
    open_to = list(given)
    placed, wanted = 0, replicas_of(answer.ask.task)
    while placed < wanted and open_to:
        name = min(open_to, key=lambda one: (len(given[one]), open_to.index(one)))
        option = answer.options[name]
        mine = Allocation(name, tuple(given[name]), option.alternative)
        parts = parts_of(clusters[name], (*hall.taken(name), mine), option.request, 1)
        if parts:
            given[name].append(replace(parts[0], ranks=(placed,)))
            placed += 1
        else:
            open_to.remove(name)
    return {
        "allocations": tuple(
            Allocation(name, tuple(parts), answer.options[name].alternative)
            for name, parts in given.items()
            if parts
        ),
        "replicas": {name: len(parts) for name, parts in given.items() if parts},
        "unplaced": wanted - placed,
    }
