"""What holds for every tree, every load and every order of the input."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    Pair,
    Preemption,
    QueuedWorkload,
    QueueObjects,
    QueueSettings,
    Quota,
    Reclaim,
    ResourceFlavor,
)
from stellwerk.core.model.selectors import Selector
from stellwerk.core.queue.cycle import cycle, decide
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.outcome import Outcome
from stellwerk.core.queue.settle import settle
from stellwerk.core.queue.tree import QuotaTree
from tests.core.queue.builders import NOW_MS, group, holds, queue, quota, waits

FLAVORS = ("std", "spot")
COHORTS = ("left", "right", "root")


@st.composite
def quotas(draw: st.DrawFn, *, limited: bool) -> Quota:
    """A quota; limits only where there is somebody to borrow from."""
    nominal = draw(st.integers(0, 8))
    if not limited:
        return quota(nominal)
    borrowing = draw(st.none() | st.integers(0, 8))
    lending = draw(st.none() | st.integers(0, nominal))
    return quota(nominal, borrowing, lending)


@st.composite
def worlds(draw: st.DrawFn) -> QueueObjects:
    """A tree of up to three cohorts with up to five queues, two flavors, any rules."""
    cohorts = [
        Cohort("left", "root", group(("std", draw(quotas(limited=True))))),
        Cohort("right", "root", weight=draw(st.sampled_from([0.0, 0.5, 1.0]))),
        Cohort("root", "", group(("std", draw(quotas(limited=False))))),
    ]
    queues = []
    for index in range(draw(st.integers(1, 5))):
        cohort = draw(st.sampled_from(("", *COHORTS)))
        listed = FLAVORS[: draw(st.integers(1, 2))]
        given_quotas = [(name, draw(quotas(limited=bool(cohort)))) for name in listed]
        reclaim: Reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
        queues.append(
            ClusterQueue(
                name=f"q{index}",
                groups=group(*given_quotas),
                cohort=cohort,
                strategy=draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"])),
                namespaces=Selector(),
                preemption=Preemption(
                    draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
                    reclaim,
                    draw(st.sampled_from(["Never", "LowerPriority"]))
                    if reclaim != "Never"
                    else "Never",
                ),
            )
        )
    return QueueObjects(
        flavors=tuple(ResourceFlavor(name) for name in FLAVORS),
        queues=tuple(queues),
        cohorts=tuple(cohorts),
        settings=QueueSettings(fair_sharing=draw(st.booleans())),
    )


@st.composite
def loads(draw: st.DrawFn, world: QueueObjects, most: int = 8) -> list[QueuedWorkload]:
    """Workloads that wait."""
    names = st.sampled_from([one.name for one in world.queues])
    return [
        waits(
            f"w{index}",
            draw(names),
            draw(st.integers(1, 10)),
            draw(st.integers(-1, 1)),
            draw(st.integers(0, 5)),
        )
        for index in range(draw(st.integers(0, most)))
    ]


@st.composite
def situations(draw: st.DrawFn) -> tuple[QueueObjects, Queues]:
    """A state in which some run already: what was settled on before others came."""
    world = draw(worlds())
    queues = Queues(world, now_ms=NOW_MS)
    for one in draw(loads(world)):
        queues.submit(one)
    settle(queues, NOW_MS - 1000, 30)
    for key in [key for key, one in queues.holders.items() if one.evicted]:
        queues.release(key)
    for index, one in enumerate(draw(loads(world))):
        renamed = holds(f"n{index}", one.cluster_queue, 1)
        queues.submit(
            QueuedWorkload(
                namespace="team",
                name=renamed.name,
                pod_sets=one.pod_sets,
                cluster_queue=one.cluster_queue,
                priority=one.priority,
                created_ms=one.created_ms,
                uid=renamed.name,
            )
        )
    return world, queues


def usage_of(queues: Queues) -> dict[str, dict[Pair, int]]:
    """Use by node, without zeros."""
    nodes = {**{f"c/{k}": v for k, v in queues.tree.cohorts.items()}, **queues.tree.queues}
    return {
        name: {pair: used for pair, used in node.usage.items() if used}
        for name, node in nodes.items()
    }


def within_limits(queues: Queues, *, but: tuple[str, ...] = ()) -> None:
    """No queue beyond nominal and borrowing limit, no tree beyond what it has.

    Those that are on their way out count as gone, and only trees in which no quota was taken back
    are looked at, so that what is held is what was decided.
    """
    tree = QuotaTree(queues.objects.queues, queues.objects.cohorts)
    for holder in queues.holders.values():
        if not holder.evicted and holder.key not in but:
            tree.queues[holder.queue.name].add(holder.usage)
    for node in (*tree.queues.values(), *tree.cohorts.values()):
        for pair, used in node.usage.items():
            limit = node.borrowing.get(pair)
            assert limit is None or used <= node.subtree.get(pair, 0) + limit, node.name
            assert node.parent is not None or used <= node.subtree.get(pair, 0), node.name


@given(situations())
@settings(max_examples=25, deadline=None)
def test_a_cycle_changes_nothing_and_keeps_every_limit(found: tuple[QueueObjects, Queues]) -> None:
    """Deciding leaves the state as it was; carrying it out leaves no level over its quota."""
    _, queues = found
    before = usage_of(queues)
    outcome = decide(queues, NOW_MS)
    assert usage_of(queues) == before
    assert told(decide(queues, NOW_MS)) == told(outcome)
    queues.apply(outcome, NOW_MS)
    within_limits(queues)
    waiting = {one.key for one in outcome.waits}
    assert waiting.isdisjoint(one.key for one in outcome.admitted)
    assert waiting <= set(queues.waiters)


def told(outcome: Outcome) -> tuple[Any, ...]:
    """An outcome that can be compared."""
    return outcome.admitted, outcome.evicted, outcome.waits


@given(situations())
@settings(max_examples=25, deadline=None)
def test_no_victim_without_need(found: tuple[QueueObjects, Queues]) -> None:
    """Who evicts has no room, has it when its victims are gone, and needs each of them."""
    _, queues = found
    outcome = decide(queues, NOW_MS)
    for waits_for in outcome.waits:
        if waits_for.why != "WaitingForPreemptedWorkloads":
            continue
        holders = [queues.holders[key] for key in waits_for.victims]
        assert fits(queues, waits_for.key, []) is False
        assert fits(queues, waits_for.key, holders)
        assert all(
            victim.evicted
            or not fits(queues, waits_for.key, [one for one in holders if one is not victim])
            for victim in holders
        )


def fits(queues: Queues, key: str, gone: list[Any]) -> bool:
    """Whether the flavors that a head was looked at with have room with those gone.

    A head may have chosen among two flavors, so it is enough that one of them has room.
    """
    waiter = queues.waiters[key]
    asked = sum(one.count * one.requests["cpu"] for one in waiter.workload.pod_sets)
    flavors = [one.flavor for group in waiter.queue.spec.groups for one in group.flavors]
    flavor = flavors[0] if len(flavors) == 1 else next(iter({
        pair.flavor for one in gone for pair in one.usage
    }), flavors[0])  # fmt: skip
    for one in gone:
        queues.world.drop(one)
    room = waiter.queue.node.available(Pair(flavor, "cpu"))
    for one in gone:
        queues.world.put(one)
    return asked <= room


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_input_means_nothing(data: st.DataObject) -> None:
    """Objects and workloads in another order: the same outcome."""
    world = data.draw(worlds())
    load = data.draw(loads(world))
    running = [
        holds(f"r{index}", one.cluster_queue, 1, age_s=100 + index)
        for index, one in enumerate(data.draw(loads(world, 4)))
    ]
    first = cycle(world, load, running, NOW_MS)
    shuffled = QueueObjects(
        flavors=tuple(data.draw(st.permutations(world.flavors))),
        queues=tuple(data.draw(st.permutations(world.queues))),
        cohorts=tuple(data.draw(st.permutations(world.cohorts))),
        settings=world.settings,
    )
    second = cycle(
        shuffled, data.draw(st.permutations(load)), data.draw(st.permutations(running)), NOW_MS
    )
    for name in ("admitted", "evicted", "waits"):
        assert sorted(getattr(first, name)) == sorted(getattr(second, name))


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_preemption_ends(data: st.DataObject) -> None:
    """Under classical rules, where nobody preempts while borrowing, it comes to an end."""
    world = data.draw(worlds())
    tame = tuple(
        replace(one, preemption=replace(one.preemption, borrow="Never")) for one in world.queues
    )
    plain = QueueObjects(flavors=world.flavors, queues=tame, cohorts=world.cohorts)
    queues = Queues(plain, now_ms=NOW_MS)
    for one in data.draw(loads(world)):
        queues.submit(one)
    found = settle(queues, NOW_MS, 500)
    assert found.settled
    within_limits(queues)


def test_two_may_evict_each_other_for_ever() -> None:
    """The reference's rules allow it where one preempts to borrow: it is stopped, and said.

    The victim borrows within its own cohort, the preemptor beyond it; so the victim comes first
    again as soon as both wait.
    """
    taking = Preemption("Never", "LowerPriority", "LowerPriority")
    borrower = queue("q0", 0, "right")
    world = QueueObjects(
        flavors=(ResourceFlavor("std"),),
        queues=(borrower, queue("q1", 2, "right", taking)),
        cohorts=(Cohort("right", "root"), Cohort("root", "", group(("std", quota(1))))),
    )
    queues = Queues(world, now_ms=NOW_MS)
    queues.submit(waits("wide", "q1", 3))
    queues.submit(waits("small", "q0", 1, priority=-1))
    found = settle(queues, NOW_MS, 50)
    assert not found.settled
    assert [one.key for _, one in found.evicted[:3]] == ["team/small"] * 3
    within_limits(queues)


@given(worlds(), st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=12))
@settings(max_examples=25, deadline=None)
def test_taking_away_undoes_adding(world: QueueObjects, uses: list[tuple[int, int]]) -> None:
    """In whatever order every node is left with what it had; a cohort has what its children say."""
    tree = QuotaTree(world.queues, world.cohorts)
    nodes = list(tree.queues.values())
    pair = Pair("std", "cpu")
    for index, amount in uses:
        nodes[index % len(nodes)].add({pair: amount * 1000})
        for cohort in tree.cohorts.values():
            beyond = (
                max(0, child.usage.get(pair, 0) - child.private.get(pair, 0))
                for child in cohort.children
            )
            assert cohort.usage.get(pair, 0) == sum(beyond)
    for index, amount in sorted(uses):
        nodes[index % len(nodes)].remove({pair: amount * 1000})
    every = (*tree.queues.values(), *tree.cohorts.values())
    assert all(not used for node in every for used in node.usage.values())
