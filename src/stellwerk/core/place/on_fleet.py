"""Decides where tasks would go on a fleet, one after another, and why; nothing is carried out.

A task's policy is the Placement that it names, bounded further by its own wishes. The policy
chooses clusters; estimates rank them; nodes and devices are found on those that are chosen. What
one task takes, the next doesn't find.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.data.estimates import estimate_all
from stellwerk.core.data.jobs import profile_of
from stellwerk.core.data.ranking import views
from stellwerk.core.data.sources import Grounds
from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.lower import lower
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.estimates import ClusterEstimate
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Limits, Placement
from stellwerk.core.model.placing import Choice, Existing, PlacingContext
from stellwerk.core.model.resources import Allocation, Alternative, NodeAllocation, Request
from stellwerk.core.model.task import Task, Wishes
from stellwerk.core.place.admitted import Tools
from stellwerk.core.place.candidates import answers_to, cannot
from stellwerk.core.place.placing import choose
from stellwerk.core.place.room import Room, fit, fit_most

NO_WISHES = Wishes()
TASKS = "task"
"""The namespace of the policies of tasks that name no placement."""


class Ask(Struct, frozen=True):
    """A task that asks for a place, with the policy that holds for it."""

    name: str
    task: Task
    policy: Placement


class Way(Struct, frozen=True):
    """One alternative of a task's resources: what was chosen for it, and the estimates behind."""

    alternative: int
    request: Request
    policy: Placement
    choice: Choice
    estimates: dict[str, ClusterEstimate]
    refused: dict[str, tuple[str, ...]]


class Answer(Struct, frozen=True):
    """Where a task would go. ``taken`` is the chosen way, -1 = none. ``replicas`` by cluster."""

    ask: Ask
    ways: tuple[Way, ...]
    taken: int
    allocations: tuple[Allocation, ...] = ()
    replicas: dict[str, int] = {}
    problems: tuple[Problem, ...] = ()

    @property
    def way(self) -> Way:
        """The chosen way, or the first where none is."""
        return self.ways[max(self.taken, 0)]


class FleetPlan(Struct, frozen=True):
    """Answers in the order asked, and the fleet as it would be then; ``columns`` are those of it
    before.
    """

    answers: tuple[Answer, ...]
    fleet: Fleet


def policy_of(task: Task, placements: Mapping[str, Placement]) -> Placement | Problem:
    """The policy that holds for a task: its placement's, and what it wishes beyond it."""
    named = Placement(TASKS, task.name or "task")
    if task.placement:
        found = placements.get(task.placement) or placements.get(f"default/{task.placement}")
        if found is None:
            known = ", ".join(placements) or "none"
            message = f"there is no placement `{task.placement}` in the fleet"
            return Problem("fleet/placement", message, f"placements are: {known}")
        named = found
    wishes = task.wishes or NO_WISHES
    objective = wishes.objective or named.objective
    return replace(
        named,
        objective=objective,
        usd_per_hour_of_waiting=wishes.usd_per_hour_of_waiting or named.usd_per_hour_of_waiting,
        limits=_both(named.limits, wishes.limits),
        data=tuple(dict.fromkeys((*named.data, *wishes.data))),
        prioritizers=(*named.prioritizers, *wishes.prioritizers),
        spread=(*named.spread, *wishes.spread),
        standby=wishes.standby or named.standby,
        count=_count(task, named, wishes),
        num_nodes=task.num_nodes,
    )


def _count(task: Task, named: Placement, wishes: Wishes) -> int | None:
    """A job runs on one cluster; a service on as many as are asked for, or one for each replica."""
    if task.service is None:
        return 1
    if wishes.clusters is not None:
        return wishes.clusters
    return named.count if task.placement else replicas_of(task)


def replicas_of(task: Task) -> int:
    """How many equal parts a task has that are placed apart: the replicas of a service, or one."""
    return task.service.replica_policy.min_replicas if task.service is not None else 1


def _both(policy: Limits, wish: Limits) -> Limits:
    """The tighter of two limits, each."""

    def lower_of(one: float, other: float) -> float:
        return min(one, other) if one and other else one or other

    return Limits(
        claims=(*policy.claims, *wish.claims),
        usd_max=lower_of(policy.usd_max, wish.usd_max),
        usd_per_hour_max=lower_of(policy.usd_per_hour_max, wish.usd_per_hour_max),
        finish_by_ms=int(lower_of(policy.finish_by_ms, wish.finish_by_ms)),
        latency_ms=lower_of(policy.latency_ms, wish.latency_ms),
        client_regions=tuple(dict.fromkeys((*policy.client_regions, *wish.client_regions))),
    )


def plan_on_fleet(
    asks: Iterable[Ask], fleet: Fleet, now_ms: int, existing: tuple[Existing, ...] = ()
) -> FleetPlan:
    """Answers for each task in turn; ``existing`` is where tasks and placements are already."""
    answers = []
    for ask in asks:
        answer = _answer(ask, fleet, now_ms, existing)
        answers.append(answer)
        fleet = replace(fleet, taken=(*fleet.taken, *answer.allocations))
    return FleetPlan(tuple(answers), fleet)


def _answer(ask: Ask, fleet: Fleet, now_ms: int, existing: tuple[Existing, ...]) -> Answer:
    shape = lower(ask.task).shape
    tools = Tools(FleetColumns.of(fleet))
    grounds = Grounds(fleet)
    ways: list[Way] = []
    problems: dict[Problem, None] = {}
    for index, alternative in enumerate(shape.alternatives):
        way, wrong = _way(ask, index, alternative, tools, grounds, fleet, now_ms, existing)
        ways.append(way)
        problems.update(dict.fromkeys(wrong))
    taken = -1 if problems else _best(ways, ordered=shape.ordered)
    if taken < 0:
        return Answer(ask, tuple(ways), -1, problems=tuple(problems))
    allocations, replicas = _take(ask, ways[taken], fleet)
    return Answer(ask, tuple(ways), taken, allocations, replicas)


def _way(
    ask: Ask,
    index: int,
    alternative: Alternative,
    tools: Tools,
    grounds: Grounds,
    fleet: Fleet,
    now_ms: int,
    existing: tuple[Existing, ...],
) -> tuple[Way, tuple[Problem, ...]]:
    policy = replace(ask.policy, demand=alternative.request)
    wishes = ask.task.wishes or NO_WISHES
    job, problems = profile_of(
        grounds.catalogue,
        runtime_ms=wishes.expected_runtime_ms,
        nodes=policy.num_nodes,
        request=alternative.request,
        prewarm=wishes.prewarm,
        placement=policy,
    )
    estimates = {one.cluster: one for one in estimate_all(job, grounds, fleet.clusters, now_ms)}
    refused = {
        cluster.name: why
        for cluster in fleet.clusters
        if (why := _refusals(cluster, alternative, estimates[cluster.name]))
    }
    context = PlacingContext(
        now_ms=now_ms,
        existing=existing,
        estimates=views(estimates.values()),
        refused=refused,
    )
    choice = choose(policy, tools.columns, context, tools)
    return Way(index, alternative.request, policy, choice, estimates, refused), problems


def _refusals(
    cluster: Cluster, alternative: Alternative, estimate: ClusterEstimate
) -> tuple[str, ...]:
    """Why a cluster is out, whatever the policy says: not meant, not able, or by its data."""
    why = []
    if not answers_to(cluster, alternative.infra):
        why.append(f"`infra: {alternative.infra}` names another")
    why += [render(reason).sentence for reason in cannot(cluster, alternative)]
    why += [render(reason).sentence for reason in estimate.rejections]
    return tuple(why)


def _best(ways: list[Way], *, ordered: bool) -> int:
    """The alternative to take: the first that is served where the order matters, else the best."""
    served = [at for at, way in enumerate(ways) if way.choice.clusters]
    if not served:
        return -1
    full = [at for at in served if ways[at].choice.unscheduled <= 0] or served
    if ordered:
        return full[0]
    return min(full, key=lambda at: (_worth(ways[at]), at))


def _worth(way: Way) -> tuple[bool, float]:
    """What is compared between alternatives, lowest first; unknown behind known."""
    first = way.choice.clusters[0]
    if way.policy.objective == "score":
        return False, -float(way.choice.totals[0])
    return way.estimates[first].objective.order


def _take(ask: Ask, way: Way, fleet: Fleet) -> tuple[tuple[Allocation, ...], dict[str, int]]:
    """Finds nodes and devices on the chosen clusters.

    The replicas of a service go one by one to the cluster that has the fewest of them yet, of those
    with room, the better first.
    """
    by_name = {cluster.name: cluster for cluster in fleet.clusters}
    rooms = {
        name: Room(by_name[name], (one for one in fleet.taken if one.cluster == name))
        for name in way.choice.clusters
    }
    if ask.task.service is None:
        return _gang(ask, way, rooms)
    given: dict[str, list[NodeAllocation]] = {name: [] for name in rooms if by_name[name].nodes}
    full: dict[str, None] = {}
    for rank in range(replicas_of(ask.task)):
        open_to = [name for name in given if name not in full]
        while open_to:
            name = min(open_to, key=lambda one: (len(given[one]), list(given).index(one)))
            found = fit_most(rooms[name], way.request, 1)
            if found:
                part = replace(found[0], ranks=(rank,))
                given[name].append(part)
                rooms[name].nodes[part.node].take(part)
                break
            full[name] = None
            open_to.remove(name)
    allocations = tuple(
        Allocation(name, tuple(parts), way.alternative) for name, parts in given.items() if parts
    )
    return allocations, {name: len(parts) for name, parts in given.items() if parts}


def _gang(
    ask: Ask, way: Way, rooms: dict[str, Room]
) -> tuple[tuple[Allocation, ...], dict[str, int]]:
    name = way.choice.clusters[0]
    nodes = fit(rooms[name], way.request, ask.task.num_nodes)
    if nodes is None:
        return (), {name: 1}
    return (Allocation(name, nodes, way.alternative),), {name: 1}
