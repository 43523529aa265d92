"""Leaves trees of queues alone in which nothing can have changed since they were looked at whole.

Where quota alone keeps all work of a tree waiting, nothing but that tree and time can change it:
whatever happens to the rooms. So its shapes needn't be looked at while the tree, the shapes and
their heads are the same, and until the first time at which one of them is due. What other rules
would change otherwise (aging, past use, budgets, reservations) wakes all.
"""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.core.model.actions import Action, TellWaiting
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.queue.entries import QueueState
from stellwerk.core.queue.quota import Quota
from stellwerk.core.view import ShapeView, View


class Tree:
    """A tree in one state, with all of its shapes that wait, and until when they needn't be seen
    (0: for ever).
    """

    __slots__ = ("queue", "shapes", "until_ms", "version")

    def __init__(self, queue: QueueState, until_ms: int) -> None:
        self.queue = queue
        self.version = queue.node.top.version
        self.shapes: dict[ShapeId, ShapeView] = {}
        self.until_ms = until_ms


class Asleep:
    """The trees that are left alone, from cycle to cycle."""

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}
        self._tree_of: dict[ShapeId, str] = {}

    def __len__(self) -> int:
        return len(self._tree_of)

    def forget(self) -> None:
        """Wakes all."""
        self.trees, self._tree_of = {}, {}

    def wake(self, key: str) -> None:
        """Wakes a tree."""
        tree = self.trees.pop(key, None)
        for id in tree.shapes if tree is not None else ():
            del self._tree_of[id]

    def put(self, key: str, tree: Tree) -> None:
        """Leaves a tree alone from now on."""
        self.trees[key] = tree
        self._tree_of.update(dict.fromkeys(tree.shapes, key))

    def awake(
        self, shapes: tuple[ShapeView, ...], quota: Quota, now_ms: int
    ) -> tuple[ShapeView, ...]:
        """The shapes that must be looked at."""
        if not self.trees:
            return shapes
        counts: dict[str, int] = dict.fromkeys(self.trees, 0)
        of = self._tree_of
        for shape in shapes:
            key = of.get(shape.id)
            if key is None:
                door = quota.door(shape.shape.queue)
                if door is not None and door.queue is not None and door.reason is None:
                    counts[door.queue.node.top.key] = -1
            elif counts[key] >= 0 and self.trees[key].shapes[shape.id] is shape:
                counts[key] += 1
            else:
                counts[key] = -1
        for key, tree in list(self.trees.items()):
            top = tree.queue.node.top
            same = top.version == tree.version and not quota.is_counted(top)
            if not same or counts[key] != len(tree.shapes) or 0 < tree.until_ms <= now_ms:
                self.wake(key)
        return tuple(shape for shape in shapes if shape.id not in of)


class Drowsy:
    """One cycle: which trees may be left alone after it."""

    def __init__(self, view: View, asleep: Asleep) -> None:
        self._view = view
        self._asleep = asleep
        self._on = False
        self._seen: dict[str, dict[ShapeId, ShapeView]] = {}
        self._queues: dict[str, QueueState] = {}
        self._restless: dict[str, None] = {}

    def awake(self, quota: Quota | None, *, steady: bool) -> tuple[ShapeView, ...]:
        """The shapes that must be looked at. What is counted in a tree already wakes it."""
        view = self._view
        others = view.used_up or view.past_use or view.reservations
        if quota is None or others or not steady:
            self._asleep.forget()
            return view.shapes
        self._on = True
        self._restless = quota.counted_tops()
        return self._asleep.awake(view.shapes, quota, view.now_ms)

    def saw(self, queue: QueueState, shape: ShapeView, *, still: bool) -> None:
        """A shape waits; ``still`` = for reasons of its tree alone."""
        key = queue.node.top.key
        self._seen.setdefault(key, {})[shape.id] = shape
        self._queues[key] = queue
        if not still:
            self._restless[key] = None

    def stirs(self, queue: QueueState | None) -> None:
        """Something happened in a tree."""
        if queue is not None:
            self._restless[queue.node.top.key] = None

    def told(self, told: Iterable[Action]) -> None:
        """A tree of which something is told is asked again, lest that be lost on the way."""
        news = {one.shape: None for one in told if isinstance(one, TellWaiting)}
        for key, shapes in self._seen.items() if news else ():
            if any(id in news for id in shapes):
                self._restless[key] = None

    def settle(self, due: dict[ShapeId, int]) -> None:
        """Leaves alone what may be; ``due`` is when time alone could change something."""
        if not self._on:
            return
        for key, shapes in self._seen.items():
            if key in self._restless:
                continue
            times = [at_ms for id in shapes if (at_ms := due.get(id, 0))]
            tree = Tree(self._queues[key], min(times, default=0))
            tree.shapes = shapes
            self._asleep.put(key, tree)

    def wake_times(self) -> Iterable[int]:
        """When those that are left alone are due."""
        return (tree.until_ms for tree in self._asleep.trees.values() if tree.until_ms)
