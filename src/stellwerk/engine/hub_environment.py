"""What a rank is told of models and data sets that its machine has whole: to read, and not to ask.

A library that may ask the hub does so even for what is there, and fetches what it believes to be
newer. So where all that a job names is proved to be there, the hub is switched off for it: a wrong
guess fails at once instead of downloading for hours.
"""

from collections.abc import Collection

from stellwerk.core.data.names import on_hub
from stellwerk.core.inventory.caches import is_whole
from stellwerk.core.model.cluster import Node
from stellwerk.core.model.task import Task

OFFLINE = "HF_HUB_OFFLINE"
CACHE = "HF_HUB_CACHE"
OWN = (OFFLINE, CACHE, "HF_HOME", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_OFFLINE")
"""A task that sets one of these has a cache of its own, of which nothing is known."""


def named_on_hub(task: Task) -> tuple[str, ...]:
    """What of the hub a task says that it reads, as `hf://…@COMMIT`."""
    return tuple(one for one in (task.wishes.data if task.wishes else ()) if on_hub(one))


def hub_environment(
    wanted: Collection[str], node: Node | None, own: Collection[str] = ()
) -> dict[str, str]:
    """Names the cache, and switches the hub off, where all that is wanted is proved to be there."""
    if not wanted or node is None or any(name in own for name in OWN):
        return {}
    there = {f"{one.data}@{one.revision}": one.place for one in node.held if is_whole(one)}
    places = {there.get(one, ""): True for one in wanted}
    if len(places) != 1 or "" in places:
        return {}
    return {OFFLINE: "1", CACHE: next(iter(places))}
