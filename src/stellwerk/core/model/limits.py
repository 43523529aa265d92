"""How much one person, or one project, may have at a time on a server of several people.

A device counts whether it is held whole or in part. 0 means that nothing limits it.
"""

from collections.abc import Iterable

from msgspec import Struct

from stellwerk.core.model.resources import Allocation, NodeAllocation

LEAST_RUN_MS = 2 * 60_000
PROMISES_AT_ONCE = 32


class Limit(Struct, frozen=True, omit_defaults=True):
    """The most runs and devices at a time, and workloads that wait; 0 = any number."""

    running: int = 0
    gpus: int = 0
    pending: int = 0

    def or_else(self, other: "Limit") -> "Limit":
        """This one, with another's numbers where it says none."""
        return Limit(
            self.running or other.running, self.gpus or other.gpus, self.pending or other.pending
        )


class Aging(Struct, frozen=True, omit_defaults=True):
    """How the priority of waiting work rises: by so much an hour, and at most by so much."""

    per_hour: int = 0
    most: int = 0


class Limits(Struct, frozen=True, omit_defaults=True):
    """Limits of each person and each project; those named have numbers of their own.

    A run is spared for ``least_run_ms`` before it is stopped for others, and for at most
    ``promises`` workloads at a time others are being stopped; one workload is stopped so often a
    day, and so many runs an hour on a cluster (0: any number). That bounds what is lost. People
    may protect runs for ``protected_ms`` at most, and protected work of each may ask for
    ``protected_gpus`` (0: any number).

    The server's own user has the name "" here, as in allocations.
    """

    person: Limit = Limit()
    project: Limit = Limit()
    people: dict[str, Limit] = {}
    projects: dict[str, Limit] = {}
    least_run_ms: int = LEAST_RUN_MS
    promises: int = PROMISES_AT_ONCE
    stops_per_day: int = 0
    stops_per_hour: int = 0
    aging: Aging = Aging()
    protected_ms: int = 0
    protected_gpus: int = 0

    @property
    def bind(self) -> bool:
        """Whether anything is limited while work is started."""
        every = (self.person, self.project, *self.people.values(), *self.projects.values())
        return any(one.running or one.gpus for one in every)

    def of_person(self, name: str) -> Limit:
        """What holds for a person."""
        return self.people.get(name, Limit()).or_else(self.person)

    def of_project(self, name: str) -> Limit:
        """What holds for a project."""
        return self.projects.get(name, Limit()).or_else(self.project)


NO_LIMITS = Limits()


class Tally(Struct):
    """Runs and devices that somebody holds."""

    running: int = 0
    gpus: int = 0

    def add(self, allocation: Allocation) -> None:
        """Counts one more run."""
        self.running += 1
        self.gpus += gpus_of(allocation.nodes)


Holder = tuple[str, str]
"""("person" or "project", its name)."""


def holders_of(person: str, project: str) -> tuple[Holder, Holder]:
    """Who is charged for work."""
    return ("person", person), ("project", project)


def tallies(allocations: Iterable[Allocation]) -> dict[Holder, Tally]:
    """What each person and each project holds."""
    found: dict[Holder, Tally] = {}
    for allocation in allocations:
        for holder in holders_of(allocation.person, allocation.project):
            found.setdefault(holder, Tally()).add(allocation)
    return found


def gpus_of(nodes: Iterable[NodeAllocation]) -> int:
    """Devices on all nodes of an allocation, each counted once, however much of it is held."""
    return sum(len(node.devices) for node in nodes)
