"""Chooses which parts of nodes are promised to somebody for times to come, and who is in the way.

What is free now comes first, then what its holder has there anyway, then what is lost least when
it has to go. What is promised to others for a part of the same times is never promised twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, Node
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.quantity import write_cpus
from stellwerk.core.model.reservations import Reservation, Span, Wanted
from stellwerk.core.model.resources import Allocation, DeviceShare, NodeAllocation
from stellwerk.core.place.room import Room


class Taken(NamedTuple):
    """A run and what it holds; ``mine`` = its work is the holder's, ``safe_ms`` = until when it was
    promised not to be stopped, ``since_ms`` since when it runs.
    """

    run: RunId
    allocation: Allocation
    mine: bool = False
    safe_ms: int = 0
    since_ms: int = 0


class Place(NamedTuple):
    """A cluster with what runs there."""

    cluster: Cluster
    taken: tuple[Taken, ...] = ()


class Chosen(NamedTuple):
    """What is promised; ``stopped`` are the runs of others that hold some of it now."""

    cluster: str
    parts: tuple[NodeAllocation, ...]
    stopped: tuple[RunId, ...]


class Ask(NamedTuple):
    """What is asked for. ``others`` are all other reservations; ``now_ms`` is when it is asked."""

    wanted: Wanted
    spans: tuple[Span, ...]
    others: tuple[Reservation, ...]
    now_ms: int

    @property
    def from_ms(self) -> int:
        """When the room must be free first."""
        return self.spans[0].from_ms


def chosen(ask: Ask, places: Iterable[Place]) -> Chosen | str:
    """The best parts of one cluster; where nothing does, a sentence with the numbers."""
    best: tuple[int, int, Chosen] | None = None
    refused: list[str] = []
    meant = [
        one for one in places if not ask.wanted.clusters or one.cluster.name in ask.wanted.clusters
    ]
    for number, place in enumerate(meant):
        found = _Choosing(ask, place).found()
        if isinstance(found, str):
            refused.append(found)
        else:
            turn = (len(found.stopped), number, found)
            best = turn if best is None or turn[:2] < best[:2] else best
    if best is not None:
        return best[2]
    return "; ".join(refused) or "no cluster that is meant has been looked at yet"


class _Choosing:
    """One cluster, looked at for one reservation."""

    def __init__(self, ask: Ask, place: Place) -> None:
        self.ask = ask
        self.place = place
        self.unready = 0
        self.protected = 0
        self.promised: dict[str, int] = {}
        self._by_card: dict[tuple[str, int], list[Taken]] = {}
        self._by_node: dict[str, list[Taken]] = {}
        for one in place.taken:
            for part in one.allocation.nodes:
                self._by_node.setdefault(part.node, []).append(one)
                for share in part.devices:
                    self._by_card.setdefault((part.node, share.index), []).append(one)
        self._cards: dict[tuple[str, int], str] = {}
        self._cpus: dict[str, dict[str, int]] = {}
        self._nodes: dict[str, str] = {}
        for other in ask.others:
            if other.cluster != place.cluster.name or not other.meets(ask.spans):
                continue
            for part in other.parts:
                self._nodes[part.node] = other.name
                self._cpus.setdefault(part.node, {})[other.name] = part.cpus_milli
                for share in part.devices:
                    self._cards[part.node, share.index] = other.name

    def found(self) -> Chosen | str:
        """The parts, or what there is instead."""
        wanted = self.ask.wanted
        if wanted.nodes:
            parts, there = self._whole_nodes(wanted.nodes)
        elif wanted.gpus:
            parts, there = self._gpus(wanted.gpus)
        else:
            parts, there = self._of_cpus(wanted.cpus_milli)
        if parts is None:
            return self._refused(there)
        name = self.place.cluster.name
        return Chosen(name, parts, tuple(one.run for one in in_the_way(self.place, parts)))

    def _refused(self, there: int) -> str:
        wanted, why = self.ask.wanted, []
        amount = write_cpus if wanted.cpus_milli else str
        why += [f"{amount(n)} promised to {name} then" for name, n in sorted(self.promised.items())]
        if self.unready:
            why.append(f"{amount(self.unready)} on nodes that can't be used")
        if self.protected:
            why.append(f"{amount(self.protected)} held by runs that are protected for longer")
        more = f" ({', '.join(why)})" if why else ""
        return f"{self.place.cluster.name} can give {amount(there)} of {wanted}{more}"

    def _counts(self, node: Node, holders: Iterable[Taken], promised: str) -> bool:
        """Whether something may be promised; what speaks against it is counted."""
        if node.state != "ready":
            self.unready += 1
        elif promised:
            self.promised[promised] = self.promised.get(promised, 0) + 1
        elif any(self._is_safe(one) for one in holders):
            self.protected += 1
        else:
            return True
        return False

    def _is_safe(self, one: Taken) -> bool:
        """Whether it was promised not to be stopped for long enough to be in the way."""
        return one.safe_ms > self.ask.from_ms and not one.mine

    def _cpus_of(self, node: Node, holders: Iterable[Taken]) -> int:
        """The CPUs of a node that may be promised; what speaks against the others is counted."""
        whole = max(0, node.cpus_milli - node.foreign_cpus_milli)
        if node.state != "ready":
            self.unready += whole
            return 0
        for name, cpus in self._cpus.get(node.name, {}).items():
            self.promised[name] = self.promised.get(name, 0) + cpus
            whole -= cpus
        safe = sum(
            part.cpus_milli
            for one in holders
            if self._is_safe(one)
            for part in one.allocation.nodes
            if part.node == node.name
        )
        self.protected += safe
        return max(0, whole - safe)

    def _cost(self, holders: Iterable[Taken]) -> int:
        """Nothing for what is free or the holder's; else how long it runs, from 1 on."""
        now_ms = self.ask.now_ms
        return sum(1 + max(0, now_ms - one.since_ms) for one in holders if not one.mine)

    def _of_kind(self, node: Node) -> list[Device]:
        kind = self.ask.wanted.kind
        return [
            one
            for one in node.devices
            if one.memory_bytes > 0 and not one.fault and (not kind or one.kind == kind)
        ]

    def _whole_nodes(self, count: int) -> tuple[tuple[NodeAllocation, ...] | None, int]:
        usable: list[tuple[int, str, Node]] = []
        for node in self.place.cluster.nodes:
            if self.ask.wanted.kind and not self._of_kind(node):
                continue
            holders = self._by_node.get(node.name, [])
            if self._counts(node, holders, self._nodes.get(node.name, "")):
                usable.append((self._cost(holders), node.name, node))
        if len(usable) < count:
            return None, len(usable)
        usable.sort(key=lambda one: one[:2])
        return tuple(whole_node(node) for _, _, node in usable[:count]), len(usable)

    def _gpus(self, count: int) -> tuple[tuple[NodeAllocation, ...] | None, int]:
        usable: list[tuple[int, int, str, int]] = []
        nodes = {node.name: node for node in self.place.cluster.nodes}
        for node in nodes.values():
            cards = []
            for device in self._of_kind(node):
                key = (node.name, device.index)
                holders = self._by_card.get(key, [])
                if self._counts(node, holders, self._cards.get(key, "")):
                    cards.append((self._cost(holders), device.index))
            cards = self._with_cpus(node, sorted(cards))
            free = sum(1 for cost, _ in cards if not cost)
            usable += [(cost, -free, node.name, index) for cost, index in cards]
        if len(usable) < count:
            return None, len(usable)
        taken: dict[str, list[int]] = {}
        for _, _, name, index in sorted(usable)[:count]:
            taken.setdefault(name, []).append(index)
        return tuple(_cards(nodes[name], taken[name]) for name in sorted(taken)), len(usable)

    def _with_cpus(self, node: Node, cards: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The cards for whose part of the CPUs there is room beside what others were promised."""
        promised = self._cpus.get(node.name, {})
        whole = node.cpus_milli - node.foreign_cpus_milli
        each, left = whole // max(1, len(node.devices)), whole - sum(promised.values())
        count = len(cards) if each <= 0 else max(0, min(len(cards), left // each))
        if count < len(cards):
            name = max(promised, key=promised.__getitem__)
            self.promised[name] = self.promised.get(name, 0) + len(cards) - count
        return cards[:count]

    def _of_cpus(self, wanted: int) -> tuple[tuple[NodeAllocation, ...] | None, int]:
        usable: list[tuple[int, int, str, int, Node]] = []
        for node in self.place.cluster.nodes:
            holders = self._by_node.get(node.name, [])
            if self.ask.wanted.kind and not self._of_kind(node):
                continue
            left = self._cpus_of(node, holders)
            if left:
                usable.append((self._cost(holders), len(node.devices), node.name, left, node))
        there = sum(one[3] for one in usable)
        if there < wanted:
            return None, there
        parts = []
        for _, _, _, left, node in sorted(usable, key=lambda one: one[:3]):
            given = min(left, wanted)
            memory = node.memory_bytes * given // max(1, node.cpus_milli)
            parts.append(NodeAllocation(node.name, given, memory))
            wanted -= given
            if not wanted:
                break
        return tuple(parts), there


def whole_node(node: Node) -> NodeAllocation:
    """All of a node that others don't hold."""
    devices = tuple(DeviceShare(one.index, one.memory_bytes) for one in node.devices)
    cpus, memory = node.cpus_milli, node.memory_bytes
    return NodeAllocation(
        node.name, cpus - node.foreign_cpus_milli, memory - node.foreign_memory_bytes, 0, devices
    )


def _cards(node: Node, indexes: list[int]) -> NodeAllocation:
    """Cards with their part of the CPUs and the memory of their node."""
    whole, all_cards = whole_node(node), max(1, len(node.devices))
    part = len(indexes)
    return replace(
        whole,
        cpus_milli=whole.cpus_milli * part // all_cards,
        memory_bytes=whole.memory_bytes * part // all_cards,
        devices=tuple(one for one in whole.devices if one.index in indexes),
    )


def left_of(
    parts: Iterable[NodeAllocation], inside: Iterable[Allocation]
) -> tuple[NodeAllocation, ...]:
    """What of promised parts isn't used yet by what its holder has on these nodes."""
    used: dict[str, list[NodeAllocation]] = {}
    for allocation in inside:
        for one in allocation.nodes:
            used.setdefault(one.node, []).append(one)
    found = []
    for part in parts:
        mine = used.get(part.node)
        found.append(part if mine is None else _less(part, mine))
    return tuple(one for one in found if one.devices or one.cpus_milli or one.memory_bytes)


def _less(part: NodeAllocation, mine: Iterable[NodeAllocation]) -> NodeAllocation:
    cpus, memory, devices = part.cpus_milli, part.memory_bytes, part.devices
    for one in mine:
        held = {share.index: True for share in one.devices}
        if part.devices and not any(share.index in held for share in part.devices):
            continue
        devices = tuple(share for share in devices if share.index not in held)
        cpus, memory = cpus - one.cpus_milli, memory - one.memory_bytes
    return replace(part, cpus_milli=max(0, cpus), memory_bytes=max(0, memory), devices=devices)


def is_in(allocation: Allocation, parts: Iterable[NodeAllocation]) -> bool:
    """Whether a run uses some of what was promised: one of its cards, or where there are none its
    CPUs.
    """
    cards: dict[str, dict[int, bool]] = {}
    for part in parts:
        cards.setdefault(part.node, {}).update((one.index, True) for one in part.devices)
    for one in allocation.nodes:
        promised = cards.get(one.node)
        if promised is None:
            continue
        if not promised or any(share.index in promised for share in one.devices):
            return True
    return False


def in_the_way(place: Place, parts: tuple[NodeAllocation, ...]) -> list[Taken]:
    """The runs that must go so that there is room for what was promised: no more than needed."""
    mine = [one.allocation for one in place.taken if one.mine]
    wanted = left_of(parts, mine)
    room = Room(place.cluster, (one.allocation for one in place.taken))
    found: list[Taken] = []
    for part in wanted:
        for one in _least_lost(place, part, found):
            if not _lacks(room, part):
                break
            if part.devices and not _lacks_other(room, part, one):
                continue
            room.take(one.allocation, -1)
            found.append(one)
    return found


def _least_lost(place: Place, part: NodeAllocation, found: list[Taken]) -> Iterator[Taken]:
    """Those on its cards first, then others on its node; what is protected for longest goes last,
    and of the rest the newest goes first.
    """
    gone = {one.run: True for one in found}
    here = [
        one
        for one in place.taken
        if not one.mine
        and one.run not in gone
        and any(node.node == part.node for node in one.allocation.nodes)
    ]
    yield from sorted(
        here, key=lambda one: (not _on_cards(one, part), one.safe_ms, -one.since_ms, one.run)
    )


def _on_cards(one: Taken, part: NodeAllocation) -> bool:
    cards = {share.index: True for share in part.devices}
    return any(
        share.index in cards
        for node in one.allocation.nodes
        if node.node == part.node
        for share in node.devices
    )


def _lacks_cards(room: Room, part: NodeAllocation) -> bool:
    node = room.nodes.get(part.node)
    return node is not None and any(
        share.memory_bytes > node.device_bytes.get(share.index, 0) for share in part.devices
    )


def _lacks_other(room: Room, part: NodeAllocation, one: Taken) -> bool:
    """Whether a run's going helps: it holds a promised card, or CPUs or memory are lacking."""
    node = room.nodes.get(part.node)
    if node is None:
        return False
    short = node.cpus_milli < part.cpus_milli or node.memory_bytes < part.memory_bytes
    return short or (_on_cards(one, part) and _lacks_cards(room, part))


def _lacks(room: Room, part: NodeAllocation) -> bool:
    node = room.nodes.get(part.node)
    if node is None:
        return False
    short = node.cpus_milli < part.cpus_milli or node.memory_bytes < part.memory_bytes
    return short or _lacks_cards(room, part)
