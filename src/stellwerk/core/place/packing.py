"""Which of a cluster's nodes a replica gets: the one where it spoils the least for what comes next.

What comes next is taken to be like what was asked for so far (the *mix*). Of a node's free GPU
memory, the part counts as *usable* that shapes of the mix could still take, each as often as its
memory and CPUs last. A replica goes where the usable part shrinks least; where that is equal, to
the tightest node. Nodes that are in the same state are one, so a question costs what changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from stellwerk.core.model.cluster import Device
from stellwerk.core.model.resources import Allocation, GpuRequest, NodeAllocation, Request
from stellwerk.core.place.node import SCREEN_BYTES, NodeRoom, right_kind, share_bytes

MOST_SHAPES = 32
"""The commonest shapes of the mix that count; more of them change nothing that was measured."""

PARTS = 1000
"""The weights of a mix sum up to about this much; a card is as many parts of usable memory."""

STRETCH = (2, 3)
"""How much of its CPUs and memory the next of a shape is counted with: two thirds.

What comes is never all of one shape. Counted in full, each shape would see CPUs run out for it that
smaller ones leave over, and too much would be given to keep them."""

Card = tuple[int, int, int, str, str]
"""A device: bytes free, bytes that no run holds, bytes in all, kind, vendor."""

State = tuple[int, int, int, tuple[Card, ...]]
"""All that counts of a node: milli-CPUs, bytes of memory and of disk, cards with the fullest first.

Two nodes in the same state differ in name alone."""

Mix = tuple[tuple[Request, int], ...]
"""Shapes with GPUs that were asked for, each with its weight."""

Key = tuple[bool, int, int, State]


def state_of(node: NodeRoom) -> State:
    """Gives the state that a node is in."""
    left = node.device_bytes
    cards = [
        (left[d.index] - d.foreign_bytes, left[d.index], d.memory_bytes, d.kind, d.vendor)
        for d in node.node.devices
    ]
    cards.sort()
    return (node.cpus_milli, node.memory_bytes, node.disk_bytes, tuple(cards))


def mix_of(nodes: Mapping[str, NodeRoom], allocations: Iterable[Allocation]) -> Mix:
    """Gives the mix that runs hold. What has ended counts no more, so it follows what is asked."""
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for allocation in allocations:
        for part in allocation.nodes:
            node = nodes.get(part.node)
            if part.devices and node is not None:
                counts[_held(node, part)] += 1
    return weighed(
        {
            Request(
                cpus_milli=cpus,
                memory_bytes=memory,
                gpu=GpuRequest(count=cards, share_bytes=share),
            ): times
            for (cpus, memory, cards, share), times in counts.items()
        }
    )


def _held(node: NodeRoom, part: NodeAllocation) -> tuple[int, int, int, int]:
    first = part.devices[0]
    sizes = [d.memory_bytes for d in node.node.devices if d.index == first.index]
    share = 0 if sizes == [first.memory_bytes] else first.memory_bytes
    return (part.cpus_milli, part.memory_bytes, len(part.devices), share)


def weighed(counts: Mapping[Request, int]) -> Mix:
    """Turns how often each request was made into weights of the commonest with GPUs."""
    asked = [(times, _told(one), one) for one, times in counts.items() if one.gpu and times > 0]
    asked.sort(key=lambda one: (-one[0], one[1]))
    del asked[MOST_SHAPES:]
    total = sum(times for times, _, _ in asked)
    weights = ((one, times * PARTS // total) for times, _, one in asked)
    return tuple((one, weight) for one, weight in weights if weight)


def _told(one: Request) -> tuple[int | str, ...]:
    gpu = one.gpu or GpuRequest(0)
    return (
        one.cpus_milli,
        one.memory_bytes,
        one.disk_bytes,
        gpu.count,
        gpu.share_bytes,
        gpu.fraction_milli,
        gpu.memory_min_bytes,
        gpu.memory_exact_bytes,
        gpu.kind,
        gpu.vendor,
    )


class Scores:
    """What states are worth under one mix; remembered, since nodes are often in the same state."""

    __slots__ = ("_free", "_given", "_mix", "_shares", "_usable", "_worth")

    def __init__(self, mix: Mix) -> None:
        self._mix = [(one, one.gpu, weight) for one, weight in mix if one.gpu is not None]
        self._shares: dict[tuple[GpuRequest, int, str, str], int] = {}
        self._given: dict[tuple[GpuRequest, tuple[Card, ...]], tuple[Card, ...] | None] = {}
        self._worth: dict[tuple[Card, ...], _Worth] = {}
        self._usable: dict[tuple[int, int, tuple[Card, ...]], int] = {}
        self._free: dict[tuple[Card, ...], int] = {}

    def key(self, request: Request, state: State) -> Key | None:
        """Gives what a request is ordered by on a node in this state; None where it doesn't fit.

        Work without devices stays off the nodes that have some. Then comes what gets useless, then
        the tightest room: the least device memory, CPUs, memory.
        """
        after = self.after(request, state)
        if after is None:
            return None
        cards = state[3]
        lost = self.usable(state) - self.usable(after) if cards else 0
        left = self._free.get(cards)
        if left is None:
            left = self._free[cards] = sum(card[1] for card in cards)
        return (request.gpu is None and bool(cards), lost, left, state)

    def after(self, request: Request, state: State) -> State | None:
        """Gives the state of a node when a replica was put on it; None where it doesn't fit."""
        cpus, memory, disk, cards = state
        cpus -= request.cpus_milli
        memory -= request.memory_bytes
        disk -= request.disk_bytes
        if (cpus < 0 and request.cpus_milli) or (memory < 0 and request.memory_bytes):
            return None
        if disk < 0 and request.disk_bytes:
            return None
        if request.gpu is None:
            return (cpus, memory, disk, cards)
        asked = (request.gpu, cards)
        if asked not in self._given:
            self._given[asked] = self._without(request.gpu, cards)
        given = self._given[asked]
        return None if given is None else (cpus, memory, disk, given)

    def _without(self, gpu: GpuRequest, cards: tuple[Card, ...]) -> tuple[Card, ...] | None:
        wanted = gpu.count
        after = list(cards)
        for at, card in enumerate(cards):
            share = self._share(gpu, card)
            if wanted and share >= 0:
                free, left, *what = card
                after[at] = (free - share, left - share, *what)  # type: ignore[assignment]
                wanted -= 1
        if wanted:
            return None
        after.sort()
        return tuple(after)

    def _share(self, gpu: GpuRequest, card: Card) -> int:
        """What a request takes of a card; below zero where the card can't serve it now."""
        free, left, size, kind, vendor = card
        asked = (gpu, size, kind, vendor)
        share = self._shares.get(asked)
        if share is None:
            device = Device(0, kind, size, vendor=vendor)
            share = share_bytes(device, gpu) if right_kind(device, gpu) else -1
            self._shares[asked] = share
        if gpu.shares:
            return share if share <= free else -1
        return share if left == size and left - free <= SCREEN_BYTES else -1

    def usable(self, state: State) -> int:
        """Gives how much of the free device memory the mix could still take, in weighted parts."""
        cpus, memory, _, cards = state
        asked = (cpus, memory, cards)
        known = self._usable.get(asked)
        if known is None:
            worth = self._worth.get(cards)
            if worth is None:
                worth = self._worth[cards] = _Worth(self, cards)
            known = self._usable[asked] = worth.with_room(cpus, memory)
        return known

    def free(self, state: State) -> int:
        """Gives all of a node's free device memory, in the same weighted parts as ``usable``."""
        weights = sum(weight for _, _, weight in self._mix)
        cards = state[3]
        return weights * sum(max(free, 0) * PARTS // size for free, _, size, *_ in cards if size)

    def takers(self, cards: tuple[Card, ...]) -> Iterable[tuple[int, int, Request]]:
        """Gives for each shape of the mix what it could take of the cards, and how often."""
        for one, gpu, weight in self._mix:
            parts = times = able = 0
            for card in cards:
                share = self._share(gpu, card)
                if share >= 0:
                    free, _, size, *_ = card
                    able += 1
                    times += free // share if gpu.shares and share else 1
                    parts += min(free * PARTS // size, PARTS) if gpu.shares else PARTS
            if able >= gpu.count > 0:
                yield weight * parts, max(times // gpu.count, 1), one


class _Worth:
    """What cards are worth at most, and with how many CPUs and how much memory beside them."""

    __slots__ = ("_cpus", "_memory", "_most", "_takers")

    def __init__(self, scores: Scores, cards: tuple[Card, ...]) -> None:
        counted, of = STRETCH
        self._takers = [
            (
                worth,
                one.cpus_milli,
                one.memory_bytes,
                -(-one.cpus_milli * times * counted // of),
                -(-one.memory_bytes * times * counted // of),
            )
            for worth, times, one in scores.takers(cards)
        ]
        self._most = sum(one[0] for one in self._takers)
        self._cpus = max((max(one[1], one[3]) for one in self._takers), default=0)
        self._memory = max((max(one[2], one[4]) for one in self._takers), default=0)

    def with_room(self, cpus: int, memory: int) -> int:
        """Gives what the cards are worth beside so many CPUs and so much memory."""
        if cpus >= self._cpus and memory >= self._memory:
            return self._most
        usable = 0
        for worth, least_cpus, least_memory, all_cpus, all_memory in self._takers:
            if (cpus < least_cpus and least_cpus) or (memory < least_memory and least_memory):
                continue
            part = worth
            if cpus < all_cpus:
                part = worth * cpus // all_cpus
            if memory < all_memory:
                part = min(part, worth * memory // all_memory)
            usable += part
        return usable


class _Asked:
    """The states that could hold a request, best first, as far as the log had been read."""

    __slots__ = ("heap", "seen")

    def __init__(self) -> None:
        self.heap: list[Key] = []
        self.seen = 0


class Packing:
    """The ready nodes of a room by state, and for each request that was made the best of them."""

    __slots__ = ("_asked", "_at", "_log", "_names", "scores")

    def __init__(self, nodes: Iterable[NodeRoom], scores: Scores) -> None:
        self.scores = scores
        self._at: dict[str, State] = {}
        self._names: dict[State, list[str]] = {}
        self._log: list[State] = []
        self._asked: dict[Request, _Asked] = {}
        for node in nodes:
            if node.node.state == "ready":
                self._enter(node.node.name, state_of(node))

    def copy(self) -> Packing:
        """Gives the same order, to be changed on its own."""
        twin = Packing((), self.scores)
        twin._at = self._at.copy()
        twin._names = {state: names.copy() for state, names in self._names.items() if names}
        twin._log = self._log.copy()
        for request, asked in self._asked.items():
            known = twin._asked[request] = _Asked()
            known.heap, known.seen = asked.heap.copy(), asked.seen
        return twin

    def moved(self, node: NodeRoom) -> None:
        """Takes note that what is free on a node has changed."""
        name = node.node.name
        before = self._at.get(name)
        if before is not None and before != (now := state_of(node)):
            names = self._names[before]
            del names[bisect_left(names, name)]
            self._enter(name, now)

    def _enter(self, name: str, state: State) -> None:
        self._at[name] = state
        names = self._names.setdefault(state, [])
        if not names:
            self._log.append(state)
        insort(names, name)

    def best(self, request: Request, most: int) -> list[str]:
        """Gives up to ``most`` nodes for a replica each, the best first."""
        asked = self._asked.get(request)
        if asked is None:
            asked = self._asked[request] = _Asked()
        heap, names = asked.heap, self._names
        for state in self._log[asked.seen :]:
            if names.get(state):
                key = self.scores.key(request, state)
                if key is not None:
                    heappush(heap, key)
        asked.seen = len(self._log)
        found: list[str] = []
        seen: list[Key] = []
        while heap and len(found) < most:
            key = heappop(heap)
            there = names.get(key[3])
            if there and not (seen and seen[-1] == key):
                found.extend(there[: most - len(found)])
                seen.append(key)
        for key in seen:
            heappush(heap, key)
        return found


def usable_after(
    nodes: Iterable[NodeRoom], packing: Packing, request: Request, num_nodes: int
) -> float:
    """Gives the part of the free device memory (0..1) that the mix could use after a placement.

    1 where nothing is left to be useless; nothing is placed where the request doesn't fit.
    """
    scores = packing.scores
    chosen = dict.fromkeys(packing.best(request, num_nodes), True)
    usable = free = 0
    for node in nodes:
        if node.node.state != "ready":
            continue
        state = state_of(node)
        if node.node.name in chosen and len(chosen) == num_nodes:
            state = scores.after(request, state) or state
        usable += scores.usable(state)
        free += scores.free(state)
    return min(usable / free, 1.0) if free else 1.0
