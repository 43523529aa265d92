"""Small fleets and placements, written down in one line each."""

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, ScoreObject
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, SetBinding
from stellwerk.core.model.placement import (
    Placement,
    Prioritizer,
)
from stellwerk.core.model.placing import Choice, Existing, PlacingContext
from stellwerk.core.place.placing import choose
from tests.core.place.arbitrary_placing import NOW_MS

SCORE = Prioritizer("free", 1, "gpu")


def cluster(name: str, free: int | None = None, **fields: object) -> Cluster:
    """A cluster of set s."""
    labels = {SET_LABEL: "s", **fields.pop("labels", {})}  # type: ignore[dict-item]
    scores = {} if free is None else {"gpu": ScoreObject({"free": free})}
    given = {"driver": "ocm", "nodes": (), "labels": labels, "scores": scores, **fields}
    return Cluster(name=name, **given)  # type: ignore[arg-type]


def fleet(*clusters: Cluster, **fields: object) -> Fleet:
    """These clusters, their set bound to namespace d."""
    given = {"sets": (ClusterSet("s"),), "bindings": (SetBinding("d", "s"),), **fields}
    return Fleet(clusters=clusters, **given)  # type: ignore[arg-type]


def placement(**fields: object) -> Placement:
    """A placement by the free score alone."""
    given = {"mode": "Exact", "prioritizers": (SCORE,), **fields}
    return Placement("d", "p", **given)  # type: ignore[arg-type]


def held(*names: str) -> PlacingContext:
    """What the placement has."""
    return PlacingContext(NOW_MS, (Existing("d", "p", names),))


NOTHING = PlacingContext(NOW_MS)


def answer(
    one: Placement, world: Fleet, context: PlacingContext = NOTHING
) -> tuple[FleetColumns, Choice]:
    """The columns, and the choice on them."""
    columns = FleetColumns(world)
    return columns, choose(one, columns, context)
