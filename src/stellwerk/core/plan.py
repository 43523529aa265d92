"""``plan(view) -> Plan``: what to start and stop now, and why the rest waits. Pure.

A cycle keeps first what was promised before, and then looks at the waiting in the order of their
queues. What fits starts. What doesn't may stop others, where that lets it start; else it waits, and
others pass into the room that is left, but only until it has waited ``OVERTAKEN_MS`` since it was
queued: from then on what it needs is kept for it on the nodes nearest to having it, so that large
work isn't starved by small. What is kept leaves to others what it doesn't need, and what is over
before it could use it.
"""

from functools import partial

from msgspec.structs import replace

from stellwerk.core.model.actions import Action, ClaimRoom, Plan, StartRun, StopRun
from stellwerk.core.model.decisions import Candidate
from stellwerk.core.model.holding import Claim
from stellwerk.core.place.aging import Rising
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.by_flavor import ByFlavor, unbound
from stellwerk.core.place.closures import opened
from stellwerk.core.place.cycle import KEPT_AT_ONCE, OVERTAKEN_MS, Cycle, Lenders
from stellwerk.core.place.decide import chosen, rank
from stellwerk.core.place.fewer import at_least, fits_in, most_of
from stellwerk.core.place.found import Found
from stellwerk.core.place.limited import charged
from stellwerk.core.place.preempting import is_free, promise
from stellwerk.core.place.quotas import NOT_BOUND, Placed, Quotas
from stellwerk.core.place.rooms import Memory
from stellwerk.core.place.turns import turns_of
from stellwerk.core.queue.entries import QueueState
from stellwerk.core.queue.quota import Door
from stellwerk.core.view import ClaimView, Head, ShapeView, View

__all__ = ["KEPT_AT_ONCE", "OVERTAKEN_MS", "STARTS_PER_CYCLE", "plan", "starts"]

STARTS_PER_CYCLE = 256


def plan(view: View, memory: Memory | None = None) -> Plan:
    """Plans one cycle on an immutable view; planning its own result again gives nothing new.

    ``memory`` is what an earlier call found; it saves work and changes no result.
    """
    cycle = Cycle(view, Memory() if memory is None else memory)
    complete = _go_through(cycle)
    told, decisions = cycle.told()
    stops: list[Action] = [
        StopRun(stop.workload, stop.version, stop.run, "cancel", stop.grace_ms)
        for stop in view.stops
    ]
    return Plan(
        actions=(*stops, *cycle.actions, *told),
        decisions=(*cycle.decisions, *decisions),
        wake_at_ms=cycle.wake_at_ms(),
        complete=complete,
    )


def starts(view: View, memory: Memory) -> tuple[list[StartRun | ClaimRoom], int]:
    """Plans starts and promises of one cycle alone, for looking ahead; with when to look again."""
    cycle = Cycle(view, memory)
    _go_through(cycle)
    acted = [one for one in cycle.actions if isinstance(one, StartRun | ClaimRoom)]
    return acted, cycle.wake_at_ms()


def _go_through(cycle: Cycle) -> bool:
    """Plans all that can be; whether nothing is left that another cycle could start."""
    cycle.drain()
    for one in cycle.view.claims:
        _keep_promise(cycle, one)
    cycle.reserve()
    rising = Rising(cycle.view, cycle.quotas)
    cycle.rest(steady=not rising.any)
    shapes = rising.shapes(cycle.memory) if rising.any else cycle.view.shapes
    cycle.view = replace(cycle.view, shapes=shapes)
    turns, more = turns_of(shapes, cycle.quotas, rising.risen), False
    while turns and cycle.starts < STARTS_PER_CYCLE:
        i, at = turns.next()
        shape = shapes[i]
        done = _consider(cycle, shape.heads[at], shape)
        then = at + 1 if done else cycle.keeping.next_own(shape, at)
        if then >= len(shape.heads):
            more = more or (done and then < shape.count)
            then = 0
        turns.done(then)
    return not turns and not more and not cycle.again


def _keep_promise(cycle: Cycle, one: ClaimView) -> None:
    """Starts who was promised a place that is free now; who can't have it waits as before."""
    quotas, claim, cluster = cycle.quotas, one.claim, one.claim.allocation.cluster
    queue = quotas.open_queue(one.shape.shape, claim) if quotas is not None else None
    room = cycle.by_name.get(cluster)
    cycle.claimed[one.id] = None
    if (
        quotas is None
        or queue is None
        or room is None
        or one.broken
        or quotas.quota.checks_of(queue, claim.holding) != claim.checks
    ):
        cycle.take_back(one)
    elif one.live:
        cycle.count(queue, one.name, claim)
        cycle.promises += 1
        cycle.promised[one.shape.id] = one.live
    elif one.checks:
        cycle.count(queue, one.name, claim)
        cycle.ask(one.shape, claim, one.checks)
    elif (
        quotas.quota.fits(queue, claim.holding.usage)
        and is_free(room, claim.allocation)
        and cycle.bounded.lets(one.shape.shape, one.shape.id, claim.allocation)
        and (given := cycle.keeping.in_window(one.shape.heads[0], claim.allocation)) is not None
    ):
        found = [Found(Candidate(cluster, claim.allocation.alternative, "fits"))]
        said = quotas.said(queue, one.shape)
        decided = chosen(found, [0], cycle.inputs(one.shape.id), said)
        decided = replace(decided, allocation=given)
        cycle.start(one.shape.heads[0], one.shape, decided, claim.holding)
        quotas.take(queue, claim.holding)
    else:
        cycle.take_back(one)


def _consider(cycle: Cycle, head: Head, shape: ShapeView) -> bool:
    """Plans the start of a workload, or finds that it must wait; whether the next of its shape may
    be looked at.
    """
    quotas = cycle.quotas
    door = quotas.door(shape.shape) if quotas is not None else None
    if quotas is None or door is None:
        return _start_unbound(cycle, head, shape)
    queue = door.queue
    if head.id in cycle.claimed:
        cycle.drowsy.stirs(queue)
        cycle.blocked[shape.id] = None
        return True
    if queue is None or _is_closed(quotas, door, shape):
        if queue is not None and door.reason is None:
            cycle.drowsy.saw(queue, shape, still=True)
        cycle.blocked[shape.id] = None
        return False
    if _start_or_promise(cycle, quotas, queue, head, shape):
        cycle.drowsy.stirs(queue)
        return True
    cycle.drowsy.saw(queue, shape, still=quotas.is_short(queue, head, shape.id))
    _wait(cycle, quotas, queue, head, shape)
    return False


def _start_unbound(cycle: Cycle, head: Head, shape: ShapeView) -> bool:
    """Starts work that no quota binds, or keeps room for it."""
    bounded = unbound(cycle.anywhere, shape.shape)
    for rooms, whose in cycle.keeping.ways(head, shape, cycle.rooms):
        if rooms is None and cycle.is_known_to_wait(shape.id):
            continue
        there = bounded
        if rooms is not None:
            there = unbound(ByFlavor(cycle.bounded.on(rooms)), shape.shape)
        size = most_of(shape, partial(fits_in, there))
        if size is not None:
            _start(cycle, head, shape, size[0], there, whose)
            return True
    cycle.block(shape)
    cycle.keep_room(head, shape, bounded)
    return False


def _start(
    cycle: Cycle,
    head: Head,
    shape: ShapeView,
    sized: ShapeView,
    bounded: Bounded,
    lenders: Lenders | None,
) -> None:
    found = bounded.candidates(sized.shape, sized.id)
    said = NOT_BOUND if cycle.quotas is not None else None
    decided = chosen(found, rank(found), cycle.inputs(shape.id), said)
    cycle.start(head, shape, decided, None, lenders)


def _is_closed(quotas: Quotas, door: Door, shape: ShapeView) -> bool:
    """Whether its queue takes nothing in, or lets nobody pass the one before it."""
    if door.queue is None or door.reason is not None:
        return True
    first = quotas.closed.get(door.queue.name)
    if first is not None:
        quotas.behind[shape.id] = first
    return first is not None


def _start_or_promise(
    cycle: Cycle, quotas: Quotas, queue: QueueState, head: Head, shape: ShapeView
) -> bool:
    """Starts it where there are quota and room, or stops others for it where that helps."""
    cycle.searched[shape.id] = None
    lenders = cycle.keeping.lenders(head, shape.shape.queue)
    names = [(name, *(one.id for one in kept)) for name, kept in lenders.items()]
    room_state = hash((cycle.room_state, *names)) if names else cycle.room_state
    if quotas.is_known(queue, head, shape.id, room_state):
        return False
    for rooms, whose in cycle.keeping.ways(head, shape, cycle.rooms, lenders):
        there = cycle.bounded.on(rooms) if rooms is not None else None
        size = most_of(shape, partial(quotas.place, queue, bounded=there))
        if size is not None:
            _start_bound(cycle, quotas, queue, head, shape, size[1], whose)
            return True
    may_promise = cycle.promises < cycle.view.limits.promises
    if may_promise and _promise(cycle, quotas, queue, head, shape, opened(lenders)):
        return True
    quotas.note(queue, head, shape.id, room_state)
    return False


def _start_bound(
    cycle: Cycle,
    quotas: Quotas,
    queue: QueueState,
    head: Head,
    shape: ShapeView,
    placed: Placed,
    lenders: Lenders | None,
) -> None:
    """Starts it; or, where checks must agree first, gives it its quota and place."""
    sized = placed.shape
    found = placed.only(placed.bounded.candidates(sized.shape, sized.id))
    ranked = rank(found)
    found += quotas.not_of(placed)
    decided = chosen(found, ranked, cycle.inputs(shape.id), quotas.said(queue, sized))
    holding = placed.option(decided.allocation.alternative).holding(queue.name)
    checks = quotas.quota.checks_of(queue, holding)
    if not checks:
        cycle.start(head, shape, decided, holding, lenders)
        quotas.take(queue, holding, shape.shape)
        return
    claim = Claim(charged(decided.allocation, shape.shape), holding, checks=checks)
    cycle.decisions.append(decided.decision)
    cycle.claim(queue, head, claim)
    cycle.ask(shape, claim, checks)
    cycle.blocked[shape.id] = None
    cycle.starts += 1


def _promise(
    cycle: Cycle,
    quotas: Quotas,
    queue: QueueState,
    head: Head,
    shape: ShapeView,
    still_open: Lenders,
) -> bool:
    """Stops others for a workload, if it then really starts; also where it is over, or can be
    stopped, before a window closes.
    """
    inputs, least = cycle.inputs(shape.id), at_least(shape)
    lent = None
    if still_open:
        lent = ByFlavor(cycle.bounded.on(cycle.keeping.lent(cycle.rooms, still_open)))
    found = promise(quotas, queue, head, shape, inputs, cycle.churn, lent)
    if found is None and least is not None:
        found = promise(quotas, queue, head, least, inputs, cycle.churn, lent)
    if found is None:
        return False
    cycle.claim(queue, head, found.claim, found.stops)
    cycle.promised[shape.id] = tuple(quotas.quota.held[one.workload].name for one in found.stops)
    cycle.blocked[shape.id] = None
    cycle.promises += 1
    return True


def _wait(cycle: Cycle, quotas: Quotas, queue: QueueState, head: Head, shape: ShapeView) -> None:
    """Keeps quota and room for one that others have passed for long enough."""
    cycle.blocked[shape.id] = None
    overtaken = cycle.is_overtaken(head)
    allowed = quotas.wheres(queue, shape)[:1] if overtaken else []
    if quotas.keep(queue, shape, overtaken=overtaken):
        for where in allowed:
            cycle.keep_room(head, shape, quotas.by_flavor.bounded(where))
    if queue.spec.strategy == "StrictFIFO":
        quotas.closed[queue.name] = head.name
