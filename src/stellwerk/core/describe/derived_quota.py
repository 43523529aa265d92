"""Decides what the annotation `stellwerk/quota` of a ClusterQueue says."""

from msgspec.structs import replace

from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.queueing import ClusterQueue, FlavorQuotas, ResourceGroup

ANNOTATION = "stellwerk/quota"
DERIVED = "derived"
REMEDY = f"write `{DERIVED}`, or remove it: then `nominalQuota` says how much"
OF_NODES = ("cpu", "memory", "ephemeral-storage", "gpu-memory")
"""What every node tells of, beside its devices."""


def is_of_nodes(resource: str) -> bool:
    """Whether nodes tell how much they have of a resource."""
    return resource in OF_NODES or resource.endswith("/gpu") or "/mig-" in resource


def read_derived(
    report: Report, node: Node, annotations: dict[str, str], queue: ClusterQueue
) -> ClusterQueue:
    """The queue, with its quotas marked if they are to follow from what the clusters have."""
    text = annotations.get(ANNOTATION, "").strip()
    if not text:
        return queue
    place, path = node.get("metadata") or node, f"metadata.annotations.{ANNOTATION}"
    if text != DERIVED:
        report.problem(
            "queue/derived", place, path, f"`{text}` says not where quota is from", REMEDY
        )
        return queue
    covered = dict.fromkeys(name for group in queue.groups for name in group.covered)
    for name in covered:
        if not is_of_nodes(name):
            message = f"nodes don't tell how much `{name}` they have: its `nominalQuota` counts"
            report.notice("queue/derived", place, path, message)
    return replace(queue, groups=tuple(map(_of_group, queue.groups)))


def _of_group(group: ResourceGroup) -> ResourceGroup:
    return replace(group, flavors=tuple(map(_of_flavor, group.flavors)))


def _of_flavor(one: FlavorQuotas) -> FlavorQuotas:
    quotas = {
        name: replace(quota, derived=True) if is_of_nodes(name) else quota
        for name, quota in one.quotas.items()
    }
    return replace(one, quotas=quotas)
