"""Other rules for choosing a node, on the same states: at random, best fit, and FGD.

FGD (fragmentation gradient descent, Weng et al., ATC'23): of a node's free GPUs, fragments of a
shape are those that it could not use there; the node is taken on which the mean over all
shapes grows least, each weighted by how often it comes.
"""

import math
import random
from collections import Counter

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Request
from stellwerk.core.place.node import NodeRoom, fit_node
from stellwerk.core.place.packing import Cards, Key, Packing, Scores, State

MOST_CPUS_MILLI = 128_000
MOST_GPUS_MILLI = 8_000


def free_milli(cards: Cards) -> int:
    """What is free of all cards, in thousandths of one."""
    return sum(card[0] * 1000 // card[2] for card in cards.cards)


class Peer:
    """A rule that puts one pod after the other on a node, and never moves one."""

    def __init__(self, cluster: Cluster, pods: list[Request], seed: int) -> None:
        self.nodes = {node.name: NodeRoom(node) for node in cluster.nodes}
        self.packing = Packing(self.nodes.values(), self.scores(pods))
        self.dice = random.Random(seed)

    def scores(self, pods: list[Request]) -> Scores:
        """What nodes are ordered by."""
        return Scores(())

    def choose(self, request: Request) -> str | None:
        """The node for a pod."""
        return next(iter(self.packing.best(request, 1)), None)

    def place(self, request: Request) -> bool:
        """Puts a pod on its node, if there is one for it."""
        name = self.choose(request)
        if name is None:
            return False
        node = self.nodes[name]
        part = fit_node(node, request, (0,))
        assert part is not None, "a node that was chosen can hold the pod"
        node.take(part)
        self.packing.moved(node)
        return True


class Random(Peer):
    """Any node that can hold it."""

    def choose(self, request: Request) -> str | None:
        """Draws some nodes, and if none of them can, one of all that can."""
        names = list(self.nodes)
        for name in self.dice.choices(names, k=20):
            if fit_node(self.nodes[name], request, (0,)) is not None:
                return name
        able = [n for n in names if fit_node(self.nodes[n], request, (0,)) is not None]
        return self.dice.choice(able) if able else None


class _BestFit(Scores):
    def key(self, request: Request, state: State) -> Key | None:
        after = self.after(request, state)
        if after is None:
            return None
        cpus = after[0] * 10**9 // MOST_CPUS_MILLI
        return (False, cpus + free_milli(after[3]) * 10**9 // MOST_GPUS_MILLI, 0, state)


class BestFit(Peer):
    """The node with the least left of CPUs and GPUs, as parts of the largest node."""

    def scores(self, pods: list[Request]) -> Scores:
        """What is left."""
        return _BestFit(())


class _Fgd(Scores):
    """The published measure of what is useful, over all pods that there are."""

    __slots__ = ("_counted", "_shapes", "_total")

    def __init__(self, pods: list[Request]) -> None:
        super().__init__(())
        counts = Counter(pod for pod in pods if pod.gpu is not None)
        self._shapes = [(one, one.gpu, times) for one, times in counts.items() if one.gpu]
        self._total = sum(counts.values())
        self._counted: dict[State, int] = {}

    def usable(self, state: State) -> int:
        """What no shape would call a fragment, in thousandths of a GPU, by how often it comes."""
        known = self._counted.get(state)
        if known is None:
            known = self._counted[state] = self._count(state)
        return known

    def _count(self, state: State) -> int:
        cpus, memory, _, cards = state
        parts = [card[0] * 1000 // card[2] for card in cards.cards]
        useful: dict[tuple[int, int], int] = {}
        found = 0
        for one, gpu, times in self._shapes:
            if one.cpus_milli > cpus or one.memory_bytes > memory:
                continue
            asked = (gpu.count, gpu.fraction_milli)
            if asked not in useful:
                able = [part for part in parts if part >= gpu.fraction_milli]
                useful[asked] = sum(able) if len(able) >= gpu.count else 0
            found += times * useful[asked]
        return found

    def gain(self, request: Request, state: State, after: State) -> float:
        """By how much fragments get less, in thousandths of a GPU."""
        given = free_milli(state[3]) - free_milli(after[3])
        return given - (self.usable(state) - self.usable(after)) / self._total


class Fgd(Peer):
    """FGD by its exact score; where that is equal, the tightest node: independent of names."""

    def scores(self, pods: list[Request]) -> Scores:
        """Fragments."""
        return _Fgd(pods)


class _FgdRounded(_Fgd):
    def key(self, request: Request, state: State) -> Key | None:
        after = self.after(request, state)
        if after is None:
            return None
        score = int(100 / (1 + math.exp(-self.gain(request, state, after) / 1000)))
        return (False, -score, 0, state)


class _ByName(Packing):
    """Of all nodes with the best score, the one whose name comes first."""

    def best(self, request: Request, most: int) -> list[str]:
        first = super().best(request, 1)
        if not first:
            return []
        heap = self._asked[request].heap
        score = heap[0][1]
        names, ask = self._names, [0]
        found = ""
        while ask:
            at = ask.pop()
            if at >= len(heap) or heap[at][1] != score:
                continue
            there = names.get(heap[at][3])
            if there and (not found or there[0] < found):
                found = there[0]
            ask += (2 * at + 1, 2 * at + 2)
        return [found]


class FgdByName(Peer):
    """FGD as its artifact has it: scores rounded to 0..100, ties to the smallest name."""

    def __init__(self, cluster: Cluster, pods: list[Request], seed: int) -> None:
        super().__init__(cluster, pods, seed)
        self.packing = _ByName(self.nodes.values(), self.scores(pods))

    def scores(self, pods: list[Request]) -> Scores:
        """Fragments, rounded."""
        return _FgdRounded(pods)
