"""Why a node can't take work, and changes that let it in: each set, applied, does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.resources import Allocation, Alternative, Request, Shape
from stellwerk.core.place.admitting import nodes_of, ways_in
from stellwerk.core.place.change_verbs import World
from stellwerk.core.place.live_changes import Live, change_live, fleet_of
from stellwerk.core.place.room import Room, capacity, fit
from stellwerk.core.view import ClusterView, View
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape, an_allocation
from tests.core.arbitrary import clusters, gangs, requests


def a_view(*parts: ClusterView) -> View:
    """These clusters, and nobody who waits."""
    return View(1, 1_000, 0, parts, (), ())


@st.composite
def used(draw: st.DrawFn) -> ClusterView:
    """A cluster on which up to three requests have been placed."""
    cluster = draw(clusters())
    room, held = Room(cluster, ()), []
    for number, request in enumerate(draw(st.lists(requests, max_size=3))):
        parts = fit(room, request, 1)
        if parts is not None:
            held.append((RunId(f"w-{number}-1"), Allocation(cluster.name, parts)))
            room.take(held[-1][1])
    return ClusterView(cluster, 1, "f", tuple(held))


def fits(part: ClusterView, request: Request, num_nodes: int) -> bool:
    """Whether there is room, asked of a room."""
    room = Room(part.cluster, (one for _, one in part.allocations))
    return fit(room, request, num_nodes) is not None


def applied(view: View, shape: Shape, way: tuple[str, ...]) -> tuple[View, Shape]:
    """What is there after the phrases."""
    live = change_live(Live(view, shape, World(fleet_of(view), (), view.now_ms)), way)
    return live.view, live.shape


@settings(max_examples=60)
@given(used(), requests, gangs)
def test_every_set_of_changes_admits(part: ClusterView, request: Request, num_nodes: int) -> None:
    """Alone on the cluster it starts then; what fits already needs no change."""
    shape = Shape((Alternative(request),), num_nodes=num_nodes)
    view = a_view(part)
    ways = ways_in(view, "lab", shape, 0)
    assert not (ways and fits(part, request, num_nodes))
    for way in ways:
        changed, asks = applied(view, shape, tuple(one.change_if for one in way))
        assert fits(changed.clusters[0], asks.alternatives[0].request, asks.num_nodes)


@settings(max_examples=60)
@given(used(), requests, gangs)
def test_where_room_alone_is_lacking_there_is_a_way(
    part: ClusterView, request: Request, num_nodes: int
) -> None:
    """What would fit if all of the cluster were free and ready always gets some changes."""
    could = fit(capacity(part.cluster), request, num_nodes) is not None
    shape = Shape((Alternative(request),), num_nodes=num_nodes)
    if could and not fits(part, request, num_nodes):
        assert ways_in(a_view(part), "lab", shape, 0)


@settings(max_examples=60)
@given(used(), requests)
def test_nodes_say_what_a_fit_says(part: ClusterView, request: Request) -> None:
    """A replica fits somewhere exactly if some node says so; one that doesn't says why."""
    nodes = nodes_of(a_view(part), "lab", Shape((Alternative(request),)), 0)
    assert any(one.fits for one in nodes) == fits(part, request, 1)
    assert all(one.fits or one.shortfalls or one.state != "ready" for one in nodes)


def test_the_smallest_changes_in_words() -> None:
    """Less on the node that is nearest, or others gone; a new node where there are no cards."""
    busy = ClusterView(
        a_cluster("lab", a_node("n1", cpus=8, gpus=4), a_node("n2", cpus=8, state="unreachable")),
        1,
        "f",
        ((RunId("w-9-1"), an_allocation("lab", "n1", cpus=6, devices={0: 40, 1: 40})),),
    )
    view = a_view(busy, ClusterView(a_cluster("pc"), 1, "f", ()))
    shape = a_shape(a_request(cpus=4, gpus=3, gpu="A100"))
    less, room = ways_in(view, "lab", shape, 0)
    assert [one.text for one in less] == ["ask for CPUs: 4 -> 2", "ask for A100: 3 -> 2"]
    assert [one.change_if for one in less] == ["ask cpus=2", "ask gpus=2"]
    assert [one.change_if for one in room] == ["free lab"]
    [more] = ways_in(view, "pc", shape, 0)
    assert [one.change_if for one in more] == ["add pc A100:3"]
    nodes = nodes_of(view, "lab", shape, 0)
    assert [(one.node, one.state) for one in nodes] == [("n1", "ready"), ("n2", "unreachable")]
    assert [one.resource for one in nodes[0].shortfalls] == ["CPUs", "A100"]


def test_where_it_may_be_and_what_it_needs_are_changes_too() -> None:
    """Another infra, and a cluster that can't do what is needed."""
    cluster = a_cluster("lab", claims={"images": "no: none found"})
    shape = Shape((Alternative(a_request(cpus=1), "ssh/far", ("images",)),))
    [way] = ways_in(a_view(ClusterView(cluster, 1, "f", ())), "lab", shape, 0)
    assert [one.change_if for one in way] == ["ask infra=lab", "claim lab images=yes"]


@given(st.sampled_from(["lab", "nowhere"]))
def test_nothing_is_said_of_what_is_not_there(name: str) -> None:
    """An unknown cluster has no nodes and no way in; one with room needs none."""
    view = a_view(ClusterView(a_cluster("lab"), 1, "f", ()))
    assert ways_in(view, name, a_shape(), 0) == ()
    assert bool(nodes_of(view, name, a_shape(), 0)) == (name == "lab")
