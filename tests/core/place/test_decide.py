"""The decision: the best of those that fit, or why none does and what would change it."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Candidate, Inputs
from stellwerk.core.model.ids import ShapeId, digest
from stellwerk.core.model.quantity import Amount, parse_memory
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import NAMESPACES, Allocation, Alternative, Request, Shape
from stellwerk.core.place.candidates import answers_to
from stellwerk.core.place.decide import Decided, decide, never_fits, waiting
from stellwerk.core.place.found import Found
from stellwerk.core.place.room import GIB, Room, capacity, fit
from stellwerk.core.place.rooms import ClusterRoom, Whole
from stellwerk.testing.builders import a_cluster, a_device, a_node, a_request, a_shape
from tests.core import oracle
from tests.core.arbitrary import clusters, shapes, used_rooms

FLEETS = st.tuples(used_rooms("a"), used_rooms("b"), used_rooms("c"))


def asked(shape: Shape, *rooms: Room) -> Decided:
    """Decides on copies of these rooms."""
    inputs = Inputs(ShapeId(digest(shape)), {}, 0, 0, "test")
    grounds = [ClusterRoom(room.copy(), Whole(capacity(room.cluster))) for room in rooms]
    return decide(shape, grounds, inputs)


def holds(room: Room, shape: Shape, alternative: int) -> bool:
    """Whether a cluster can hold an alternative of a shape, by trying everything."""
    request = shape.alternatives[alternative].request
    return oracle.replicas(room, request, shape.num_nodes) == shape.num_nodes


@settings(max_examples=80)
@given(FLEETS, shapes())
def test_something_is_chosen_exactly_if_something_fits(
    rooms: tuple[Room, ...], shape: Shape
) -> None:
    """What is chosen fits, and the verdict of every candidate is the right one."""
    decided = asked(shape, *rooms)
    by_name = {room.cluster.name: room for room in rooms}
    for candidate in decided.decision.candidates:
        fits = holds(by_name[candidate.cluster], shape, candidate.alternative)
        assert fits == (candidate.verdict in {"fits", "chosen"})
        never = not holds(
            capacity(by_name[candidate.cluster].cluster), shape, candidate.alternative
        )
        assert never == (candidate.verdict == "never")
        assert fits or candidate.reasons
    assert len(decided.decision.candidates) == len(rooms) * len(shape.alternatives)
    if decided.allocation is None:
        assert decided.decision.chosen == -1
        assert decided.decision.reasons
    else:
        best = decided.decision.candidates[decided.decision.chosen]
        assert best.verdict == "chosen"
        assert (best.cluster, best.alternative) == (
            decided.allocation.cluster,
            decided.allocation.alternative,
        )
        assert not decided.decision.reasons


@given(FLEETS, shapes(), st.integers(0, 1000))
def test_the_order_of_clusters_does_not_matter(
    rooms: tuple[Room, ...], shape: Shape, seed: int
) -> None:
    """The same place is chosen, with the same runner-up."""
    mixed = list(rooms)
    random.Random(seed).shuffle(mixed)
    one, other = asked(shape, *rooms), asked(shape, *mixed)
    assert one.allocation == other.allocation

    def runner_up(decided: Decided) -> object:
        index = decided.decision.runner_up
        return decided.decision.candidates[index] if index >= 0 else None

    assert runner_up(one) == runner_up(other)
    assert sorted(map(repr, one.decision.reasons)) == sorted(map(repr, other.decision.reasons))


@given(FLEETS, shapes())
def test_an_ordered_choice_is_an_order(rooms: tuple[Room, ...], shape: Shape) -> None:
    """No score makes a later alternative win while an earlier one fits anywhere."""
    ordered = replace(shape, ordered=True)
    decided = asked(ordered, *rooms)
    if decided.allocation is not None:
        for earlier in range(decided.allocation.alternative):
            assert not any(holds(room, ordered, earlier) for room in rooms)


@given(FLEETS, shapes())
def test_the_best_score_wins(rooms: tuple[Room, ...], shape: Shape) -> None:
    """And the runner-up is the best of the rest; the change says by how much it lost."""
    decision = asked(shape, *rooms).decision
    if decision.chosen < 0:
        return
    best = decision.candidates[decision.chosen]
    rest = [one for one in decision.candidates if one.verdict == "fits"]
    assert all(one.total <= best.total for one in rest)
    assert (decision.runner_up >= 0) == bool(rest)
    if rest:
        second = decision.candidates[decision.runner_up]
        assert second.total == max(one.total for one in rest)
        needed = best.total - second.total + 1
        assert decision.change == (f"{second.cluster} wins if it scores {needed} more",)


PART = re.compile(r"(?P<resource>[^:,]+): .+ -> (?P<free>[\d.]+)(?: (?P<unit>\w+))?")


def as_told(shape: Shape, alternative: int, text: str) -> Shape:
    """Lowers a shape as a person would who reads the change and types what it says."""
    request, num_nodes = shape.alternatives[alternative].request, shape.num_nodes
    for part in text.split(" with ")[1].split(", "):
        match = PART.fullmatch(part)
        assert match, part
        if match["unit"]:
            found = parse_memory(match["free"] + match["unit"])
            assert isinstance(found, Amount)
            size = found.value
        match match["resource"]:
            case "CPUs":
                request = replace(request, cpus_milli=round(float(match["free"]) * 1000))
            case "memory":
                request = replace(request, memory_bytes=size)
            case "disk":
                request = replace(request, disk_bytes=size)
            case "GPU memory":
                assert request.gpu
                request = replace(request, gpu=replace(request.gpu, share_bytes=size))
            case "nodes at once":
                num_nodes = int(match["free"])
            case _:
                assert request.gpu
                request = replace(request, gpu=replace(request.gpu, count=int(match["free"])))
    return Shape((Alternative(request),), num_nodes=num_nodes)


@settings(max_examples=80)
@given(FLEETS, shapes())
def test_doing_what_the_change_says_starts_it(rooms: tuple[Room, ...], shape: Shape) -> None:
    """Each change that is offered turns the verdict of the cluster that it names."""
    decided = asked(shape, *rooms)
    if decided.allocation is not None:
        return
    by_name = {room.cluster.name: room for room in rooms}
    for text in decided.decision.change:
        room = by_name[text.split(" with ")[0].removeprefix("starts now on ")]
        turned = [
            as_told(shape, alternative, text)
            for alternative, wanted in enumerate(shape.alternatives)
            if wanted.request.gpu or not re.search("GPU|T4|L4", text)
        ]
        assert any(asked(lower, room).allocation is not None for lower in turned), text


@settings(max_examples=80)
@given(st.lists(clusters(), min_size=1, max_size=3), shapes())
def test_a_refusal_at_submit_is_sound_and_complete(fleet: list[Cluster], shape: Shape) -> None:
    """Refused is exactly what no cluster could hold if it were empty and all of it ready."""
    named = [replace(cluster, name=f"c{number}") for number, cluster in enumerate(fleet)]
    possible = any(
        holds(capacity(cluster), shape, alternative)
        for cluster in named
        for alternative in range(len(shape.alternatives))
    )
    refused = never_fits(shape, named)
    assert bool(refused) == (not possible)
    for reason in refused:
        assert reason.code in {"never_fits", "has_none"}
        assert "not recorded" not in render(reason).sentence


def test_nothing_is_refused_while_nothing_is_known() -> None:
    """Before the first probe anything may come."""
    assert never_fits(a_shape(a_request(cpus=10_000)), []) == ()


def test_a_cluster_without_nodes_refuses_nothing_and_holds_nothing() -> None:
    """What is behind it isn't known yet."""
    empty = Cluster(name="lab", driver="simulated", nodes=())
    assert never_fits(a_shape(), [empty]) == ()
    decided = asked(a_shape(), Room(empty, ()))
    (reason,) = decided.decision.reasons
    assert render(reason).sentence == "lab is without nodes"


def test_foreign_memory_and_absent_nodes_never_refuse() -> None:
    """Both pass; a job may be submitted for when they have."""
    busy = replace(a_node("busy"), devices=(a_device(foreign_gib=39),))
    away = a_node("away", cpus=64, state="unreachable")
    room = a_cluster("lab", busy, away, kind="room")
    assert never_fits(a_shape(a_request(gpus=1)), [room]) == ()
    assert never_fits(a_shape(a_request(cpus=64)), [room]) == ()


def test_an_unknown_place_is_refused_by_name() -> None:
    """`infra:` must name a cluster."""
    (reason,) = never_fits(a_shape(infra="ssh/nowhere"), [a_cluster()])
    assert render(reason).sentence == "no cluster answers to infra `ssh/nowhere`"


def test_no_cluster_at_all_is_a_wait() -> None:
    """The server has just started."""
    decided = asked(a_shape())
    assert [reason.code for reason in decided.decision.reasons] == ["no_cluster"]


def test_never_is_told_only_where_nothing_else_is() -> None:
    """A cluster that is too small isn't a reason to wait for the one that is busy."""
    small = Room(a_cluster("small", a_node(cpus=1)), ())
    busy = Room(a_cluster("busy", a_node(cpus=8)), ())
    parts = fit(busy, a_request(cpus=6), 1)
    assert parts is not None
    busy.take(Allocation("busy", parts))
    decision = asked(a_shape(a_request(cpus=4)), small, busy).decision
    assert [render(reason).sentence for reason in decision.reasons] == [
        "4 CPUs asked, 2 free on busy"
    ]
    assert decision.change == (
        "starts now on busy with CPUs: 4 -> 2",
        "starts now on small with CPUs: 4 -> 1",
    )


def test_who_lacks_no_room_is_told_no_change_of_its_wants() -> None:
    """Where something else keeps it waiting, one node instead of one wouldn't let it start."""
    shape = a_shape(a_request(cpus=4))
    inputs = Inputs(ShapeId(digest(shape)), {}, 0, 0, "test")
    lab = capacity(a_cluster("lab", a_node(cpus=8)))
    rooms = [ClusterRoom(lab.copy(), Whole(lab))]
    late = Candidate("lab", 0, "later", reasons=(Reason("queue_quota"),))
    assert waiting(shape, [Found(late)], rooms, late.reasons, inputs).change == ()


def test_many_clusters_alike_are_told_as_one() -> None:
    """Twenty times the same is one reason with the nearest of them, and a number."""
    rooms = []
    for number in range(20):
        room = Room(a_cluster(f"c{number:02}", a_node(cpus=8)), ())
        parts = fit(room, a_request(cpus=6 if number == 7 else 8), 1)
        assert parts is not None
        room.take(Allocation(room.cluster.name, parts))
        rooms.append(room)
    decision = asked(a_shape(a_request(cpus=4)), *rooms).decision
    (reason,) = decision.reasons
    assert render(reason).sentence == "4 CPUs asked, 2 free on c07, too little on 19 more"
    assert len(decision.candidates) == 20


def test_work_without_gpus_spares_clusters_that_have_some() -> None:
    """The laptop is taken although the server would be emptier; with a GPU there is no choice."""
    server = Room(a_cluster("server", a_node("server", cpus=64, gpus=8)), ())
    laptop = Room(a_cluster("laptop", a_node("laptop", cpus=4)), ())
    without = asked(a_shape(a_request(cpus=2)), server, laptop)
    assert without.allocation is not None
    assert without.allocation.cluster == "laptop"
    with_one = asked(a_shape(a_request(cpus=2, gpus=1)), server, laptop)
    assert with_one.allocation is not None
    assert with_one.allocation.cluster == "server"


def test_kept_room_is_closed_and_says_for_whom() -> None:
    """What the kept work needs is closed; what it doesn't need is open."""
    room = Room(a_cluster("lab", a_node(cpus=8, gpus=2)), ())
    ground = ClusterRoom(room, Whole(capacity(room.cluster)))
    parts = fit(room, a_request(cpus=2, gpus=2), 1)
    assert parts is not None
    ground.keep(parts, "big")

    def decided(request: Request) -> Decided:
        shape = a_shape(request)
        return decide(shape, [ground], Inputs(ShapeId(digest(shape)), {}, 0, 0, "test"))

    closed = decided(a_request(cpus=1, gpus=1)).decision
    assert [reason.code for reason in closed.reasons] == ["room_kept"]
    assert closed.reasons[0].params == {"cluster": "lab", "name": "big"}
    assert closed.change == ()
    assert decided(a_request(cpus=6)).allocation is not None
    assert decided(a_request(cpus=7)).allocation is None


@pytest.mark.parametrize(
    ("infra", "answers"),
    [
        ("", True),
        ("*", True),
        ("lab", True),
        ("ssh", True),
        ("ssh/lab", True),
        ("ssh/*", True),
        ("*/lab", True),
        ("ssh/lab/pc02", False),
        ("ssh/other", False),
        ("slurm/lab", False),
        ("lab/other", False),
        ("la", False),
    ],
)
def test_infra_names_a_cluster_in_several_ways(infra: str, answers: bool) -> None:
    """By driver, by name, by both, with stars."""
    assert answers_to(a_cluster("lab", driver="ssh"), infra) == answers


def test_a_partition_may_follow_where_clusters_have_them() -> None:
    """A pool of machines has none: a machine that is named behind it isn't passed over."""
    assert answers_to(a_cluster("lab", driver="slurm"), "slurm/lab/gpu")
    assert not answers_to(a_cluster("lab", driver="ssh"), "*/lab/gpu")


def test_equal_decisions_have_equal_names() -> None:
    """The id is the digest of all of it, the inputs included."""
    room = Room(a_cluster(), ())
    one, other = asked(a_shape(), room), asked(a_shape(), room)
    assert one.decision == other.decision
    third = asked(a_shape(a_request(cpus=2)), room)
    assert third.decision.id != one.decision.id
    assert re.fullmatch(r"d-[0-9a-f]{16}", one.decision.id)


def test_sizes_are_told_so_that_they_can_be_asked_for() -> None:
    """A node with a little less than 16 GiB."""
    node = replace(a_node(), memory_bytes=16_700_000_000)
    (reason,) = never_fits(a_shape(a_request(memory_gib=16)), [a_cluster("lab", node)])
    told = render(reason)
    assert told.sentence == "16 GiB of memory asked, lab can give at most 15.5 GiB"
    assert told.remedy == "ask for at most 15.5 GiB, or add a cluster that has more"
    assert never_fits(a_shape(a_request(memory_gib=15.5)), [a_cluster("lab", node)]) == ()
    assert node.memory_bytes >= 15.5 * GIB


def test_a_cluster_that_can_not_do_what_is_needed_is_never_taken() -> None:
    """However much room it has; it is told why, and offers no change."""
    needy = Shape((Alternative(a_request(), needs=(NAMESPACES,)),))
    unable = a_cluster("unable", a_node(cpus=64), claims={NAMESPACES: "no: forbidden here"})
    silent = a_cluster("silent", a_node(cpus=1))
    taken = asked(needy, Room(unable, ()), Room(silent, ()))
    assert taken.allocation is not None
    assert taken.allocation.cluster == "silent"
    (reason,) = never_fits(needy, [unable])
    assert reason == Reason("no_namespaces", {"cluster": "unable", "note": "forbidden here"})
    assert asked(needy, Room(unable, ())).decision.change == ()
    assert never_fits(needy, [unable, silent]) == ()


def test_no_score_outweighs_a_preference() -> None:
    """The first choice wins on the fullest cluster, even on a node with cards it doesn't need."""
    small = Room(a_cluster("small", a_node(cpus=2, gpus=1), driver="ssh"), ())
    large = Room(a_cluster("large", a_node(cpus=64), driver="slurm"), ())
    wanted = a_request(cpus=2)
    choice = Shape((Alternative(wanted, "ssh"), Alternative(wanted, "slurm")), ordered=True)
    taken = asked(choice, small, large)
    assert taken.allocation is not None
    assert taken.allocation.cluster == "small"
    either = asked(replace(choice, ordered=False), small, large)
    assert either.allocation is not None
    assert either.allocation.cluster == "large"
