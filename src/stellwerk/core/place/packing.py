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
from stellwerk.core.model.quantity import MIB
from stellwerk.core.model.resources import Allocation, GpuRequest, NodeAllocation, Request
from stellwerk.core.place.node import SCREEN_BYTES, NodeRoom, right_kind, share_bytes

MOST_SHAPES = 24
"""The commonest shapes of the mix that count; more of them change nothing that was measured."""

PARTS = 1000
"""The weights of a mix sum up to about this much; a card is as many parts of usable memory."""

STRETCH = (2, 3)
"""How much of its CPUs and memory the next of a shape is counted with: two thirds.

What comes is never all of one shape. Counted in full, each shape would see CPUs run out for it that
smaller ones leave over, and too much would be given to keep them."""

Card = tuple[int, int, int, str, str, tuple[int, int, bool, bool]]
"""A device: bytes free, bytes that no run holds, bytes that one could have, kind, vendor; and its
bytes in all, how many more may share it (`ANY` number, or who has it has it `ALONE`), whether it
is a slice of a card, and whether its memory is that of the node."""

ANY, ALONE = -1, -2


class Cards:
    """The cards of a node, the fullest first, with what is known of them under one mix.

    Equal cards are one object (``Scores.cards``), so that comparing them costs nothing.
    """

    __slots__ = ("cards", "given", "left", "usable", "worth")

    def __init__(self, cards: tuple[Card, ...]) -> None:
        self.cards = cards
        self.left = sum(card[1] for card in cards)
        self.worth: list[Worth] | None = None
        self.usable: dict[tuple[int, int], int] = {}
        self.given: dict[GpuRequest, tuple[Cards, int] | None] = {}

    def __lt__(self, other: Cards) -> bool:
        return self.cards < other.cards


State = tuple[int, int, int, Cards]
"""All that counts of a node: milli-CPUs, bytes of memory and of disk, cards.

Two nodes in the same state differ in name alone."""

Mix = tuple[tuple[Request, int], ...]
"""Shapes with GPUs that were asked for, each with its weight."""

Worth = tuple[int, int, int, int, int]
"""What a shape could take of some cards, in weighted parts; the least CPUs and memory (MiB) that it
takes to have any of it, and those beside which all of it could be had."""

Key = tuple[bool, int, int, State]


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
    sizes = [d.usable_bytes for d in node.node.devices if d.index == first.index]
    share = 0 if sizes and sizes[0] <= first.memory_bytes else first.memory_bytes
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

    __slots__ = ("_asks", "_known", "_mix", "_shares", "_ways")

    def __init__(self, mix: Mix) -> None:
        asked = [(one, weight, one.gpu) for one, weight in mix if one.gpu is not None]
        self._asks = list(dict.fromkeys(gpu for _, _, gpu in asked))
        at = {gpu: 3 * number for number, gpu in enumerate(self._asks)}
        self._mix = [(one, weight, at[gpu]) for one, weight, gpu in asked]
        self._known: dict[tuple[Card, ...], Cards] = {}
        self._ways: dict[Card, list[int]] = {}
        self._shares: dict[tuple[GpuRequest, int, str, str, int, bool], int] = {}

    def state_of(self, node: NodeRoom) -> State:
        """Gives the state that a node is in."""
        left, jobs, most = node.device_bytes, node.device_jobs, node.most_jobs
        cards = [
            # A byte less than all marks a card on which somebody computes: it is whole no more.
            (
                left[d.index] - d.foreign_bytes,
                left[d.index] - d.foreign_compute,
                d.usable_bytes,
                d.kind,
                d.vendor,
                (
                    d.memory_bytes,
                    ALONE if most == 1 else max(most - jobs.get(d.index, 0), 0) if most else ANY,
                    d.part_of >= 0,
                    d.unified,
                ),
            )
            for d in node.node.devices
        ]
        return (node.cpus_milli, node.memory_bytes, node.disk_bytes, self.cards(cards))

    def cards(self, cards: list[Card]) -> Cards:
        """Gives the one object for these cards."""
        cards.sort()
        key = tuple(cards)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Cards(key)
        return known

    def key(self, request: Request, state: State) -> Key | None:
        """Gives what a request is ordered by on a node in this state; None where it doesn't fit.

        Work without devices stays off the nodes that have some. Then comes what gets useless, then
        the tightest room: the least device memory, CPUs, memory.
        """
        after = self.after(request, state)
        if after is None:
            return None
        cards = state[3]
        if not cards.cards:
            return (False, 0, 0, state)
        return (request.gpu is None, self.usable(state) - self.usable(after), cards.left, state)

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
        gpu = request.gpu
        if gpu is None:
            return (cpus, memory, disk, cards)
        if gpu not in cards.given:
            cards.given[gpu] = self._without(gpu, cards)
        given = cards.given[gpu]
        if given is None:
            return None
        left, from_memory = given
        if from_memory and from_memory > memory:
            return None
        return (cpus, memory - from_memory, disk, left)

    def _without(self, gpu: GpuRequest, cards: Cards) -> tuple[Cards, int] | None:
        """What is left of cards, and what was taken of the node's memory for shares of them."""
        wanted, from_memory = gpu.count, 0
        after = list(cards.cards)
        for at, card in enumerate(cards.cards):
            share = self._share(gpu, card)
            if wanted and share >= 0:
                free, left, size, kind, vendor, (total, places, part, unified) = card
                rest = (total, max(places - 1, 0) if places >= 0 else places, part, unified)
                after[at] = (free - share, left - share, size, kind, vendor, rest)
                from_memory += share if unified and share < size else 0
                wanted -= 1
        return None if wanted else (self.cards(after), from_memory)

    def _share(self, gpu: GpuRequest, card: Card) -> int:
        """What a request takes of a card; below zero where the card can't serve it now."""
        free, left, size, kind, vendor, (total, places, part, _) = card
        asked = (gpu, size, kind, vendor, total, part)
        share = self._shares.get(asked)
        if share is None:
            device = Device(
                0, kind, total, vendor=vendor, reserved_bytes=total - size, part_of=part - 1
            )
            share = share_bytes(device, gpu) if right_kind(device, gpu) else -1
            self._shares[asked] = share
        if gpu.shares and places != ALONE:
            return share if share <= free and places else -1
        if gpu.shares and share > free:
            return -1
        return share if left == size and left - free <= SCREEN_BYTES else -1

    def usable(self, state: State) -> int:
        """Gives how much of the free device memory the mix could still take, in weighted parts."""
        cpus, memory, _, cards = state
        known = cards.usable.get((cpus, memory))
        if known is None:
            if cards.worth is None:
                cards.worth = self.worth(cards.cards)
            known = cards.usable[cpus, memory] = _with_room(cards.worth, cpus, memory // MIB)
        return known

    def free(self, state: State) -> int:
        """Gives all of a node's free device memory, in the same weighted parts as ``usable``."""
        weights = sum(weight for _, weight, _ in self._mix)
        return weights * sum(
            max(free, 0) * PARTS // size for free, _, size, *_ in state[3].cards if size
        )

    def worth(self, cards: tuple[Card, ...]) -> list[Worth]:
        """Gives for each shape of the mix what it could take of the cards, and beside how much."""
        counted, of = STRETCH
        sums = list(map(sum, zip(*map(self._ways_of, cards), strict=True)))
        found = []
        for one, weight, at in self._mix:
            able, times, parts = sums[at : at + 3] if sums else (0, 0, 0)
            gpu = self._asks[at // 3]
            if able >= gpu.count > 0:
                often = max(times // gpu.count, 1)
                cpus, memory = one.cpus_milli, -(-one.memory_bytes // MIB)
                all_cpus = max(-(-cpus * often * counted // of), cpus)
                all_memory = max(-(-memory * often * counted // of), memory)
                found.append((weight * parts, cpus, memory, all_cpus, all_memory))
        return found

    def _ways_of(self, card: Card) -> list[int]:
        """For each way in which the mix asks for devices: able or not, how often, for how much."""
        known = self._ways.get(card)
        if known is None:
            known = self._ways[card] = []
            free, _, size, _, _, (_, places, _, _) = card
            for gpu in self._asks:
                share = self._share(gpu, card)
                if share < 0:
                    known += (0, 0, 0)
                elif gpu.shares:
                    times = free // share if share else 1
                    times = 1 if places == ALONE else min(times, places) if places >= 0 else times
                    known += (1, times, min(free * PARTS // size, PARTS))
                else:
                    known += (1, 1, PARTS)
        return known


def _with_room(worth: list[Worth], cpus: int, memory: int) -> int:
    """Gives what cards are worth beside so many CPUs and so much memory (MiB)."""
    usable = 0
    for part, least_cpus, least_memory, all_cpus, all_memory in worth:
        if cpus >= all_cpus and memory >= all_memory:
            usable += part
        elif (cpus >= least_cpus or not least_cpus) and (
            memory >= least_memory or not least_memory
        ):
            # What isn't asked for is never short, also where a node that shrank is overdrawn.
            by_cpus = part * cpus // all_cpus if cpus < all_cpus and all_cpus else part
            by_memory = part * memory // all_memory if memory < all_memory and all_memory else part
            usable += min(by_cpus, by_memory)
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
                self._enter(node.node.name, self.scores.state_of(node))

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
        if before is not None and before != (now := self.scores.state_of(node)):
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

    def usable(self) -> tuple[int, int]:
        """Gives how much device memory the mix could use, and how much is free, weighted alike."""
        usable = free = 0
        for state, names in self._names.items():
            if names:
                usable += len(names) * self.scores.usable(state)
                free += len(names) * self.scores.free(state)
        return usable, free
