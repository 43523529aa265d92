"""Finds what a request is about, so that its owner is known before anything is done to it."""

from collections.abc import Callable, Mapping

from stellwerk.core.model.gates import ARRAY_LABEL
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.server.one_cluster import no_cluster
from stellwerk.server.permissions import Rule
from stellwerk.server.policy import SERVER, Thing
from stellwerk.server.services import PROJECT, SETTLE_S, Services
from stellwerk.store import Store, WorkloadFilter


async def thing_of(services: Services, rule: Rule, params: Mapping[str, object]) -> Thing:
    """The workload, array or cluster that a path names; the server where it names nothing.

    Raises StellwerkError where there is no such cluster.
    """
    if rule.kind == "workload":
        return await _workload(services, str(params.get("ref", "")))
    if rule.kind == "cluster":
        return _cluster(services, str(params.get("name", "")))
    return SERVER


def _cluster(services: Services, name: str) -> Thing:
    """A cluster that is there, or that is to be somebody's. Raises StellwerkError."""
    if not services.belongings.known_owner(name) and services.engine.driver(name) is None:
        known = {one.cluster.name: True for one in services.engine.view().clusters}
        if name not in known:
            raise no_cluster(name, known)
    return Thing("cluster", name, services.owner_of(name))


async def _workload(services: Services, ref: str) -> Thing:
    found = workload_thing(services, ref)
    if found is None and await services.settled(SETTLE_S):
        found = workload_thing(services, ref)
    # What isn't there is nobody's: not even that is told where others' work isn't seen.
    return found or Thing("workload", ref[:80])


def workload_thing(services: Services, ref: str) -> Thing | None:
    """A workload by its name or id, or an array, with its owner."""
    row = services.store.workload(ref, PROJECT)
    if row is not None:
        return Thing("workload", row.workload.name, row.workload.owner)
    wanted = WorkloadFilter(live=False, labels={ARRAY_LABEL: ref}, project=PROJECT, limit=1)
    rows = services.store.workloads(wanted)
    return Thing("workload", ref, rows[0].workload.owner) if rows else None


def as_whom(store: Store) -> Callable[[RunId], str | None]:
    """As whom runs run: what their allocations say; None of runs that nobody knows."""

    def ask(run: RunId) -> str | None:
        row = store.workload(workload_of(run), PROJECT)
        if row is None:
            return None
        found = (one for one in row.workload.runs if one.id == run)
        one = next(found, row.workload.runs[-1] if row.workload.runs else None)
        return one.allocation.person if one is not None else None

    return ask
