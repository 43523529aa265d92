"""Decides what a fleet file says of the ways between places, and of data and models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    boolean,
    filled_text,
    list_of,
    map_of,
    number,
    one_of,
    plain,
    read_map,
)
from stellwerk.core.describe.fleet_amounts import data_size, latency, moment, rate
from stellwerk.core.describe.fleet_gather import Gathered
from stellwerk.core.describe.fleet_short import HINTS, short_name
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.fleet import Data, Latency, Link

LINK_HELP = "write `from: A` and `to: B`, or `between: [A, B]` for both ways"


def _places(report: Report, node: Node, path: str) -> tuple[str, str] | None:
    found = list_of(short_name)(report, node, path)
    if found is None:
        return None
    if len(found) != 2 or found[0] == found[1]:
        if len(node.items) == len(found):
            message = f"`{path}` takes two places"
            report.problem("spec/value", node, path, message, LINK_HELP)
        return None
    return found[0], found[1]


def _texts(report: Report, node: Node, path: str) -> tuple[str, ...] | None:
    """One text or a list of texts."""
    if node.text is not None:
        return (node.text,)
    found = list_of(filled_text)(report, node, path)
    return None if found is None else tuple(found)


def _link(report: Report, node: Node, path: str) -> list[Link] | None:
    return _links_of(report, read_map(report, node, path, LINK_FIELDS), path)


def _links_of(report: Report, found: Found, path: str) -> list[Link] | None:
    ends = list(_ends(found))
    one_way, both_ways = "from" in found or "to" in found, "between" in found
    if one_way == both_ways or (one_way and not ("from" in found and "to" in found)):
        message = f"{f'`{path}`' if path else 'the link'} doesn't say from where to where"
        report.problem("spec/missing", found.node, path, message, LINK_HELP)
        return None
    if "rate" not in found:
        where = f"{path}.rate".lstrip(".")
        report.problem(
            "spec/missing", found.node, where, "the link has no `rate`", "add `rate: 1Gbit/s`"
        )
    if "rate" not in found.values:
        return None
    price, shared = float(found.get("usd_per_gb", 0)), found.get("shared", False)
    egress = found.get("egress", "allow")
    return [Link(a, b, found.get("rate"), price, shared, egress) for a, b in ends]


def _ends(found: Found) -> Iterator[tuple[str, str]]:
    if "from" in found.values and "to" in found.values:
        yield found.get("from"), found.get("to")
    for a, b in [found.get("between")] if "between" in found.values else ():
        yield a, b
        yield b, a


LINK_FIELDS: dict[str, Reader] = {
    "from": short_name,
    "to": short_name,
    "between": _places,
    "rate": rate,
    "usd_per_gb": number(0),
    "shared": boolean,
    "egress": one_of(("allow", "deny")),
}
_TOP: dict[str, Reader] = {"apiVersion": plain, "kind": plain}
_ONE_LINK: dict[str, Reader] = {**_TOP, **LINK_FIELDS}
_MANY_LINKS: dict[str, Reader] = {**_TOP, "links": list_of(_link)}
LATENCY_FIELDS: dict[str, Reader] = {
    **_TOP,
    "observed": moment,
    "source": filled_text,
    "matrix": map_of(map_of(latency)),
}
DATA_FIELDS: dict[str, Reader] = {
    **_TOP,
    "name": filled_text,
    "revision": filled_text,
    "size": data_size,
    "type": one_of(("dataset", "model")),
    "residency": _texts,
    "content": filled_text,
    "origin": filled_text,
    "movable": boolean,
}


def link(gathered: Gathered, report: Report, node: Node) -> None:
    """`kind: Link`: one way, or both."""
    found = _links_of(report, read_map(report, node, "", _ONE_LINK, hints=HINTS), "")
    _put_links(gathered, node, found or ())


def links(gathered: Gathered, report: Report, node: Node) -> None:
    """`kind: Links`: a list of them."""
    found = read_map(report, node, "", _MANY_LINKS, hints=HINTS, required=("links",))
    for each in found.get("links", ()):
        _put_links(gathered, node, each)


def _put_links(gathered: Gathered, node: Node, found: Any) -> None:
    for each in found:
        gathered.first("Link", each.source, each.target, node=node)
        gathered.links[each.source, each.target] = each


def latencies(gathered: Gathered, report: Report, node: Node) -> None:
    """`kind: Latency`: by region of clients and cluster, from there and back."""
    found = read_map(report, node, "", LATENCY_FIELDS, hints=HINTS, required=("matrix",))
    observed, source = found.get("observed", 0), found.get("source", "")
    for region, row in found.get("matrix", {}).items():
        for cluster, milliseconds in row.items():
            gathered.first("Latency", region, cluster, node=node)
            one = Latency(region, cluster, milliseconds, observed, source)
            gathered.latencies[region, cluster] = one


def data(gathered: Gathered, report: Report, node: Node) -> None:
    """`kind: Data`, `Dataset` or `Model`: one revision of named content."""
    found = read_map(report, node, "", DATA_FIELDS, hints=HINTS)
    for key in ("name", "revision", "size"):
        if key not in found:
            report.problem("spec/missing", node, key, f"the data has no `{key}`")
    name, revision, bytes_ = found.get("name"), found.get("revision"), found.get("size")
    if name is None or revision is None or bytes_ is None:
        return
    if "@" in name:
        message = "the name of data holds no `@`: what follows it is the revision"
        report.problem("spec/name", found.nodes["name"], "name", message)
    kind = node.get("kind")
    implied = "model" if kind is not None and kind.value == "Model" else "dataset"
    gathered.first("Data", name, revision, node=node)
    gathered.data[name, revision] = Data(
        name=name,
        revision=revision,
        bytes=bytes_,
        kind=found.get("type", implied),
        residency=found.get("residency", ()),
        content=found.get("content", ""),
        origin=found.get("origin", ""),
        movable=found.get("movable", True),
    )
