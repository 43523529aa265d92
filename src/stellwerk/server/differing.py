"""Says in words how clusters, policies and requests differ from what they were."""

import msgspec

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.placement import Placement

SHOWN = 120


def fact_changes(old: Cluster | None, new: Cluster | None) -> list[str]:
    """What is another fact about a cluster than before."""
    if old is None or new is None:
        return ["it is new in the fleet" if old is None else "it isn't in the fleet any more"]
    return field_changes(old, new)


def spec_changes(old: Placement, new: Placement) -> list[str]:
    """What a policy says otherwise than before."""
    return [f"spec {one}" for one in field_changes(old, new, without=("name", "namespace"))]


def field_changes(
    old: msgspec.Struct, new: msgspec.Struct, *, without: tuple[str, ...] = ()
) -> list[str]:
    """Each field of two structs of a kind that differs, with both values."""
    return [
        f"{field}: {shown(getattr(old, field))} -> {shown(getattr(new, field))}"
        for field in old.__struct_fields__
        if field not in without and getattr(old, field) != getattr(new, field)
    ]


def shown(value: object) -> str:
    """A value on one line, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}…"
