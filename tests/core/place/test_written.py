"""A cluster written as an object for expressions is read as the same cluster."""

from stellwerk.core.describe.fleet import fleet_of
from stellwerk.core.model.cluster import Cluster, Taint
from stellwerk.core.place.written import object_of


def test_written_and_read() -> None:
    """Everything that an object has: nothing is lost on the way to an expression."""
    cluster = Cluster(
        name="spoke",
        driver="ocm",
        nodes=(),
        kind="kubernetes",
        labels={"tier": "gold"},
        claims={"region": "eu"},
        taints=(Taint("a", "NoSelect", "v", 1_768_478_400_000), Taint("b", "PreferNoSelect")),
        capacity={"cpu": 8000, "memory": (1 << 34) * 1000},
        allocatable={"cpu": 7500, "memory": (1 << 34) * 1000, "nvidia.com/gpu": 8000},
        available="Unknown",
        lease_s=30,
        kubernetes="v1.31.0",
        annotations={"note": "x"},
    )
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    assert fleet_of([kind | object_of(cluster)]).fleet.clusters == (cluster,)
