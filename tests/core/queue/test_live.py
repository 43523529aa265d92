"""The kept state: who is let in when, what stopping does, what past use and topologies come to."""

import msgspec
import pytest

from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.placement import Toleration
from stellwerk.core.model.queueing import (
    HOSTNAME,
    CheckRule,
    Cohort,
    LocalQueue,
    NodeTaint,
    PastUse,
    PodSet,
    Preemption,
    QueuedWorkload,
    QueueObjects,
    QueueSettings,
    Requeuing,
    ResourceFlavor,
    Topology,
    TopologyNode,
)
from stellwerk.core.model.selectors import Selector
from stellwerk.core.queue.cycle import cycle, decide
from stellwerk.core.queue.explain import usage_views, waiting_views
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.past_use import penalty, sampled
from stellwerk.core.queue.requeue import backoff_ms
from stellwerk.core.queue.settle import settle
from stellwerk.core.queue.topology import NoPlace, Room
from tests.core.queue.builders import NOW_MS, group, holds, objects, queue, quota, waits

replace = msgspec.structs.replace


def started(queues: Queues) -> list[str]:
    """Who starts in a cycle, which is carried out."""
    outcome = decide(queues, queues.now_ms)
    queues.apply(outcome, queues.now_ms)
    return [one.key.partition("/")[2] for one in outcome.admitted]


def reasons(queues: Queues) -> dict[str, str]:
    """The code of why each waits, after cycles that have settled."""
    found = settle(queues, queues.now_ms)
    return {one.name: one.reason.code for one in waiting_views(queues, found.waits)}


def test_a_wait_after_a_requeue_is_kept() -> None:
    """Before its time is over a workload isn't looked at; then it is."""
    queues = Queues(objects(queue("q", 4)), now_ms=NOW_MS)
    queues.submit(replace(waits("w", "q", 1), requeue_at_ms=NOW_MS + 60_000))
    assert started(queues) == []
    assert reasons(queues) == {"w": "queue_backing_off"}
    queues.advance(NOW_MS + 59_999)
    assert started(queues) == []
    queues.advance(NOW_MS + 60_000)
    assert started(queues) == ["w"]


def test_what_stops_a_workload() -> None:
    """Each has a reason of its own, and who may pass does."""
    world = replace(
        objects(
            queue("open", 4),
            replace(queue("held", 4), stop="Hold"),
            replace(queue("nowhere", 4), groups=group(("gone", quota(4)))),
            replace(queue("closed", 4), namespaces=None),
        ),
        local_queues=(LocalQueue("team", "door", "open", stop="Hold"),),
    )
    queues = Queues(world, now_ms=NOW_MS)
    for one in (
        waits("runs", "open", 1),
        waits("huge", "open", 9),
        waits("stopped", "held", 1),
        waits("lost", "nowhere", 1),
        waits("foreign", "closed", 1),
        waits("strayed", "none", 1),
        replace(waits("off", "open", 1), active=False),
        replace(waits("gated", "open", 1), gated=True),
        replace(waits("door", "", 1), local_queue="door"),
        replace(waits("odd", "open", 1), pod_sets=(PodSet("main", 1, {"gpu": 1000}),)),
    ):
        queues.submit(one)
    assert reasons(queues) == {
        "huge": "queue_exceeds",
        "stopped": "queue_stopped",
        "lost": "queue_inactive",
        "foreign": "queue_namespace",
        "strayed": "queue_missing",
        "off": "queue_suspended",
        "gated": "queue_suspended",
        "door": "queue_suspended",
        "odd": "queue_no_flavor",
    }
    assert list(queues.holders) == ["team/runs"]


@pytest.mark.parametrize(
    ("stop", "gone"),
    [
        ("None", []),
        ("Hold", ["team/reserved"]),
        ("HoldAndDrain", ["team/admitted", "team/reserved"]),
    ],
)
def test_stopping_a_queue(stop: str, gone: list[str]) -> None:
    """Hold takes back what was only reserved, HoldAndDrain everything; once."""
    world = objects(replace(queue("q", 4), stop=stop))
    queues = Queues(world, now_ms=NOW_MS)
    queues.hold(holds("admitted", "q", 1))
    reserved = holds("reserved", "q", 1)
    assert reserved.admission is not None
    admission = replace(reserved.admission, admitted=False)
    queues.hold(replace(reserved, admission=admission))
    outcome = decide(queues, NOW_MS)
    assert [one.key for one in outcome.evicted] == gone
    assert {one.reason for one in outcome.evicted} <= {"ClusterQueueStopped"}
    queues.apply(outcome, NOW_MS)
    assert decide(queues, NOW_MS).evicted == []


def test_checks_come_after_quota() -> None:
    """A workload reserves quota; only the checks of its flavors must pass."""
    rules = (CheckRule("all"), CheckRule("other", ("gpu",)), CheckRule("own", ("std",)))
    queues = Queues(objects(replace(queue("q", 4), checks=rules)), now_ms=NOW_MS)
    queues.submit(waits("w", "q", 1))
    outcome = decide(queues, NOW_MS)
    assert outcome.admitted[0].checks == ("all", "own")
    queues.apply(outcome, NOW_MS)
    admission = queues.holders["team/w"].workload.admission
    assert admission is not None
    assert not admission.admitted


def test_a_cycle_of_cohorts_stops_its_tree_alone() -> None:
    """Nothing in it or below it is admitted; elsewhere admission goes on."""
    world = replace(
        objects(queue("in", 4, "below"), queue("out", 4)),
        cohorts=(Cohort("a", "b"), Cohort("b", "a"), Cohort("below", "a")),
    )
    queues = Queues(world, now_ms=NOW_MS)
    queues.submit(waits("w1", "in", 1))
    queues.submit(waits("w2", "out", 1))
    assert reasons(queues) == {"w1": "queue_inactive"}
    assert list(queues.holders) == ["team/w2"]
    assert usage_views(queues)


def test_freed_quota_wakes_the_whole_tree() -> None:
    """Who was parked anywhere in the tree is looked at again; others stay parked."""
    world = objects(queue("a", 2, "t"), queue("b", 2, "t"), queue("c", 2))
    queues = Queues(world, now_ms=NOW_MS)
    queues.hold(holds("r", "a", 4))
    queues.hold(holds("s", "c", 2))
    queues.submit(waits("w", "b", 2))
    queues.submit(waits("x", "c", 2))
    assert started(queues) == []
    assert all(one.parked for one in queues.pending())
    queues.release("team/r")
    assert {one.key: one.parked for one in queues.pending()} == {"team/w": False, "team/x": True}
    assert started(queues) == ["w"]


def test_quota_below_what_is_used() -> None:
    """A shrunk quota evicts nobody; nothing new starts there, and elsewhere all goes on."""
    queues = Queues(objects(queue("small", 2), queue("other", 2)), now_ms=NOW_MS)
    queues.hold(holds("r", "small", 5))
    queues.submit(waits("w", "small", 1))
    queues.submit(waits("x", "other", 1))
    assert reasons(queues) == {"w": "queue_quota"}
    assert sorted(queues.holders) == ["team/r", "team/x"]


def test_past_use_is_sampled_and_halved() -> None:
    """What is used counts by half after a half-life; what counted in advance decays as well."""
    rules = PastUse(half_life_ms=600_000, sampling_ms=600_000)
    world = replace(
        objects(replace(queue("q", 8), usage_based=True)),
        local_queues=(
            LocalQueue("team", "one", "q"),
            LocalQueue("team", "two", "q", weight=0.0),
        ),
        settings=QueueSettings(past_use=rules),
    )
    queues = Queues(world, now_ms=NOW_MS)
    queues.submit(replace(waits("w", "", 4), local_queue="one"))
    assert queues.past_use == {"team/one": 0.0, "team/two": float("inf")}
    assert started(queues) == ["w"]
    assert queues.past_use["team/one"] == 2000
    queues.advance(NOW_MS + 599_999)
    assert queues.past_use["team/one"] == 2000
    queues.advance(NOW_MS + 600_000)
    assert queues.past_use["team/one"] == 3000
    queues.release("team/w")
    queues.advance(NOW_MS + 1_200_000)
    assert queues.past_use["team/one"] == 1500
    assert penalty({"cpu": 4000}, PastUse(0)) == {"cpu": 0.0}
    assert sampled({"cpu": 8.0}, {"cpu": 2.0}, 1, PastUse(0)) == {"cpu": 2.0}


def hosts(count: int, **labels: str) -> list[TopologyNode]:
    """Hosts with two CPUs each, two in a rack."""
    return [
        TopologyNode(
            f"h{i}", {HOSTNAME: f"h{i}", "rack": f"r{i // 2}", "block": f"b{i // 4}"} | labels,
            {"cpu": 2000},
        )
        for i in range(count)
    ]  # fmt: skip


FLAVOR = ResourceFlavor("tas", topology="dc")
DC = Topology("dc", ("block", "rack", HOSTNAME))


def placed(room: Room, count: int, asked: TopologyRequest | None, **of: object) -> object:
    """Pods of one CPU by host, or why they find no place."""
    pods = PodSet("main", count, {"cpu": 1000}, topology=asked, **of)  # type: ignore[arg-type]
    found = room.find(pods, count, pods.requests)
    return found if isinstance(found, NoPlace) else {p.domain[-1]: p.pods for p in found}


def test_slices_stay_together() -> None:
    """Each slice of two pods stays on a host; the block with the least room for them is taken."""
    room = Room(FLAVOR, DC, hosts(8))
    used = room.find(PodSet("a", 1, {"cpu": 1000}), 1, {"cpu": 1000})
    assert not isinstance(used, NoPlace)
    room.take(used[0])
    asked = TopologyRequest("preferred", "rack", HOSTNAME, 2)
    assert placed(room, 6, asked) == {"h1": 2, "h2": 2, "h3": 2}
    assert placed(room, 16, asked) == NoPlace("block", 14, 16)


def test_hosts_that_pods_may_not_use() -> None:
    """Taints and labels of hosts count where hosts are the narrowest level, and are told."""
    nodes = hosts(2)
    nodes[0] = replace(nodes[0], taints=(NodeTaint("gpu", "NoSchedule"),))
    nodes.append(replace(hosts(3)[2], ready=False))
    room = Room(FLAVOR, DC, nodes)
    asked = TopologyRequest("required", "block")
    assert placed(room, 3, asked) == NoPlace("block", 2, 3, 1)
    tolerates = (Toleration("gpu", "Exists"),)
    assert placed(room, 3, asked, tolerations=tolerates) == {"h0": 2, "h1": 1}
    assert placed(room, 1, asked, node_selector={HOSTNAME: "h1"}) == {"h1": 1}
    assert placed(room, 1, TopologyRequest("required", "zone")) == NoPlace("zone", 0, 1)


def test_an_admission_that_names_hosts_alone() -> None:
    """Kubernetes stores the narrowest level alone where that is the host."""
    world = QueueObjects(
        flavors=(FLAVOR,),
        queues=(replace(queue("q", 9), groups=group(("tas", quota(9)))),),
        topologies=(DC,),
        nodes=tuple(hosts(2)),
    )
    one = holds("r", "q", 2)
    assert one.admission is not None
    given = replace(one.admission.pod_sets[0], flavors={"cpu": "tas"}, domains={"h0": 1})
    held = replace(one, admission=replace(one.admission, pod_sets=(given,)))
    wanted = TopologyRequest("required", "rack")
    new = replace(waits("w", "q", 1), pod_sets=(PodSet("m", 2, {"cpu": 1000}, topology=wanted),))
    outcome = cycle(world, [new], [held], NOW_MS)
    assert outcome.admitted[0].pod_sets[0].domains == {"h1": 2}


def test_only_kueue_is_there() -> None:
    """Another policy is refused, not taken for this one."""
    with pytest.raises(ValueError, match="no policy"):
        Queues(objects(), compat="better")


def test_selectors_of_namespaces() -> None:
    """A queue takes in whose namespace has the labels; unknown namespaces have their name alone."""
    chosen = Selector({"team": "vision"})
    world = replace(
        objects(replace(queue("q", 4), namespaces=chosen)), namespaces={"cv": {"team": "vision"}}
    )
    load = [replace(waits(name, "q", 1), namespace=name) for name in ("cv", "nlp")]
    queues = Queues(world, now_ms=NOW_MS)
    for one in load:
        queues.submit(one)
    settle(queues, NOW_MS)
    assert list(queues.holders) == ["cv/cv"]


def test_many_of_one_shape_share_it() -> None:
    """Their pod sets are kept once."""
    queues = Queues(objects(queue("q", 4)), now_ms=NOW_MS)
    for index in range(3):
        queues.submit(waits(f"w{index}", "q", 1))
    kept: list[QueuedWorkload] = [one.workload for one in queues.pending()]
    assert {id(one.pod_sets) for one in kept} == {id(kept[0].pod_sets)}


def test_how_the_evicted_come_back() -> None:
    """Preempted at the old place; after a check at the back; not ready: later, then never."""
    limited = QueueSettings(requeuing=Requeuing(limit=2))
    queues = Queues(replace(objects(queue("q", 9)), settings=limited), now_ms=NOW_MS)
    old = NOW_MS - 3_600_000
    expected = {
        "Preempted": (0, 0),
        "AdmissionCheck": (NOW_MS, 0),
        "PodsReadyTimeout": (NOW_MS, NOW_MS + 60_000),
    }
    for reason, (queued_ms, at_ms) in expected.items():
        queues.hold(holds(reason, "q", 1))
        queues.release(f"team/{reason}", again=reason)
        found = queues.waiters[f"team/{reason}"].workload
        assert (found.created_ms, found.queued_ms, found.requeue_at_ms) == (old, queued_ms, at_ms)
        assert found.admission is None
    queues.hold(replace(holds("tired", "q", 1), requeues=2))
    queues.release("team/tired", again="PodsReadyTimeout")
    assert queues.refused["team/tired"].note == "its pods weren't ready in time, too often"
    assert [backoff_ms(times, Requeuing()) // 1000 for times in (1, 2, 3, 7, 10**9)] == [
        60, 120, 240, 3600, 3600,
    ]  # fmt: skip


def test_who_is_leaving_has_left_in_the_next_cycle() -> None:
    """An eviction from before the plan frees its quota, and the evicted wait again."""
    world = objects(queue("q", 2, preemption=Preemption(within="LowerPriority")))
    queues = Queues(world, now_ms=NOW_MS)
    queues.hold(replace(holds("old", "q", 2, -1), evicted=True))
    queues.submit(waits("new", "q", 2))
    found = settle(queues, NOW_MS)
    assert [(cycle_, one.key) for cycle_, one in found.admitted] == [(2, "team/new")]
    assert found.evicted == []
    assert list(queues.waiters) == ["team/old"]
