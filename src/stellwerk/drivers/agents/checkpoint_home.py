"""Has checkpoints follow their job: copied home while it runs, put in place where it goes on.

A run writes on its hosts; what of it is whole is copied to the server's machine over the one
connection to each, only what is missing, and counts when all of it has come. Before a run begins
elsewhere, the newest is brought there. Where the newest can't be had, the start is refused with the
reason: a job that has a checkpoint never begins without it unnoticed.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.drivers.agents.checkpoint_places import Held, Look, Place, fetch
from stellwerk.drivers.agents.checkpoint_store import CheckpointStore, Running, Whole
from stellwerk.drivers.base import DriverError, Listing, LogChunk, Saved, StartOrder
from stellwerk.runtime.carrying import Piece
from stellwerk.runtime.checkpoints import step_of

log = logging.getLogger("stellwerk.drivers")

EVERY_S = 10.0
AT_ONCE = 2
"""So many workloads are copied at a time for each cluster."""


class Told(msgspec.Struct, frozen=True):
    """What is known of a workload's newest checkpoint at home, for people.

    ``newer`` is one that its machine has and that isn't here yet; ``trouble`` why not.
    """

    name: str = ""
    step: int | None = None
    bytes: int = 0
    saved_ms: int = 0
    home_ms: int = 0
    took_ms: int = 0
    from_nodes: tuple[str, ...] = ()
    folder: str = ""
    newer: Saved | None = None
    newer_on: tuple[str, ...] = ()
    trouble: str = ""


class CheckpointHome:
    """What goes on between the machines and the store; ``pace_bytes_s`` (0: any) bounds copies."""

    def __init__(
        self, store: CheckpointStore, now_ms: Callable[[], int], pace_bytes_s: int = 0
    ) -> None:
        self.store = store
        self._now_ms = now_ms
        self._pace_bytes_s = pace_bytes_s
        self._places: dict[str, Place] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, name: str, place: Place) -> None:
        """Says by which name (`CLUSTER/NODE`) a machine is reached."""
        self._places[name] = place

    @contextlib.asynccontextmanager
    async def _alone(self, workload: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(workload, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(workload, None)

    # while it runs

    async def watch(self, live: Callable[[], Iterable[RunId]]) -> None:
        """Copies what has become whole of the runs that are live, until it is cancelled."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def look(workload: str) -> None:
            async with slots:
                await self._try(workload, over=False)

        while True:
            await asyncio.sleep(EVERY_S)
            await asyncio.gather(*(look(one) for one in dict.fromkeys(map(workload_of, live()))))

    def ended(self, run: RunId, generation: int) -> None:
        """A run is over: the rest of what it left is copied."""

        async def rest() -> None:
            workload = workload_of(run)
            running = await asyncio.to_thread(self.store.running, workload)
            if running is not None and running.generation == generation and not running.final:
                await self._try(workload, over=True)

        self._do(rest())

    def not_begun(self, run: RunId, generation: int) -> None:
        """A start was refused: what it was to replace is the newest again."""

        async def back() -> None:
            workload = workload_of(run)
            async with self._alone(workload):
                running = await asyncio.to_thread(self.store.running, workload)
                if running is None or running.generation != generation:
                    return
                if running.before is not None:
                    await asyncio.to_thread(self.store.says, workload, running.before)
                else:
                    await asyncio.to_thread(self.store.remove, workload)

        self._do(back())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Copies nothing more; what has come is gone on from."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _try(self, workload: str, *, over: bool) -> None:
        try:
            async with self._alone(workload):
                await self._carry(workload, over=over)
        except DriverError as error:
            log.info("checkpoints of %s: %s", workload, error.message)
        except OSError as error:
            log.warning("checkpoints of %s can't be kept: %s", workload, error)
        except Exception:
            log.exception("a fault while checkpoints of %s were copied", workload)

    async def carry(self, workload: str, *, over: bool = False) -> None:
        """Copies what is whole on its machines and isn't here. Raises DriverError."""
        async with self._alone(workload):
            await self._carry(workload, over=over)

    async def _carry(self, workload: str, *, over: bool) -> None:
        running = await asyncio.to_thread(self.store.running, workload)
        if running is None or running.final:
            return
        places = [self._places.get(node) for node in running.nodes]
        there = [place for place in places if place is not None and place.is_up]
        if len(there) < len(places):
            return
        looks = [await place.look("settled", workload, over=over) for place in there]
        if any(look.generation != running.generation for look in looks):
            return  # it hasn't begun there, or the machine was set up anew
        newest = await asyncio.to_thread(self.store.newest, workload)
        states = tuple(look.state for look in looks)
        if not any(states) or (newest is not None and newest.states == states):
            if over or running.trouble:
                running = replace(running, final=over, trouble="", told=None)
                await asyncio.to_thread(self.store.says, workload, running)
            return
        told = max((one for look in looks for one in look.found), key=_age, default=None)
        running = replace(running, told=told)
        await asyncio.to_thread(self.store.says, workload, running)
        await self._copy(workload, running, there, over=over)

    async def _copy(
        self, workload: str, running: Running, places: Sequence[Place], *, over: bool
    ) -> None:
        began_ms = self._now_ms()
        try:
            held = [await place.hold(workload, over=over) for place in places]
            parts = in_step(held)
            if parts is None and not over:
                return  # its hosts haven't saved the same step yet
            parts = parts or [one.pieces for one in held]
            trouble = await self._fetch(workload, places, parts)
        finally:
            for place in places:
                with contextlib.suppress(DriverError):
                    await place.let_go(workload)
        if trouble:
            log.warning("checkpoints of %s: %s", workload, trouble)
            await asyncio.to_thread(self.store.says, workload, replace(running, trouble=trouble))
            return
        names = {piece.path for part in parts for piece in part}
        found = {one.name: one for each in held for one in each.look.found if one.name in names}
        now_ms = self._now_ms()
        whole = Whole(
            generation=running.generation,
            nodes=running.nodes,
            states=tuple(one.look.state for one in held),
            found=tuple(sorted(found.values(), key=_age)),
            parts=tuple(tuple(part) for part in parts),
            taken_ms=now_ms,
            took_ms=now_ms - began_ms,
        )
        if whole.found:
            await asyncio.to_thread(self.store.keep, workload, whole)
        done = replace(running, told=None, trouble="", final=over)
        await asyncio.to_thread(self.store.says, workload, done)

    async def _fetch(
        self, workload: str, places: Sequence[Place], parts: Sequence[Sequence[Piece]]
    ) -> str:
        """Brings what isn't here; why there is no room, if there is none."""
        content = self.store.content(workload)
        everything = [piece for part in parts for piece in part]
        missing = await asyncio.to_thread(self.store.missing, workload, everything)
        trouble = await asyncio.to_thread(self.store.check_room, missing)
        if trouble:
            return trouble
        content.path("0" * 64).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = {piece.hash for piece in missing}
        for place, part in zip(places, parts, strict=True):
            for piece in part:
                if piece.hash in wanted:
                    await fetch(place, workload, piece, content, self._pace_bytes_s)
                    wanted.discard(piece.hash)
        return ""

    # before it runs

    async def prepare(self, order: StartOrder, nodes: Sequence[str]) -> list[str]:
        """Has the newest checkpoints be on the hosts of a run, in their order, before it begins.

        Gives what its output is to begin with. Raises DriverError, final where they can't be had.
        """
        notes: list[str] = []
        if order.resumes:
            async with self._alone(order.resumes):
                notes += await self._bring(order.resumes, order, nodes)
        async with self._alone(order.workload):
            running = await asyncio.to_thread(self.store.running, order.workload)
            if running is not None and running.generation >= order.generation:
                return notes  # it was prepared, and the order is given again
            if order.generation > 1:
                notes += await self._bring(order.workload, order, nodes)
                running = await asyncio.to_thread(self.store.running, order.workload)
            before = replace(running, before=None) if running is not None else None
            now = Running(order.generation, tuple(nodes), before=before)
            await asyncio.to_thread(self.store.says, order.workload, now)
        return notes

    async def _bring(self, workload: str, order: StartOrder, nodes: Sequence[str]) -> list[str]:
        targets = [place for node in nodes if (place := self._places.get(node)) is not None]
        if len(targets) < len(nodes):
            return []
        is_in_place, note = await self._newest_home(workload, order, nodes)
        whole = await asyncio.to_thread(self.store.newest, workload)
        if whole is None or is_in_place:
            return [note] if note else []
        for index, place in enumerate(targets):
            look = await place.look("settled", workload, over=True)
            is_same = len(targets) == len(whole.states) and look.state == whole.states[index]
            is_newer = len(targets) == 1 and look.found and look.generation > whole.generation
            if not is_same and not is_newer:
                pieces = part_for(whole, index, len(targets))
                await place.put(workload, pieces, self.store.content(workload))
                log.info("checkpoints of %s were put on %s", workload, nodes[index])
        return [note] if note else []

    async def _newest_home(
        self, workload: str, order: StartOrder, nodes: Sequence[str]
    ) -> tuple[bool, str]:
        """Sees to it that home has the newest; whether the hosts have it anyway, and what to tell.

        Raises a final DriverError where it may be elsewhere, and nobody has given that up.
        """
        running = await asyncio.to_thread(self.store.running, workload)
        if running is None:
            running, note = await self._found_anywhere(workload)
            if running is None:
                return False, note
        is_given_up = workload != order.workload or running.generation <= order.lost_generation
        if tuple(nodes) == running.nodes:
            lost = await self._without_record(running, workload)
            note = f"{_names(lost)} has no record of the last run" if lost else ""
            return not lost, note + await self._instead(workload) if lost else ""
        if running.final:
            return False, ""
        silent = [
            node
            for node in running.nodes
            if (place := self._places.get(node)) is None or not place.is_up
        ]
        if silent and not is_given_up:
            raise _away(
                f"its newest checkpoint may be on {_names(silent)}, which can't be reached"
                f"{await self._instead(workload)}"
            )
        if silent:
            return False, f"{_names(silent)} was given up{await self._instead(workload)}"
        lost = await self._without_record(running, workload)
        if lost:
            why = f"{_names(lost)} has no record of the last run"
            return False, why + await self._instead(workload)
        await self._carry(workload, over=True)
        running = await asyncio.to_thread(self.store.running, workload)
        if running is not None and running.trouble:
            raise _away(running.trouble)
        return False, ""

    async def _without_record(self, running: Running, workload: str) -> list[str]:
        """Hosts of a run that know nothing of it: set up anew, or their disk was wiped."""
        looks = [await self._look(node, workload) for node in running.nodes]
        return [
            node
            for node, look in zip(running.nodes, looks, strict=True)
            if look.generation < running.generation
        ]

    async def _look(self, node: str, workload: str) -> Look:
        return await self._places[node].look("settled", workload, over=True)

    async def _instead(self, workload: str) -> str:
        whole = await asyncio.to_thread(self.store.newest, workload)
        if whole is None:
            return "; no copy of a checkpoint is at home"
        age_s = max(0, self._now_ms() - whole.taken_ms) // 1000
        return f"; the copy at home is {_said(whole.newest)}, made {_span(age_s)} ago"

    async def _found_anywhere(self, workload: str) -> tuple[Running | None, str]:
        """Which machine has the newest run of a workload of which nothing is written down."""
        up = [node for node, place in self._places.items() if place.is_up]
        looks = await asyncio.gather(
            *(self._look(node, workload) for node in up), return_exceptions=True
        )
        known = {
            node: look
            for node, look in zip(up, looks, strict=True)
            if isinstance(look, Look) and look.generation
        }
        found = [(look.generation, node) for node, look in known.items() if look.found]
        if not found:
            silent = [node for node in self._places if node not in up]
            note = f"{_names(silent[:5])} can't be reached and may have checkpoints of this job"
            return None, note if silent and not known else ""
        generation, node = max(found)
        running = Running(generation, (node,))
        await asyncio.to_thread(self.store.says, workload, running)
        return running, ""

    # for people

    def listing(self, run: RunId, path: str) -> Listing | None:
        """What lies at a path of the newest copy; None without one. Waits for the disk."""
        return self.store.listing(workload_of(run), path)

    def read(self, run: RunId, path: str, offset: int, limit: int) -> LogChunk | None:
        """Bytes of a file of it."""
        return self.store.read(workload_of(run), path, offset, limit)

    def told(self, workload: str) -> Told | None:
        """What is known of its checkpoints; None if nothing. Waits for the disk."""
        running, whole = self.store.running(workload), self.store.newest(workload)
        newer = running.told if running is not None else None
        nodes = running.nodes if running is not None else ()
        places = [place for node in nodes if (place := self._places.get(node)) is not None]
        if any(place.is_home for place in places):
            return None
        if whole is None and newer is None:
            return None
        told = Told(
            newer=newer,
            newer_on=nodes if newer is not None else (),
            trouble=running.trouble if running is not None else "",
        )
        if whole is None:
            return told
        last = whole.newest
        return replace(
            told,
            name=last.name,
            step=last.step,
            bytes=last.bytes,
            saved_ms=last.modified_ms,
            home_ms=whole.taken_ms,
            took_ms=whole.took_ms,
            from_nodes=whole.nodes,
            folder=str(self.store.root / workload),
        )


def in_step(held: Sequence[Held]) -> list[list[Piece]] | None:
    """What hosts of one run have together: nothing newer than a step that all have saved.

    None where those that save by steps have none in common.
    """
    steps = [known for one in held if (known := {each.step for each in one.look.found} - {None})]
    if len(steps) < 2:
        return [one.pieces for one in held]
    common = set.intersection(*steps)
    if not common:
        return None
    last = max(step for step in common if step is not None)
    return [
        [
            piece
            for piece in one.pieces
            if (step := step_of(piece.path.partition("/")[0])) is None or step <= last
        ]
        for one in held
    ]


def part_for(whole: Whole, index: int, hosts: int) -> list[Piece]:
    """What a host gets: its own where there are as many as before, else all that there is."""
    if len(whole.parts) == hosts:
        return list(whole.parts[index])
    pieces: dict[str, Piece] = {}
    for part in whole.parts:
        for piece in part:
            pieces.setdefault(piece.path, piece)
    return list(pieces.values())


def _away(why: str) -> DriverError:
    return DriverError("checkpoint/away", why, final=True)


def _age(one: Saved) -> tuple[int, int, str]:
    return one.modified_ms, one.step or 0, one.name


def _said(one: Saved) -> str:
    return one.name if one.step is None else f"{one.name} (step {one.step:,})"


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes)


def _span(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
