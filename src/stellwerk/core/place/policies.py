"""Decides which policy holds for a task: the Placement that it names, bounded by its own wishes.

A wish can only narrow what the policy lets: limits are the tighter of both, scores and constraints
add up. A task that names no placement may go to every cluster and is put where it is over first.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from msgspec.structs import replace

from stellwerk.core.model.errors import Problem
from stellwerk.core.model.placement import Limits, Placement
from stellwerk.core.model.task import Task
from stellwerk.core.model.wishes import Wishes

NO_WISHES = Wishes()
TASKS = "task"
"""The namespace of the policies of tasks that name no placement."""

OPEN = Placement(TASKS, "", objective="finish")
"""The policy where none is named."""


def policy_of(
    task: Task, placements: Mapping[str, Placement], name: str = ""
) -> Placement | Problem:
    """The policy that holds for a task, under a name of its own: several tasks may share one."""
    name = name or task.name or "task"
    named = placements.get(OPEN.key, OPEN)
    if task.placement:
        found = find_placement(task.placement, placements)
        if isinstance(found, Problem):
            return found
        named = found
    wishes = task.wishes or NO_WISHES
    return replace(
        narrowed(named, wishes, name, task.num_nodes),
        spread=(*named.spread, *wishes.spread),
        standby=max(wishes.standby, named.standby) if task.service is not None else 0,
        count=_count(task, named, wishes),
    )


def narrowed(named: Placement, wishes: Wishes, name: str, num_nodes: int) -> Placement:
    """A policy with the wishes of one job, which goes to one cluster."""
    return replace(
        named,
        name=f"{named.name}/{name}" if named.name else name,
        objective=wishes.objective or named.objective,
        usd_per_hour_of_waiting=wishes.usd_per_hour_of_waiting or named.usd_per_hour_of_waiting,
        limits=tighter(named.limits, wishes.limits),
        data=tuple(dict.fromkeys((*named.data, *wishes.data))),
        prioritizers=(*named.prioritizers, *wishes.prioritizers),
        standby=0,
        count=1,
        num_nodes=num_nodes,
    )


def find_placement(written: str, placements: Mapping[str, Placement]) -> Placement | Problem:
    """A placement by `namespace/name`, or by its name alone where only one has it."""
    found = placements.get(written) or placements.get(f"default/{written}")
    known = {key: one for key, one in placements.items() if one.namespace != TASKS}
    named = [one for one in known.values() if one.name == written]
    if found is not None or len(named) == 1:
        return found or named[0]
    if named:
        keys = " or ".join(f"`{one.key}`" for one in named)
        message = f"several placements are called `{written}`"
        return Problem("fleet/placement", message, f"write {keys}")
    names = {**{one.name: one.key for one in known.values()}, **{key: key for key in known}}
    near = get_close_matches(written, names, 1)
    message = f"there is no placement `{written}` in the fleet"
    remedy = f"did you mean `{names[near[0]]}`?" if near else _listed(list(known))
    return Problem("fleet/placement", message, remedy)


def _listed(keys: list[str]) -> str:
    if not keys:
        return "describe a Placement in the fleet file, or leave the label away"
    more = f" and {len(keys) - 10} more" if len(keys) > 10 else ""
    return f"placements are {', '.join(f'`{key}`' for key in keys[:10])}{more}"


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


def tighter(policy: Limits, wish: Limits) -> Limits:
    """The tighter of two limits, each."""

    def lower_of(one: float, other: float) -> float:
        return min(one, other) if one and other else one or other

    return Limits(
        claims=tuple(dict.fromkeys((*policy.claims, *wish.claims))),
        usd_max=lower_of(policy.usd_max, wish.usd_max),
        usd_per_hour_max=lower_of(policy.usd_per_hour_max, wish.usd_per_hour_max),
        finish_by_ms=int(lower_of(policy.finish_by_ms, wish.finish_by_ms)),
        latency_ms=lower_of(policy.latency_ms, wish.latency_ms),
        client_regions=tuple(dict.fromkeys((*policy.client_regions, *wish.client_regions))),
    )
