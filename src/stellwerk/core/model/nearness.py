"""How near to each other the pods of a set, or the nodes of a gang, are wanted."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Spot = Literal["required", "preferred", "unconstrained"]
SPOT_LABELS: dict[Spot, str] = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "unconstrained": "kueue.x-k8s.io/podset-unconstrained-topology",
}
SLICE_LEVEL_LABEL = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE_LABEL = "kueue.x-k8s.io/podset-slice-size"
GROUP_LABEL = "kueue.x-k8s.io/podset-group-name"


class TopologyRequest(Struct, frozen=True, omit_defaults=True):
    """Where the pods of a set should be near to each other; slices stay inside ``slice_level``."""

    spot: Spot
    level: str = ""
    slice_level: str = ""
    slice_size: int = 1


def wrong_nearness(labels: Mapping[str, str], nodes: int) -> str:
    """Why labels can't say how near the nodes of a gang are to be; "" = they can."""
    given = [label for label in SPOT_LABELS.values() if labels.get(label) not in {None, "false"}]
    if len(given) > 1:
        return f"`{given[0]}` and `{given[1]}` are given at once"
    for label in (*given, *(one for one in (SLICE_LEVEL_LABEL,) if one in labels)):
        if not labels[label]:
            return f"`{label}` names no level"
    if GROUP_LABEL in labels:
        return f"`{GROUP_LABEL}` packs several sets as one, and a task is one set of nodes"
    size = labels.get(SLICE_SIZE_LABEL, "1")
    if not size.isdecimal() or int(size) < 1:
        return f"`{SLICE_SIZE_LABEL}` is `{size}`, which is no number of nodes"
    if SLICE_LEVEL_LABEL in labels and nodes % int(size):
        return f"{nodes} nodes can't be cut into slices of {size} (`{SLICE_SIZE_LABEL}`)"
    return ""


def nearness_of(labels: Mapping[str, str]) -> TopologyRequest | None:
    """What labels ask for; None = nothing. Of labels that are wrong it takes what can be read."""
    inner, size = labels.get(SLICE_LEVEL_LABEL, ""), labels.get(SLICE_SIZE_LABEL, "1")
    slices = max(1, int(size)) if size.isdecimal() else 1
    for spot, label in SPOT_LABELS.items():
        value = labels.get(label, "false")
        if value != "false":
            level = "" if spot == "unconstrained" else value
            return TopologyRequest(spot, level, inner, slices if inner else 1)
    return TopologyRequest("unconstrained", "", inner, slices) if inner else None
