"""What "if …" means on what is live: the right copy changes, and what means nothing is refused."""

import pytest

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.task import Task
from stellwerk.core.place.change_verbs import World
from stellwerk.core.place.changes import CHANGES
from stellwerk.core.place.live_changes import (
    ROOM,
    Live,
    change_live,
    fleet_of,
    live_change_forms,
    with_fleet,
)
from stellwerk.core.view import ClusterView, View
from stellwerk.testing.builders import GIB, a_cluster, a_node, a_request, a_shape, an_allocation

LAB = ClusterView(
    a_cluster("lab", a_node("n1", gpus=2), a_node("n2"), labels={"region": "eu"}),
    1,
    "f",
    ((RunId("w-1-1"), an_allocation("lab", "n1", cpus=2, devices={0: 40})),),
)
PC = ClusterView(a_cluster("pc"), 1, "f", ())
VIEW = View(1, 1_000, 0, (LAB, PC), (), ())
SHAPE = a_shape(a_request(cpus=2, memory_gib=8, gpus=2))
TASK = Task(name="job")
POLICY = Placement(name="gold", namespace="default")


def live(*placements: Placement, shape: Shape = SHAPE) -> Live:
    """Two clusters, one of them in use."""
    return Live(VIEW, shape, World(fleet_of(VIEW), placements, VIEW.now_ms, (TASK,)))


def test_room_changes_in_the_view_and_in_the_fleet() -> None:
    """Both know of it; what isn't touched stays the same part."""
    freed = change_live(live(), ("free lab", "drain pc"))
    lab, pc = freed.view.clusters
    assert lab.allocations == ()
    assert [(node.state, node.note) for node in pc.cluster.nodes] == [("drained", "drained")]
    assert freed.world.fleet.taken == ()
    assert change_live(live(), ("drain lab/n2",)).view.clusters[1] is PC
    assert with_fleet(VIEW, fleet_of(VIEW)) == VIEW


def test_cards_are_freed_where_they_can_be_used() -> None:
    """A node that isn't ready has free cards that help nobody."""
    down = a_node("n0", gpus=2, state="unreachable")
    part = ClusterView(a_cluster("lab", down, a_node("n1", gpus=2)), 1, "f", LAB.allocations)
    view = View(1, 1_000, 0, (part,), (), ())
    freed = change_live(Live(view, SHAPE, World(fleet_of(view), (), 1)), ("free lab gpus=2",))
    [(run, left)] = freed.view.clusters[0].allocations
    assert run == "w-1-1"
    assert left.nodes[0].devices == ()


@pytest.mark.parametrize("phrase", ["lose lab", "lose region=eu"])
def test_a_cluster_that_is_gone(phrase: str) -> None:
    """By its name, or with all of a domain."""
    left = change_live(live(), (phrase,))
    assert [part.cluster.name for part in left.view.clusters] == ["pc"]
    assert [one.name for one in left.world.fleet.clusters] == ["pc"]


def test_it_may_ask_for_something_else() -> None:
    """Of each resource; and for no accelerator at all."""
    asks = ("ask cpus=500m", "ask memory=1GiB gpus=0", "ask nodes=3", "ask infra=pc")
    with pytest.raises(StellwerkError, match=r"`many` isn.t a number of CPUs"):
        change_live(live(), ("ask cpus=many",))
    shape = change_live(live(), asks).shape
    [one] = shape.alternatives
    assert (one.request.cpus_milli, one.request.memory_bytes, one.request.gpu) == (500, GIB, None)
    assert (shape.num_nodes, one.infra) == (3, "pc")
    with pytest.raises(StellwerkError, match="asks for no accelerator"):
        change_live(live(shape=a_shape()), ("ask gpus=1",))
    either = a_shape(a_request(gpus=2), a_request(cpus=8))
    found = change_live(live(shape=either), ("ask gpus=1",)).shape.alternatives
    assert [one.request.gpu and one.request.gpu.count for one in found] == [1, None]
    gpu = change_live(live(), ("ask gpu-memory=10GiB",)).shape.alternatives[0].request.gpu
    assert gpu is not None
    assert (gpu.count, gpu.share_bytes) == (2, 10 * GIB)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Each phrase with its own words and what to write instead."""
    phrases = ("weight Cost=5", "fre lab", "ask gpu=1", "wish x y=2", "lose labb", "")
    with pytest.raises(StellwerkError) as raised:
        change_live(live(), phrases)
    told = [(one.message, one.help) for one in raised.value.problems]
    here = "changes here are lose, drain, resume, free, add, claim, wish, ask"
    assert told == [
        ("`weight Cost=5`: it names no placement, and nothing else looks at that", here),
        ("`fre lab`: `fre` is no change", "write `free CLUSTER [gpus=4]`"),
        (
            "`ask gpu=1`: `gpu` is nothing to ask for; did you mean `gpus`?",
            "write `ask gpus=2` or `ask memory=32GiB`",
        ),
        ("`wish x y=2`: there is no task `x`; there are job", "write `wish TASK max-usd=200`"),
        (
            "`lose labb`: there is no cluster `labb`; did you mean `lab`?",
            "write `lose CLUSTER` or `lose region=eu-central`",
        ),
        ("``: nothing is changed", here),
    ]


def test_with_a_placement_its_changes_mean_something() -> None:
    """Weights and taints reach the world; what is asked of each job does where it has wishes."""
    changed = change_live(live(POLICY), ("weight Cost=5", "taint lab a=b:NoSelect"))
    assert changed.world.placements[0].prioritizers
    assert changed.world.fleet.clusters[0].taints
    assert changed.view is VIEW
    with pytest.raises(StellwerkError, match=r"`wish NAME max-usd=…`"):
        change_live(live(POLICY), ("limit max-usd=3",))
    with pytest.raises(StellwerkError, match="what data it reads"):
        change_live(live(POLICY), ("hold lab faces",))
    wishing = change_live(live(POLICY), ("wish job max-usd=3", "limit max-usd=5"))
    assert wishing.shape.wishes is not None
    assert wishing.shape.wishes.limits.usd_max == 5


def test_a_cluster_that_no_driver_reaches() -> None:
    """It has no room here; only a placement looks at it."""
    fleet = fleet_of(View(1, 1, 0, (LAB, PC, ClusterView(a_cluster("far"), 1, "f", ())), (), ()))
    with pytest.raises(StellwerkError, match="no driver here reaches `far`"):
        change_live(Live(VIEW, SHAPE, World(fleet, (), 1)), ("drain far",))
    changed = change_live(Live(VIEW, SHAPE, World(fleet, (POLICY,), 1)), ("drain far",))
    assert changed.world.fleet.clusters[2].nodes[0].state == "drained"


def test_every_change_is_listed() -> None:
    """Those that `plan --fleet` knows and one more, what needs no placement first."""
    forms = list(live_change_forms())
    assert sorted(forms) == sorted({*CHANGES, "ask"})
    assert tuple(forms[: len(ROOM)]) == ROOM
