"""Refuses submissions beyond what somebody may have waiting; what runs is limited by the core."""

from collections.abc import Sequence, Sized

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.workload import WAITING
from stellwerk.server.people import Caller
from stellwerk.server.services import SETTLE_S, Services
from stellwerk.store import WorkloadFilter


async def check_waiting(services: Services, caller: Caller, new: Sized) -> None:
    """Raises if so many more would be too many; asks nothing where nothing is limited."""
    limits = services.people.limits_of(caller)
    if not limits:
        return
    await services.settled(SETTLE_S)
    problems = []
    for kind, name, most in limits:
        owners = [caller.actor.name] if kind == "person" else members(services, name)
        waiting = sum(
            services.store.count(WorkloadFilter(phases=WAITING, owner=owner)) for owner in owners
        )
        if waiting + len(new) > most:
            who = caller.actor.name if kind == "person" else f"project {name or 'default'}"
            message = (
                f"{who} has {waiting} workloads waiting and may have {most}, so {len(new)} more "
                "can't be taken"
            )
            help = "wait until some have started, or cancel some: stw cancel PATTERN"
            problems.append(Problem("submit/too-many", message, help))
    if problems:
        raise StellwerkError(problems)


def members(services: Services, project: str) -> Sequence[str]:
    """The users whose work counts for a project, as the settings say."""
    return [user for user, one in services.people.projects.items() if one == project]
