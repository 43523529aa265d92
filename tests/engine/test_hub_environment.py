"""Where the hub is switched off for a job: where all that it names is proved to be there."""

from typing import Literal

from msgspec.structs import replace

from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.cluster import Held, Node
from stellwerk.core.model.task import Task
from stellwerk.engine.hub_environment import hub_environment
from stellwerk.engine.orders import Launch, build_order
from stellwerk.testing.builders import a_cluster, a_node, a_run, a_workload

COMMIT, OTHER = "c0ffee" * 6 + "0123", "d" * 40
WORDS, NET = f"hf://datasets/lab/words@{COMMIT}", f"hf://lab/net@{OTHER}"
SWITCHED_OFF = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "/hf/hub"}


def node(*whole: tuple[str, Literal["proved", "links", "half"]]) -> Node:
    """A machine with these in its cache, and how certain it is of each."""
    held = []
    for written, how in whole:
        name, _, commit = written.partition("@")
        held.append(Held(name, commit, 9, missing_bytes=0, whole=how, place="/hf/hub"))
    return replace(a_node("n0"), held=tuple(held))


def test_only_what_is_proved_to_be_whole_switches_it_off() -> None:
    """All of it, at the commit that is named; a task with a cache of its own is left alone."""
    both = node((WORDS, "proved"), (NET, "proved"))
    assert hub_environment((WORDS,), both) == SWITCHED_OFF
    assert hub_environment((WORDS, NET), both) == SWITCHED_OFF
    assert hub_environment((WORDS, NET), node((WORDS, "proved"))) == {}
    assert hub_environment((WORDS,), node((WORDS, "links"))) == {}
    assert hub_environment((WORDS,), node((WORDS, "half"))) == {}
    assert hub_environment((WORDS,), node((f"{WORDS[:-40]}{OTHER}", "proved"))) == {}
    assert hub_environment((), both) == hub_environment((WORDS,), None) == {}
    for own in ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"):
        assert hub_environment((WORDS,), both, {own: "x"}) == {}


def test_an_order_says_so_to_each_rank() -> None:
    """By what its own machine has; another person's run hears nothing of this user's cache."""
    task = read_tasks(f"run: x\nresources: {{labels: {{stellwerk/data: '{WORDS}'}}}}")
    assert isinstance(task, Task)
    cluster = a_cluster("room", node((WORDS, "proved")))
    for person, expected in (("", SWITCHED_OFF), ("bob", {})):
        run = a_run()
        run = replace(run, allocation=replace(run.allocation, person=person, nodes=tuple(
            replace(part, node="n0") for part in run.allocation.nodes)))  # fmt: skip
        order = build_order(a_workload(runs=(run,)), run, cluster, 1, Launch(task))
        found = {name: order.ranks[0].env.get(name) for name in SWITCHED_OFF}
        assert found == {**dict.fromkeys(SWITCHED_OFF), **expected}
