"""Decides what estimates need to know of a task: its length, its data, what it is ranked by.

The length is the one that the user gave; without it the end of the work isn't known, and nothing is
made up in its place.
"""

from collections.abc import Iterable

from stellwerk.core.data.catalogue import Catalogue
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.estimates import JobProfile
from stellwerk.core.model.fleet import Data
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Request

GIVEN = "as given by stellwerk/expected-runtime"


def profile_of(
    catalogue: Catalogue,
    *,
    runtime_ms: int | None = None,
    nodes: int = 1,
    request: Request | None = None,
    data: Iterable[str] = (),
    prewarm: bool = False,
    placement: Placement | None = None,
) -> tuple[JobProfile, tuple[Problem, ...]]:
    """The profile of a task, and what is wrong with the data sets that it and its policy name."""
    policy = placement or Placement("", "")
    names = tuple(dict.fromkeys((*data, *policy.data)))
    found: list[Data] = []
    problems: list[Problem] = []
    for name in names:
        one = catalogue.find(name)
        if isinstance(one, Problem):
            problems.append(one)
        elif one not in found:
            found.append(one)
    gpu = request.gpu if request else None
    profile = JobProfile(
        runtime_s=None if runtime_ms is None else runtime_ms / 1000,
        runtime_origin="" if runtime_ms is None else GIVEN,
        nodes=nodes,
        devices={gpu.kind: gpu.count} if gpu and gpu.kind else {},
        data=tuple(found),
        objective=policy.objective,
        usd_per_hour_of_waiting=policy.usd_per_hour_of_waiting,
        prewarm=prewarm,
        deadline_ms=policy.limits.finish_by_ms,
    )
    return profile, tuple(problems)
