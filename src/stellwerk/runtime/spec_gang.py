"""Reads what a spec says of a gang: the machines of a run, and which of them this one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional


class GangHost(NamedTuple):
    """One machine of a run over several: its name as a node, and the ranks there."""

    node: str
    ranks: list[int]


class Gang(NamedTuple):
    """The machines of a run over several, that of rank 0 first, and which of them this one is."""

    hosts: list[GangHost]
    host: int


def read_gang(value: Any, here: Any, complain: Callable[[str, str], None]) -> Optional[Gang]:
    """Checks it against the ranks that are started here; None where there is none."""
    if value is None:
        return None
    try:
        hosts = [
            GangHost(str(one["node"]), [int(rank) for rank in one["ranks"]])
            for one in value["hosts"]
        ]
        gang = Gang(hosts, int(value["host"]))
        there = gang.hosts[gang.host].ranks
    except (KeyError, TypeError, ValueError, IndexError):
        complain("gang", "is no `{hosts: [{node, ranks}], host}`")
        return None
    ranks = [one.get("rank") for one in here if isinstance(one, dict)] if here else []
    if there != ranks:
        complain("gang", f"has other ranks for host {gang.host} than `ranks`")
    return gang
