"""Says which machine has which models and data sets, who uses them, and what to copy from."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from stellwerk.core.data.names import is_commit, on_hub, trouble_of
from stellwerk.core.inventory.caches import is_whole
from stellwerk.core.model.cluster import Cluster, Held, Node
from stellwerk.core.model.data_there import DataThere
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import Workload
from stellwerk.server.services import Services

HALF_HELP = (
    "a job that reads it there fetches the rest, or name another machine with `--from`: "
    "`stw data where` lists them"
)
NOWHERE_HELP = (
    "copies go from machine to machine: let one job fetch it on one of them, and copy it then"
)


class Spot(NamedTuple):
    """A machine of a cluster as it is known now."""

    cluster: Cluster
    node: Node

    @property
    def name(self) -> str:
        """`CLUSTER/NODE`; of a machine that is a cluster by itself, its name."""
        alone = len(self.cluster.nodes) == 1
        return self.cluster.name if alone else f"{self.cluster.name}/{self.node.name}"

    @property
    def keys(self) -> tuple[str, str]:
        """By which names drivers know it."""
        return f"{self.cluster.name}/{self.node.name}", self.cluster.name

    def held(self, data: str, revision: str) -> Held | None:
        """What it has of a commit."""
        found = (one for one in self.node.held if (one.data, one.revision) == (data, revision))
        return next(found, None)

    def has_all(self, data: str, revision: str) -> bool:
        """Whether nothing of a commit lacks there, as far as can be told."""
        found = self.held(data, revision)
        return found is not None and found.whole in {"proved", "links"}


def spots(services: Services) -> list[Spot]:
    """All machines, by cluster and name."""
    clusters = (one.cluster for one in services.engine.view().clusters)
    found = [Spot(cluster, node) for cluster in clusters for node in cluster.nodes]
    return sorted(found, key=lambda spot: (spot.cluster.name, spot.node.name))


def spots_of(services: Services, cluster: str, node: str) -> list[Spot]:
    """A machine of a cluster, or all of them. Raises StellwerkError where there is none."""
    of_cluster = [one for one in spots(services) if one.cluster.name == cluster]
    if not of_cluster:
        raise StellwerkError.of(
            "find/cluster", f"there is no cluster `{cluster[:80]}`", "`stw clusters` lists them"
        )
    found = [one for one in of_cluster if node in {"", one.node.name}]
    if not found:
        names = ", ".join(one.node.name for one in of_cluster[:8])
        message = f"{cluster} has no machine `{node[:80]}`"
        raise StellwerkError.of("find/node", message, f"it has {names}")
    return found


def read_name(written: str) -> tuple[str, str]:
    """The name and commit of `hf://…@COMMIT`. Raises StellwerkError."""
    if not on_hub(written):
        message = f"`{written[:120]}` is nothing of the hub, and only that can be copied"
        help = "write `hf://datasets/org/name@COMMIT`, or `hf://org/name@COMMIT` for a model"
        raise StellwerkError.of("spec/data-name", message, help)
    trouble = trouble_of(written)
    if trouble is not None:
        raise StellwerkError.of(trouble.code, trouble.message, trouble.help)
    name, _, commit = written.partition("@")
    assert is_commit(commit), "that was asked just now"
    return name, commit


IsSeen = Callable[[str], bool]
"""Whether who asks may see that work of an owner is there."""
OF_OTHERS = "work of others"


def listed(services: Services, is_seen: IsSeen) -> list[DataThere]:
    """All that caches of machines have."""
    used = _used(services, is_seen)
    return [
        DataThere(
            spot.cluster.name, spot.node.name, one.data, one.revision, one.bytes,
            one.missing_bytes, one.whole, one.lacks, one.place, one.refs,
            tuple(used.get((*spot.keys[:1], f"{one.data}@{one.revision}"), ())),
        )
        for spot in spots(services)
        for one in spot.node.held
    ]  # fmt: skip


def users(services: Services, spot: Spot, written: str, is_seen: IsSeen) -> Sequence[str]:
    """Live workloads on a machine that named a commit."""
    return _used(services, is_seen).get((spot.keys[0], written), ())


def _used(services: Services, is_seen: IsSeen) -> dict[tuple[str, str], list[str]]:
    """Names of live workloads by machine and commit; of what isn't seen, only that it is there."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for workload, machine, written in _uses(services):
        name = workload.name if is_seen(workload.owner) else OF_OTHERS
        found.setdefault((machine, written), {})[name] = True
    return {key: sorted(names) for key, names in found.items()}


def _uses(services: Services) -> Iterator[tuple[Workload, str, str]]:
    known: dict[str, tuple[str, ...]] = {}
    for workload in services.engine.state.workloads.values():
        run = workload.live_run
        if run is None:
            continue
        if workload.shape not in known:
            shape = services.store.shape(workload.shape)
            known[workload.shape] = shape.wishes.data if shape and shape.wishes else ()
        for written in known[workload.shape]:
            for part in run.allocation.nodes:
                yield workload, f"{run.allocation.cluster}/{part.node}", written


def best_source(
    services: Services, data: str, commit: str, target: Spot, asked: str
) -> tuple[Spot, Held]:
    """From which machine a commit is copied: one that has it for certain, in the same cluster.

    Raises StellwerkError: nobody has it, or what was named has only half.
    """
    named = [one for one in spots(services) if not asked or asked in {one.name, one.keys[0]}]
    if not named:
        message, help = f"there is no machine `{asked[:80]}`", "`stw data where` lists them"
        raise StellwerkError.of("find/node", message, help)
    having = [(one, held) for one in named if (held := one.held(data, commit)) is not None]
    whole = [(one, held) for one, held in having if held.whole != "half" and one != target]
    ready = [(one, held) for one, held in whole if one.node.state == "ready"]
    if ready:
        return min(ready, key=lambda pair: _rank(pair[0], pair[1], target))
    short = f"{data} at {commit[:12]}"
    if whole:
        silent = ", ".join(one.name for one, _ in whole[:5])
        message = f"{short} is on {silent}, which can't be reached now"
        raise StellwerkError.of("data/source-away", message, "try again when one is back")
    if having:
        one, held = having[0]
        lacks = f": `{held.lacks}` is missing" if held.lacks else ""
        message = f"{one.name} has only half of {short}{lacks}"
        raise StellwerkError.of("data/half", message, HALF_HELP)
    where = asked or "no machine"
    message = f"{where} has {short}" if not asked else f"{asked} doesn't have {short}"
    raise StellwerkError.of("data/nowhere", message, NOWHERE_HELP)


def _rank(one: Spot, held: Held, target: Spot) -> tuple[bool, bool, str]:
    return not is_whole(held), one.cluster.name != target.cluster.name, one.name
