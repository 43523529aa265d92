"""Decides what machines hold of models and data sets, from what was found in their hub caches.

A cluster of several machines holds what each of them holds whole: wherever in it work goes, that is
there. What one machine alone has stands with its node.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stellwerk.core.model.cluster import Held, Node

HUB = "hub cache"
MOST_HELD = 2_000
STEP_BYTES = 256 * 1024 * 1024
"""What a download brings in the meantime is told in steps of this size."""
_WHOLE: dict[object, Literal["proved", "links", "half"]] = {
    "proved": "proved",
    "links": "links",
    "half": "half",
}


def held_of(facts: Mapping[str, Any]) -> tuple[Held, ...]:
    """What the hub cache of a machine's user has, by name and commit."""
    hub = facts.get("hub")
    if not isinstance(hub, Mapping):
        return ()
    found = []
    for repo in hub.get("repos") or ():
        for commit, one in sorted(repo["commits"].items()):
            found.append(_held(repo, commit, one, str(hub.get("folder") or "")))
    return tuple(found[:MOST_HELD])


def _held(repo: Mapping[str, Any], commit: str, one: Mapping[str, Any], place: str) -> Held:
    whole = _WHOLE.get(one.get("whole"), "half")
    held, missing = _number(one.get("bytes")) or 0, _number(one.get("missing_bytes"))
    if whole == "half":
        rest = held % STEP_BYTES
        held, missing = held - rest, None if missing is None else missing + rest
    return Held(
        data=str(repo["name"]),
        revision=commit,
        bytes=held,
        source=HUB,
        missing_bytes=missing,
        whole=whole,
        lacks=next((str(path) for path in one.get("lacks") or ()), ""),
        place=place,
        refs=tuple(str(ref) for ref in one.get("refs") or ()),
    )


def _number(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def is_whole(held: Held) -> bool:
    """Whether all of a revision is there for certain."""
    return held.whole == "proved"


def held_by_all(nodes: Sequence[Node]) -> tuple[Held, ...]:
    """What a cluster has on whichever of its machines work is put."""
    if len(nodes) == 1:
        return nodes[0].held
    there = [node for node in nodes if node.state == "ready"]
    if not there:
        return ()
    first, *others = there
    return tuple(
        one
        for one in first.held
        if is_whole(one)
        and all(
            any(is_whole(h) and (h.data, h.revision) == (one.data, one.revision) for h in node.held)
            for node in others
        )
    )
