"""Writes a cluster as the object that expressions read: a ManagedCluster, without empty parts."""

from datetime import UTC, datetime, timedelta
from typing import Any

from stellwerk.core.model.cluster import Cluster, Taint

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BINARY = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def object_of(cluster: Cluster) -> dict[str, Any]:
    """Gives the object; what a cluster hasn't got is absent from it, as in Kubernetes."""
    metadata: dict[str, Any] = {"name": cluster.name}
    if cluster.labels:
        metadata["labels"] = cluster.labels
    if cluster.annotations:
        metadata["annotations"] = cluster.annotations
    spec: dict[str, Any] = {"hubAcceptsClient": True}
    if cluster.lease_s:
        spec["leaseDurationSeconds"] = cluster.lease_s
    if cluster.taints:
        spec["taints"] = [_taint(one) for one in cluster.taints]
    version = {"kubernetes": cluster.kubernetes} if cluster.kubernetes else {}
    status: dict[str, Any] = {"conditions": _conditions(cluster), "version": version}
    for part, amounts in (("capacity", cluster.capacity), ("allocatable", cluster.allocatable)):
        if amounts:
            status[part] = {name: written(name, value) for name, value in amounts.items()}
    if cluster.claims:
        claims = cluster.claims.items()
        status["clusterClaims"] = [{"name": name, "value": value} for name, value in claims]
    return {"metadata": metadata, "spec": spec, "status": status}


def written(resource: str, thousandths: int) -> str:
    """Writes an amount as Kubernetes does: `8`, `500m`, `16Gi`."""
    whole, rest = divmod(thousandths, 1000)
    if rest:
        return f"{thousandths}m"
    if "memory" in resource or "storage" in resource:
        for unit, name in _BINARY:
            if whole and whole % unit == 0:
                return f"{whole // unit}{name}"
    return str(whole)


def _taint(taint: Taint) -> dict[str, Any]:
    found: dict[str, Any] = {"key": taint.key, "effect": taint.effect, "timeAdded": None}
    if taint.value:
        found["value"] = taint.value
    if taint.added_ms:
        at = EPOCH + timedelta(milliseconds=taint.added_ms)
        found["timeAdded"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return found


def _conditions(cluster: Cluster) -> list[dict[str, Any]]:
    if not cluster.available:
        return []
    return [{"type": "ManagedClusterConditionAvailable", "status": cluster.available}]
