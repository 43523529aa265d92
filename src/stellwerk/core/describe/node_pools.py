"""Decides what SkyPilot's `ssh_node_pools.yaml` says: pools of hosts, as clusters to be added.

A password in it is never used, which is told; all faults are told at once, each with its place.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from stellwerk.core.describe.fields import Found, read_map
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.errors import Notice


class PoolHost(Struct, frozen=True):
    """One machine: an address or a name of the SSH configuration, and what is said about it."""

    host: str
    user: str = ""
    identity_file: str = ""

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host


class Pool(Struct, frozen=True):
    """One pool, under a name that a cluster may have."""

    name: str
    hosts: tuple[PoolHost, ...]


class NodePools(Struct, frozen=True):
    """All pools of a file, and what a person should know of them."""

    pools: tuple[Pool, ...]
    notices: tuple[Notice, ...] = ()


def read_node_pools(text: str, *, file: str = "") -> NodePools:
    """Reads such a file. Raises SpecError with every problem found."""
    from stellwerk.core.describe.reader import read_documents  # slow to load, seldom needed

    report = Report(file)
    documents = read_documents(text, report)
    pools: list[Pool] = []
    for node in documents[:1]:
        if node.kind != "map":
            help = "write `NAME:`, and below it `hosts:` with a list"
            report.problem("spec/type", node, "", "a map of pools is expected", help)
            continue
        pools += [_pool(report, one.key, one.key_node, one.value) for one in node.entries]
    report.finish()
    return NodePools(tuple(pools), tuple(report.notices))


def _pool(report: Report, written: str, place: Node, node: Node) -> Pool:
    name = cluster_name(written)
    if name != written:
        told = f"the pool `{written}` becomes the cluster `{name}`"
        report.notice("spec/renamed", place, written, told)
    found = read_map(report, node, written, {**_ABOUT_HOST, "hosts": _a_list}, required=("hosts",))
    _no_password(report, found, written)
    hosts = [
        _host(report, item, f"{written}.hosts[{number}]", found)
        for number, item in enumerate(found.get("hosts", ()))
    ]
    return Pool(name, tuple(one for one in hosts if one is not None))


def cluster_name(written: str) -> str:
    """A name that a cluster may have, as near as can be to the one that was written."""
    plain = re.sub(r"[^a-z0-9]+", "-", written.lower()).strip("-")[:63].strip("-")
    return plain or "pool"


def _host(report: Report, node: Node, path: str, pool: Found) -> PoolHost | None:
    user, key = pool.get("user", ""), pool.get("identity_file", "")
    if node.kind == "scalar":
        name = _a_text(report, node, path)
        return None if name is None else PoolHost(name, user, key)
    found = read_map(report, node, path, {**_ABOUT_HOST, "ip": _a_text}, required=("ip",))
    _no_password(report, found, path)
    if "ip" not in found.values:
        return None
    return PoolHost(found.get("ip"), found.get("user", user), found.get("identity_file", key))


def _no_password(report: Report, found: Found, path: str) -> None:
    if "password" in found:
        told = f"the password of `{path}` isn't used"
        help = "give the hosts a key: `ssh-copy-id`"
        report.notice("spec/password", found.place("password"), path, told, help)


def _a_text(report: Report, node: Node, path: str) -> str | None:
    if node.kind == "scalar" and not node.is_null:
        return node.as_text()
    report.problem("spec/type", node, path, f"text is expected, and this is {node.what()}")
    return None


def _a_list(report: Report, node: Node, path: str) -> list[Any] | None:
    if node.kind == "list" and node.items:
        return list(node.items)
    report.problem("spec/type", node, path, "a list of hosts is expected", "write `- HOST`")
    return None


_ABOUT_HOST = {"user": _a_text, "identity_file": _a_text, "password": _a_text}
