"""The waiting workloads that a gate keeps out of their queues, and what the gates hang on.

All of it follows from the workloads and the tallies of their arrays; only these are in an image.
"""

from bisect import bisect_left, insort

from msgspec.structs import replace

from stellwerk.core.model.gates import After, ArrayPart, Gate, Tally
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.workload import Workload

Key = tuple[int, int, WorkloadId]


def key_of(workload: Workload) -> Key:
    """Sorts the elements of an array that wait for their place."""
    return (-workload.priority, workload.order, workload.id)


class Limited:
    """An array of which only some elements may be under way: those that are, those that wait."""

    __slots__ = ("limit", "open", "shut")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open: dict[WorkloadId, None] = {}
        self.shut: list[Key] = []


class Gates:
    """``shut`` are the pending workloads that a gate keeps. ``news`` are those kept by an ``after``
    about which something has become known, ``free`` the arrays that may have a place; who decides
    about them takes them out.
    """

    def __init__(self) -> None:
        self.shut: dict[WorkloadId, None] = {}
        self.dependents: dict[WorkloadId, dict[WorkloadId, None]] = {}
        self.tallies: dict[WorkloadId, Tally] = {}
        self.arrays: dict[WorkloadId, Limited] = {}
        self.news: dict[WorkloadId, None] = {}
        self.free: dict[WorkloadId, None] = {}

    def enter(self, workload: Workload) -> None:
        """Takes a workload in, with what it waits for."""
        part = workload.array
        if part is not None and part.id and part.id not in self.tallies:
            self.tallies[part.id] = Tally(part.count)
        self.keep_up(workload)
        if workload.gate != "after":
            return
        for one in workload.after:
            if one.ended:
                self.news[workload.id] = None
            else:
                self.dependents.setdefault(one.id, {})[workload.id] = None

    def keep_up(self, workload: Workload) -> None:
        """Notes whether an element of a limited array is under way."""
        part = workload.array
        if part is None or not (part.id and part.limit):
            return
        array = self.arrays.setdefault(part.id, Limited(part.limit))
        if workload.gate == "" and workload.phase != "Held":
            array.open[workload.id] = None
        else:
            array.open.pop(workload.id, None)
            self.free[part.id] = None

    def park(self, workload: Workload) -> None:
        """Keeps a pending workload out of its queue."""
        self.shut[workload.id] = None
        if workload.gate == "array" and workload.array is not None:
            insort(self.arrays[workload.array.id].shut, key_of(workload))

    def unpark(self, workload: Workload) -> None:
        """Lets go of one that `park` kept."""
        del self.shut[workload.id]
        if workload.gate == "array" and workload.array is not None:
            shut = self.arrays[workload.array.id].shut
            del shut[bisect_left(shut, key_of(workload))]

    def leave(self, workload: Workload) -> list[tuple[WorkloadId, str]]:
        """Forgets one that is over; gives what is over with it (id, phase): itself, its array."""
        over = [(workload.id, str(workload.phase))]
        self.news.pop(workload.id, None)
        for one in workload.after if workload.gate == "after" else ():
            waiting = self.dependents.get(one.id, {})
            waiting.pop(workload.id, None)
            if not waiting:
                self.dependents.pop(one.id, None)
        part = workload.array
        if part is not None and part.id:
            over += self._leave_array(workload, part)
        return over

    def _leave_array(self, workload: Workload, part: ArrayPart) -> list[tuple[WorkloadId, str]]:
        array = self.arrays.get(part.id)
        if array is not None:
            array.open.pop(workload.id, None)
            self.free[part.id] = None
        tally = self.tallies[part.id] = self.tallies[part.id].plus(workload.phase)
        if not tally.ended:
            return []
        del self.tallies[part.id]
        self.arrays.pop(part.id, None)
        self.free.pop(part.id, None)
        return [(part.id, tally.ended)]

    def waiting_for(self, id: WorkloadId) -> list[WorkloadId]:
        """Those that waited for one that is over now; each is asked for once."""
        return list(self.dependents.pop(id, ()))


def told(workload: Workload, id: WorkloadId, phase: str) -> tuple[After, ...]:
    """What a workload waits for when it knows how one of them ended."""
    return tuple(replace(one, ended=phase) if one.id == id else one for one in workload.after)


def gate_after_release(workload: Workload) -> Gate:
    """What keeps a held workload when nobody holds it any more: a place in its array isn't kept."""
    part = workload.array
    if workload.gate == "" and part is not None and part.id and part.limit:
        return "array"
    return workload.gate
