"""Properties of live preemption: no victim without need, promises are kept, and it ends."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stellwerk.core.model.actions import Action, ClaimRoom, StartRun
from stellwerk.core.model.holding import Claim
from stellwerk.core.model.ids import RunId, WorkloadId, workload_of
from stellwerk.core.model.limits import LEAST_RUN_MS
from stellwerk.core.model.queueing import ClusterQueue, Preemption
from stellwerk.core.model.workload import RunEnd, Workload
from stellwerk.core.place.room import Room, fit
from stellwerk.core.plan import OVERTAKEN_MS
from stellwerk.core.queue.tree import QuotaTree
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, limited, queueing

STOPPED = RunEnd(how="signaled", signal=15, put_back=True, new_checkpoint=True)
NAMES = ("a", "b", "c")
ROUNDS = 40
RULES = st.builds(
    Preemption,
    within=st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
    reclaim=st.sampled_from(("Never", "LowerPriority", "Any")),
    borrow=st.sampled_from(("Never", "LowerPriority")),
)
QUOTAS = st.builds(limited, st.integers(0, 4), st.none() | st.integers(0, 4))
JOBS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(1, 4), st.integers(0, 2)), min_size=3, max_size=9
)


@st.composite
def queues(draw: st.DrawFn) -> list[ClusterQueue]:
    """Three queues of one cohort."""
    return [a_queue(name, draw(QUOTAS), cohort="all", preemption=draw(RULES)) for name in NAMES]


def a_hall(given_queues: list[ClusterQueue], *, fair: bool) -> Hall:
    """A machine of four CPUs and one of five, and these queues."""
    hall = Hall(
        a_cluster("four", a_node("four", cpus=4)), a_cluster("five", a_node("five", cpus=5))
    )
    hall.apply(queueing(*given_queues, fair=fair))
    return hall


def submit(hall: Hall, jobs: list[tuple[str, int, int]]) -> None:
    """Submits these."""
    for name, cpus, priority in jobs:
        hall.submit(a_shape(a_request(cpus=cpus)), queue=name, priority=priority)


def begin(hall: Hall) -> None:
    """All that is planned is seen to run, long enough that it may be stopped."""
    for key in hall.running():
        hall.seen(key)
    hall.now_ms += LEAST_RUN_MS


def would_do(
    hall: Hall, claim: Claim, others: list[Claim], gone: set[RunId], *, borrowing: bool = True
) -> bool:
    """Whether quota (its own alone, or borrowed) and a place are there if these runs were over."""
    state = hall.state
    objects = state.queueing.objects
    tree = QuotaTree(objects.queues, objects.cohorts)
    for key in state.quota.holders:
        run = state.workloads[key].live_run
        if run is not None and run.holding is not None and run.id not in gone:
            tree.queues[run.holding.queue].add(run.holding.usage)
    for other in others:
        tree.queues[other.holding.queue].add(other.holding.usage)
    node = tree.queues[claim.holding.queue]
    own = (node.nominal.get(p, 0) - node.usage.get(p, 0) for p in claim.holding.usage)
    if not borrowing and any(
        amount > free for amount, free in zip(claim.holding.usage.values(), own, strict=True)
    ):
        return False
    if any(amount > max(0, node.available(p)) for p, amount in claim.holding.usage.items()):
        return False
    request = a_request(cpus=claim.allocation.nodes[0].cpus_milli / 1000)
    for name, cluster in state.clusters.items():
        held = [one for run, one in state.allocations[name].items() if run not in gone]
        kept = [one.allocation for one in others if one.allocation.cluster == name]
        room = Room(cluster, held)
        for allocation in kept:
            room.take(allocation)
        if fit(room, request, 1) is not None:
            return True
    return False


def takes_back(hall: Hall, key: WorkloadId, claim: Claim, victims: set[RunId]) -> bool:
    """Whether its queue stops others' work that mustn't do so while it borrows: all of it, or what
    doesn't come after it.
    """
    objects = hall.state.queueing.objects
    [queue] = [one for one in objects.queues if one.name == claim.holding.queue]
    held = {one.run: one.holding.queue for one in hall.view().held}
    others = [one for one in victims if held[one] != queue.name]
    never = queue.preemption.borrow == "Never"
    mine = hall.workload(key).priority
    return any(never or hall.workload(workload_of(one)).priority >= mine for one in others)


def check_needs(hall: Hall, planned: tuple[Action, ...]) -> None:
    """Each set of victims is enough, and without any one of them it wouldn't be."""
    others = [
        one.claim
        for key in hall.state.quota.claims
        if (one := hall.workload(key)).claim is not None and one.claim is not None
    ]
    leaving = {
        run.id
        for key in hall.state.quota.holders
        if (run := hall.workload(key).live_run) is not None and run.notice
    }
    for action in planned:
        if isinstance(action, StartRun) and action.holding is not None:
            others.append(Claim(action.allocation, action.holding))
        if not isinstance(action, ClaimRoom):
            continue
        assert action.claim is not None
        victims = {stop.run for stop in action.stops}
        assert would_do(hall, action.claim, others, leaving | victims)
        for spared in victims:
            rest = victims - {spared}
            may_borrow = not takes_back(hall, action.workload, action.claim, rest)
            assert not would_do(hall, action.claim, others, leaving | rest, borrowing=may_borrow)
        others.append(action.claim)
        leaving |= victims


def play_round(hall: Hall) -> bool:
    """Plans, ends the victims, and sees those start that were promised a place; False = no more."""
    planned = hall.plan().actions
    heads = [head for shape in hall.view().shapes for head in shape.heads]
    aged = any(hall.now_ms - head.queued_ms >= OVERTAKEN_MS for head in heads)
    if not aged:
        check_needs(hall, planned)
    hall.cycle()
    promised = list(hall.state.quota.claims)
    victims: dict[WorkloadId, None] = {}
    for key in promised:
        claim = hall.workload(key).claim
        assert claim is not None
        victims.update((workload_of(run), None) for run in claim.victims)
    for key in victims:
        if hall.workload(key).live_run is not None:
            hall.end(key, STOPPED)
    hall.cycle()
    assert not hall.state.quota.claims or set(hall.state.quota.claims).isdisjoint(promised)
    assert set(promised) <= set(hall.running())
    hall.settle()
    return any(isinstance(one, ClaimRoom) for one in planned)


TAKES_BACK_WITHOUT_BORROWING = [
    a_queue("a", limited(1), cohort="all"),
    a_queue("b", limited(1), cohort="all"),
    a_queue(
        "c",
        limited(3),
        cohort="all",
        preemption=Preemption("LowerOrNewerEqualPriority", "Any", "LowerPriority"),
    ),
]


@settings(max_examples=25)
@example(
    TAKES_BACK_WITHOUT_BORROWING,
    [("a", 1, 0)] * 3,
    [("b", 2, 1), ("c", 2, 0), ("c", 1, 0), ("c", 1, 1)],
)
@given(queues(), JOBS, JOBS)
def test_no_victim_without_need_promises_are_kept_and_it_ends(
    given_queues: list[ClusterQueue],
    first: list[tuple[str, int, int]],
    second: list[tuple[str, int, int]],
) -> None:
    """Nothing ends by itself and nothing new comes: at some time nobody is stopped any more."""
    hall = a_hall(given_queues, fair=False)
    submit(hall, first)
    hall.settle()
    begin(hall)
    submit(hall, second)
    for _ in range(ROUNDS):
        if not play_round(hall):
            break
        begin(hall)
    else:
        raise AssertionError("they go on stopping each other")


def cpus_of(hall: Hall, workload: Workload) -> int:
    """What it asks for, in thousandths."""
    return hall.state.shapes[workload.shape].shape.alternatives[0].request.cpus_milli


def nominal_of(given_queues: list[ClusterQueue], name: str) -> int:
    """What a queue has of its own, in thousandths of a CPU."""
    [queue] = [one for one in given_queues if one.name == name]
    return queue.groups[0].flavors[0].quotas["cpu"].nominal


@settings(max_examples=8)
@given(queues(), JOBS)
def test_nobody_starves_where_everything_ends(
    given_queues: list[ClusterQueue], jobs: list[tuple[str, int, int]]
) -> None:
    """In a bounded world with a stream of small work, all that could ever run does.

    Who would have to borrow may be kept out for ever by a queue that uses no more than its own.
    """
    hall = a_hall([*given_queues, a_queue("lender", 4, cohort="all")], fair=True)
    submit(hall, jobs)
    for _ in range(ROUNDS):
        hall.settle()
        hall.submit(a_shape(a_request(cpus=1)), queue="lender", priority=9)
        hall.now_ms += LEAST_RUN_MS
        running = hall.running()
        for key in sorted(running)[: 1 + len(running) // 2]:
            run = hall.workload(key).runs[-1]
            hall.end(key, STOPPED if run.notice else RunEnd(how="exited", code=0))
    waiting = [one for one in hall.state.workloads.values() if one.queue != "lender"]
    for one in waiting:
        if one.phase == "Pending" and not one.claim:
            allowed = {"queue_exceeds", "never_fits"}
            if cpus_of(hall, one) > nominal_of(given_queues, one.queue):
                allowed.add("queue_quota")
            assert set(hall.told(one.id)) <= allowed, hall.told(one.id)
