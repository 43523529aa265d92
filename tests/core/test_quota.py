"""Live work under quota: flavors bound the clusters, one cycle gives both verdicts."""

from msgspec.structs import replace

from stellwerk.core.model.actions import StartRun
from stellwerk.core.model.queueing import (
    CheckRule,
    Fungibility,
    LocalQueue,
    NodeTaint,
    ResourceFlavor,
)
from stellwerk.core.plan import OVERTAKEN_MS
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, limited, queueing

ONE = a_shape(a_request(cpus=1))
TWO = a_shape(a_request(cpus=2))
FOUR = a_shape(a_request(cpus=4))


def a_hall(*queues: object, cpus: int = 16, **more: object) -> Hall:
    """One machine and these queues."""
    hall = Hall(a_cluster("lab", a_node(cpus=cpus, memory_gib=64, gpus=4)))
    hall.apply(queueing(*queues, **more))  # type: ignore[arg-type]
    return hall


def cluster_of(hall: Hall, key: str) -> str:
    """Where a workload runs."""
    return hall.workload(key).runs[-1].allocation.cluster


def test_quota_bounds_what_starts_and_is_free_again_when_a_run_is_over() -> None:
    """Three CPUs of quota on a machine of sixteen; several heads start in one cycle."""
    hall = a_hall(a_queue("team", 3))
    keys = [hall.submit(ONE, queue="team") for _ in range(5)]
    assert hall.cycle() == keys[:3]
    holding = hall.workload(keys[0]).runs[-1].holding
    assert holding is not None
    assert (holding.queue, holding.flavors, holding.amounts) == (
        "team", {"cpu": "std"}, {"cpu": 1000},
    )  # fmt: skip
    assert hall.told(keys[3]) == ["queue_quota"]
    assert hall.cycle() == []
    hall.end(keys[1])
    assert hall.settle() == [keys[3]]


def test_both_verdicts_stand_in_the_decision_with_every_level() -> None:
    """The path of the quota goes from the queue to the root, with the numbers of each level."""
    hall = a_hall(a_queue("team", limited(2, 1), cohort="all"), a_queue("other", 6, cohort="all"))
    for _ in range(4):
        hall.submit(ONE, queue="team")
    planned = hall.plan()
    starts = [one for one in planned.actions if isinstance(one, StartRun)]
    assert len(starts) == 3
    said = next(d for d in planned.decisions if d.id == starts[2].decision)
    assert said.quota is not None
    [verdict] = said.quota.flavors
    assert (said.quota.queue, verdict.outcome, verdict.available) == ("team", "borrows", 1000)
    levels = [(one.name, one.nominal, one.quota, one.used) for one in verdict.path]
    assert levels == [("team", 2000, 2000, 2000), ("all", 0, 8000, 2000)]
    waits = planned.decisions[-1]
    assert waits.quota is not None
    assert [one.code for one in waits.reasons] == ["queue_quota"]
    assert waits.reasons[0].params["where"] == "team"
    assert [one.cluster for one in said.candidates] == ["lab"]


def test_work_of_no_queue_is_not_bound_and_says_so() -> None:
    """As with the reference for jobs without a queue's name."""
    hall = a_hall(a_queue("team", 1))
    key = hall.submit(FOUR)
    planned = hall.plan()
    assert planned.decisions[0].quota is not None
    assert planned.decisions[0].quota.queue == ""
    hall.cycle()
    assert hall.workload(key).runs[-1].holding is None


def test_the_queue_named_default_binds_where_it_is_there() -> None:
    """One LocalQueue `default` in the namespace `default` serves every project."""
    hall = Hall(a_cluster("lab", a_node(cpus=16)))
    objects = queueing(a_queue("team", 1))
    hall.apply(replace(objects, local_queues=(LocalQueue("default", "default", "team"),)))
    hall.submit(ONE)
    second = hall.submit(ONE)
    assert len(hall.cycle()) == 1
    assert hall.told(second) == ["queue_quota"]


def test_a_queue_may_be_named_with_its_namespace() -> None:
    """`team-a/gpus`, whatever the project."""
    hall = Hall(a_cluster("lab", a_node(cpus=16)))
    objects = queueing(a_queue("team", 1))
    hall.apply(replace(objects, local_queues=(LocalQueue("team-a", "gpus", "team"),)))
    keys = [hall.submit(ONE, queue="team-a/gpus") for _ in range(2)]
    assert hall.settle() == keys[:1]
    assert hall.told(keys[1]) == ["queue_quota"]


def test_a_queue_that_takes_nothing_in_says_why() -> None:
    """Missing, stopped, without its flavor, closed to the namespace."""
    closed = replace(a_queue("closed", 4), namespaces=None)
    checked = replace(a_queue("checked", 4), checks=(CheckRule("budget"),))
    broken = a_queue("broken", flavors={"nowhere": 4})
    hall = a_hall(a_queue("stopped", 4, stop="Hold"), broken, closed, checked)
    names = ("stopped", "broken", "closed", "checked", "gone")
    told = {name: hall.submit(ONE, queue=name) for name in names}
    assert hall.cycle() == []
    assert {name: hall.told(key) for name, key in told.items()} == {
        "stopped": ["queue_stopped"],
        "broken": ["queue_inactive"],
        "closed": ["queue_namespace"],
        "checked": ["queue_inactive"],
        "gone": ["queue_missing"],
    }


def test_flavors_lead_to_the_clusters_with_their_labels_in_their_order() -> None:
    """The first flavor as far as quota and room go, then the next; tainted ones are left out."""
    fast, slow = (
        ResourceFlavor("fast", {"speed": "fast"}),
        ResourceFlavor("slow", {"speed": "slow"}),
    )
    taint = NodeTaint("lent", "NoSchedule")
    barred = ResourceFlavor("barred", {"speed": "slow"}, taints=(taint,))
    hall = Hall(
        a_cluster("a", a_node(cpus=8), labels={"speed": "slow"}),
        a_cluster("b", a_node(cpus=2), labels={"speed": "fast"}),
    )
    queue = a_queue("team", flavors={"barred": 9, "fast": 3, "slow": 2})
    hall.apply(queueing(queue, flavors=(barred, fast, slow)))
    keys = [hall.submit(ONE, queue="team") for _ in range(6)]
    assert hall.settle() == keys[:4]
    assert [cluster_of(hall, key) for key in keys[:4]] == ["b", "b", "a", "a"]
    holdings = [hall.workload(key).runs[-1].holding for key in keys[:4]]
    assert [one and one.flavors["cpu"] for one in holdings] == ["fast", "fast", "slow", "slow"]


def test_never_quota_without_a_place() -> None:
    """Quota for eight on a flavor of two CPUs: two start, the third waits for room."""
    near = ResourceFlavor("near", {"site": "here"})
    hall = Hall(a_cluster("a", a_node(cpus=2), labels={"site": "here"}), a_cluster("b"))
    hall.apply(queueing(a_queue("team", flavors={"near": 8}), flavors=(near,)))
    keys = [hall.submit(ONE, queue="team") for _ in range(3)]
    assert hall.settle() == keys[:2]
    assert hall.told(keys[2]) == ["no_room"]


def test_a_flavor_may_name_nodes_and_kinds_of_cards() -> None:
    """Of one cluster with two kinds of cards only the nodes of the flavor's kind are used."""
    flavor = ResourceFlavor("a100", {"stellwerk/accelerator": "A100"})
    room = a_cluster("room", a_node("x", gpus=1, gpu="H100"), a_node("y", gpus=1), kind="room")
    hall = Hall(room)
    hall.apply(queueing(a_queue("team", flavors={"a100": 8}, gpus=8), flavors=(flavor,)))
    shape = a_shape(a_request(cpus=1, gpus=1))
    keys = [hall.submit(shape, queue="team") for _ in range(2)]
    assert hall.settle() == keys[:1]
    assert [part.node for part in hall.workload(keys[0]).runs[-1].allocation.nodes] == ["y"]


def test_no_cluster_with_the_labels_is_told_as_such() -> None:
    """Quota is there; nothing carries the flavor."""
    hall = Hall(a_cluster("lab"))
    far = ResourceFlavor("far", {"site": "moon"})
    hall.apply(queueing(a_queue("team", flavors={"far": 4}), flavors=(far,)))
    key = hall.submit(ONE, queue="team")
    assert hall.cycle() == []
    assert hall.told(key) == ["queue_no_cluster"]


def test_cards_must_be_covered_and_cpus_are_counted_where_they_are() -> None:
    """A queue for CPUs alone gives no GPU; one of GPUs alone doesn't count CPUs."""
    hall = a_hall(a_queue("cpus", 4))
    key = hall.submit(a_shape(a_request(cpus=1, gpus=1)), queue="cpus")
    assert hall.cycle() == []
    assert hall.told(key) == ["queue_no_flavor"]


def test_more_than_the_queue_could_ever_have_is_blocked() -> None:
    """The largest that could be had is told."""
    hall = a_hall(a_queue("team", limited(2, 1), cohort="all"), a_queue("b", 8, cohort="all"))
    key = hall.submit(FOUR, queue="team")
    hall.cycle()
    waits = hall.state.shapes[hall.workload(key).shape].waits
    assert waits is not None
    assert [one.code for one in waits.reasons] == ["queue_exceeds"]
    assert waits.reasons[0].params["largest"] == "3"


def test_next_flavor_before_borrowing_where_the_queue_says_so() -> None:
    """`whenCanBorrow: TryNextFlavor` takes its own second flavor before it borrows the first."""
    one, two = ResourceFlavor("one"), ResourceFlavor("two")
    for rule, expected in (("MayStopSearch", "one"), ("TryNextFlavor", "two")):
        hall = Hall(a_cluster("lab", a_node(cpus=16)))
        rules = Fungibility(borrow=rule)  # type: ignore[arg-type]
        team = a_queue("team", flavors={"one": 1, "two": 4}, cohort="all", fungibility=rules)
        lender = a_queue("lender", flavors={"one": 8}, cohort="all")
        hall.apply(queueing(team, lender, flavors=(one, two)))
        keys = [hall.submit(TWO, queue="team")]
        hall.settle()
        holding = hall.workload(keys[0]).runs[-1].holding
        assert holding is not None
        assert holding.flavors == {"cpu": expected}


def test_strict_order_lets_nobody_pass_the_blocked_head() -> None:
    """In a StrictFIFO queue small work waits behind large; in another one it doesn't."""
    hall = a_hall(a_queue("strict", 4, strategy="StrictFIFO"), a_queue("open", 4))
    for name in ("strict", "open"):
        first = hall.submit(TWO, queue=name)
        hall.submit(FOUR, queue=name)
        small = hall.submit(ONE, queue=name)
        started = hall.settle()
        assert first in started
        assert (small in started) == (name == "open")
        if name == "strict":
            assert hall.told(small) == ["queue_strict"]


def test_a_blocked_strict_head_keeps_its_quota_from_the_cohort() -> None:
    """What it has of its own isn't lent meanwhile; the stream of others would take it for ever."""
    hall = a_hall(
        a_queue("strict", 4, cohort="all", strategy="StrictFIFO"), a_queue("b", 0, cohort="all")
    )
    running = hall.submit(TWO, queue="strict")
    hall.settle()
    head = hall.submit(FOUR, queue="strict")
    other = hall.submit(ONE, queue="b")
    assert hall.settle() == []
    hall.end(running)
    assert hall.settle() == [head]
    assert hall.told(other) == ["queue_quota"]


def test_a_head_that_was_passed_for_long_is_not_starved_of_quota() -> None:
    """Small work streams past it for ten minutes; then quota is kept for it."""
    hall = a_hall(a_queue("team", 4))
    small = [hall.submit(ONE, queue="team") for _ in range(4)]
    hall.settle()
    large = hall.submit(FOUR, queue="team")
    running = list(small)
    for _ in range(40):
        hall.now_ms += 30_000
        hall.end(running.pop(0))
        hall.submit(ONE, queue="team")
        running += hall.settle()
        if large in running:
            break
        if not running:
            break
    assert large in hall.running()
    waited = hall.workload(large).runs[-1].planned_ms - hall.workload(large).submitted_ms
    assert OVERTAKEN_MS <= waited <= OVERTAKEN_MS + 5 * 30_000


def test_quota_below_usage_and_a_deleted_queue_end_nothing() -> None:
    """What runs goes on; nothing more is admitted until there is room again."""
    hall = a_hall(a_queue("team", 4))
    keys = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    hall.apply(queueing(a_queue("team", 2)))
    late = hall.submit(ONE, queue="team")
    assert hall.settle() == []
    assert sorted(hall.running()) == keys
    hall.end(keys[0])
    assert hall.settle() == []
    hall.end(keys[1])
    assert hall.settle() == [late]


def test_fair_sharing_lets_the_queue_go_first_that_borrows_least() -> None:
    """Both want everything; each gets half, though one came first with all its work."""
    hall = a_hall(
        a_queue("a", 0, cohort="all"), a_queue("b", 0, cohort="all"), a_queue("c", 8, cohort="all"),
        fair=True,
    )  # fmt: skip
    first = [hall.submit(ONE, queue="a") for _ in range(8)]
    second = [hall.submit(ONE, queue="b") for _ in range(8)]
    started = hall.settle()
    assert len([key for key in started if key in first]) == 4
    assert len([key for key in started if key in second]) == 4
