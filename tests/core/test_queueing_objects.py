"""Objects of queueing: applied and deleted as facts, all or none, with what changes and follows."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.queue_object import ObjectKey, QueueObject
from stellwerk.core.model.queueing import (
    CheckRule,
    Cohort,
    LocalQueue,
    QueueObjects,
    ResourceFlavor,
)
from stellwerk.core.model.reasons import Reason
from stellwerk.core.queue.tree import QuotaTree
from stellwerk.core.queueing_changes import changes_of, fields_between
from stellwerk.core.queueing_objects import doors_of, in_use, queueing_now
from stellwerk.core.queueing_preview import consequences
from stellwerk.core.queueing_quota import NO_NAMESPACE, queues_stand, quota_of, through
from stellwerk.core.state import State, fold
from stellwerk.core.state import queueing as queueing_state
from stellwerk.core.state.queueing import together
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall, applied
from tests.core.queued import a_queue, limited, queueing

ONE = a_shape(a_request(cpus=1))
VISION, DOOR = ObjectKey("ClusterQueue", "", "vision"), ObjectKey("LocalQueue", "p", "vision")
FLAVOR = ObjectKey("ResourceFlavor", "", "std")


def a_hall(cpus: int = 2, cohort: str = "lab") -> Hall:
    """Eight CPUs, and a queue with so many of them beside an empty one."""
    hall = Hall(a_cluster("room", a_node("n1", cpus=8)))
    objects = queueing(
        a_queue("vision", limited(cpus, 1), cohort=cohort), a_queue("nlp", 4, cohort=cohort)
    )
    hall.fold(applied(replace(objects, cohorts=(Cohort("lab"),))))
    return hall


def cohort(name: str, parent: str, manifest: str = "") -> QueueObject:
    """A cohort below another."""
    return QueueObject("Cohort", name, manifest=manifest, cohort=Cohort(name, parent))


def test_what_is_said_again_is_no_news() -> None:
    """Who changed an object last, and how often that was, is kept; an image has all of it."""
    hall = Hall()
    said = cohort("lab", "all", "{}")
    assert hall.command(cmd.ApplyQueues((said,))) == [ev.QueueObjectApplied(said)]
    version = hall.state.queueing.version
    assert hall.command(cmd.ApplyQueues((said,))) == []
    assert hall.state.queueing.version == version
    hall.command(cmd.ApplyQueues((cohort("lab", "top"),)))
    kept = hall.state.queueing.kept[said.key]
    assert (kept.generation, kept.by, kept.applied_ms > kept.created_ms) == (2, "ada", False)
    assert hall.state.queueing.objects.cohorts == (Cohort("lab", "top"),)
    again = State.from_image(hall.state.image())
    assert again.queueing.kept == hall.state.queueing.kept
    assert again.queueing.objects == hall.state.queueing.objects


def test_of_a_request_all_is_applied_or_nothing() -> None:
    """Two that were right when they were looked at make a cycle together."""
    hall = Hall()
    hall.command(cmd.ApplyQueues((cohort("lab", "all"),)))
    both = (cohort("other", ""), cohort("all", "lab"))
    [refused] = hall.command(cmd.ApplyQueues(both))
    assert isinstance(refused, ev.CommandRefused)
    assert "cohorts are each other's parent" in str(refused.reason.params["note"])
    assert list(hall.state.queueing.kept) == [cohort("lab", "").key]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("", *"abcd"))), max_size=12))
def test_no_order_of_requests_makes_a_cycle(asked: list[tuple[str, str]]) -> None:
    """Whatever is applied one after the other, the tree that quota is counted in stays whole."""
    hall = Hall()
    for name, parent in asked:
        hall.command(cmd.ApplyQueues((cohort(name, parent),)))
    tree = QuotaTree((), hall.state.queueing.objects.cohorts)
    assert not any(node.broken for node in tree.cohorts.values())


def test_a_local_queue_leads_where_it_led() -> None:
    """As with the reference: work was taken in by where it leads; a topology stays as well."""
    hall = a_hall()
    elsewhere = QueueObject(
        "LocalQueue", "vision", "p", local_queue=LocalQueue("p", "vision", "nlp")
    )
    [refused] = hall.command(cmd.ApplyQueues((elsewhere,)))
    assert isinstance(refused, ev.CommandRefused)
    packed = ResourceFlavor("std", {"rack": "1"}, topology="racks")
    [taken] = hall.command(cmd.ApplyQueues((QueueObject("ResourceFlavor", "std", flavor=packed),)))
    assert isinstance(taken, ev.QueueObjectApplied)
    bare = QueueObject("ResourceFlavor", "std", flavor=ResourceFlavor("std"))
    assert isinstance(hall.command(cmd.ApplyQueues((bare,)))[0], ev.CommandRefused)


def test_what_is_in_use_stays_unless_by_force() -> None:
    """By live work, waiting or running, and by objects that would stay; not by those that go."""
    hall = a_hall()
    keys = [hall.submit(ONE, queue="vision") for _ in range(5)]
    hall.cycle()
    now = queueing_now(hall.state)
    [use] = in_use(now.objects, [VISION], now.live, now.doors)
    assert (use.objects, sorted(use.workloads)) == ((DOOR,), sorted(keys))
    [use] = in_use(now.objects, [FLAVOR], now.live, now.doors)
    assert [key.name for key in use.objects] == ["nlp", "vision"]
    checked = queueing(replace(a_queue("vision", 1), checks=(CheckRule("budget"),)))
    [use] = in_use(checked, [ObjectKey("AdmissionCheck", "", "budget")], (), {})
    assert use.objects == (VISION,)
    [refused] = hall.command(cmd.DeleteQueueObjects((VISION, DOOR)))
    assert isinstance(refused, ev.CommandRefused)
    gone = hall.command(cmd.DeleteQueueObjects((VISION, DOOR), force=True))
    assert [type(one) for one in gone] == [ev.QueueObjectDeleted] * 2
    assert hall.command(cmd.DeleteQueueObjects((VISION,))) == []
    hall.settle()
    assert [hall.workload(key).phase for key in keys[:3]] == ["Starting"] * 3
    assert hall.told(keys[4]) == ["queue_missing"]


def test_what_nobody_needs_goes() -> None:
    """The door before what is behind it, or both at once."""
    hall = a_hall()
    assert in_use(hall.state.queueing.objects, [DOOR], (), doors_of(hall.state)) == []
    gone = hall.command(cmd.DeleteQueueObjects((VISION, DOOR)))
    assert [type(one) for one in gone] == [ev.QueueObjectDeleted] * 2


def test_quota_is_told_from_the_root_to_the_leaf() -> None:
    """Nominal, with what is below; what is used, borrowed, and could be had."""
    hall = a_hall()
    for _ in range(5):
        hall.submit(ONE, queue="vision")
    hall.cycle()
    now = queueing_now(hall.state)
    rows = quota_of(now.objects, now.live)
    assert [(one.name, one.kind, one.depth) for one in rows] == [
        ("lab", "cohort", 0), ("nlp", "queue", 1), ("vision", "queue", 1),
    ]  # fmt: skip
    [top], [own] = rows[0].pairs, rows[2].pairs
    assert (top.nominal, top.quota, top.used, top.available) == (None, 6000, 3000, 3000)
    assert (own.nominal, own.used, own.borrowed, own.available) == (2000, 3000, 1000, 0)
    assert [one.name for one in through(rows, "vision")] == ["lab", "vision"]
    assert through(rows, "lab") == rows
    assert through(rows, "nobody") == []
    _, vision = queues_stand(now.objects, now.live, now.doors)
    numbers = len(vision.pending), len(vision.reserving), len(vision.admitted)
    assert (numbers, vision.status, vision.local_queues) == ((2, 3, 3), "Ready", ("p/vision",))


def test_a_queue_says_why_it_takes_nothing_in() -> None:
    """In the reference's words."""
    objects = queueing(a_queue("a", 1, stop="Hold"), a_queue("b", 1), flavors=())
    a, b = queues_stand(objects, (), {})
    assert (a.status, a.about, b.status, b.about) == ("Stopped", "Hold", "FlavorNotFound", "std")
    [nobodys] = queues_stand(queueing(replace(a_queue("c", 1), namespaces=None)), (), {})
    assert (nobodys.status, nobodys.about) == ("Ready", NO_NAMESPACE)


def test_a_change_is_told_field_by_field() -> None:
    """Entries of lists go by their names; a new order is a change of its own."""
    before = '{"spec":{"flavors":[{"name":"a","n":1},{"name":"b"}],"x":[1],"gone":2}}'
    after = '{"spec":{"flavors":[{"name":"b"},{"name":"a","n":3}],"x":[1,2],"new":{"y":1}}}'
    told = [(one.path, one.before, one.after) for one in fields_between(before, after)]
    assert told == [
        ("spec.flavors (order)", "a, b", "b, a"),
        ("spec.flavors[a].n", "1", "3"),
        ("spec.x", "[1]", "[1,2]"),
        ("spec.gone", "2", ""),
        ("spec.new", "", '{"y":1}'),
    ]
    hall = Hall()
    hall.command(cmd.ApplyQueues((cohort("a", "", '{"n":1}'), cohort("b", ""))))
    put = [cohort("a", "x", '{"n":2}'), cohort("b", ""), cohort("c", "")]
    found = changes_of(hall.state.queueing.kept, put, [cohort("b", "").key])
    assert [one.change for one in found] == ["configured", "unchanged", "created", "deleted"]


PLAIN = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abn"), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from("xyz"), PLAIN), st.dictionaries(st.sampled_from("xyz"), PLAIN)
)
def test_fields_differ_exactly_where_objects_do(one: object, other: object) -> None:
    """Nothing is told of what is equal, and something of what isn't."""
    before, after = (msgspec.json.encode(each).decode() for each in (one, other))
    assert bool(fields_between(before, after)) == (one != other)


def test_consequences_are_those_of_the_next_cycle() -> None:
    """More quota starts who waits; less blocks, and what is used beyond it is told."""
    hall = a_hall(cpus=1, cohort="")
    hall.fold(applied(queueing(a_queue("vision", 1), a_queue("nlp", 4))))
    keys = [hall.submit(ONE, queue="vision") for _ in range(3)]
    hall.settle()
    view, now = hall.view(), queueing_now(hall.state)
    more = queueing(a_queue("vision", 2), a_queue("nlp", 4))
    found = consequences(view, more, now.live)
    [moved] = found.moved
    assert (moved.id, moved.before.what, moved.after.what) == (keys[1], "waits", "starts now")
    assert found.over == ()
    less = queueing(a_queue("vision", 0), a_queue("nlp", 4))
    found = consequences(view, less, now.live)
    [moved] = found.moved
    assert (moved.after.what, moved.after.code, moved.others) == ("is blocked", "queue_exceeds", 1)
    [over] = found.over
    assert (over.node.name, over.pair.used, over.pair.most) == ("vision", 1000, 0)
    drained = queueing(a_queue("vision", 1, stop="HoldAndDrain"), a_queue("nlp", 4))
    found = consequences(view, drained, now.live)
    assert {one.after.what for one in found.moved} == {"waits", "is stopped"}
    assert consequences(view, now.objects, now.live).moved == ()
    assert hall.settle() == [], "looking changes nothing"


def test_a_refusal_has_its_reason() -> None:
    """It is a reason of the catalogue, like all others."""
    hall = a_hall()
    [refused] = hall.command(cmd.DeleteQueueObjects((FLAVOR,)))
    assert isinstance(refused, ev.CommandRefused)
    why = Reason("objects_refused", {"note": "ResourceFlavor std is in use"})
    assert (refused.id, refused.reason) == (WorkloadId(""), why)


def test_many_objects_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands are applied one after the other: none of them costs what all of them do."""
    hall, asked = a_hall(), []

    def counted(objects: Iterable[QueueObject]) -> QueueObjects:
        asked.append(1)
        return together(objects)

    monkeypatch.setattr(queueing_state, "together", counted)
    for event in applied(queueing(*(a_queue(f"q{i}", 1) for i in range(20)))):
        fold(hall.state, ev.Record(hall.state.seq + 1, hall.now_ms, 1, "ada", "p", event))
    assert len(asked) <= 2, "for the Configuration"
    assert len(hall.state.queueing.objects.queues) >= 20
