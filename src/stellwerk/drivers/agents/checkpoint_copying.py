"""Copies home what is whole of the checkpoints of runs, while they are live and when they are over.

Only what is missing is read, and a copy counts when all of it has come. It is taken only from the
hosts of the newest run that was ordered, and only while that is the newest that began there.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.drivers.agents.checkpoint_parts import Together, apart_in_words, put_together
from stellwerk.drivers.agents.checkpoint_places import TOO_OLD, Held, Place, fetch
from stellwerk.drivers.agents.checkpoint_store import CheckpointStore, Running, Whole
from stellwerk.drivers.agents.checkpoint_times import CopyTime, predicted
from stellwerk.drivers.base import DriverError, Saved

log = logging.getLogger("stellwerk.drivers")

EVERY_S = 10.0
SLOWER_S = 60.0
"""So long what one host has saved waits for the others, which may only be slower."""
AT_ONCE = 2
"""So many workloads are copied at a time for each cluster."""


class _Incomplete(NamedTuple):
    """Since when hosts of a run were waited for, and how they were at the last look."""

    generation: int
    since_ms: int
    states: tuple[str, ...]


class CopiesHome:
    """What goes on between the machines and the store; ``pace_bytes_s`` (0: any) bounds copies."""

    def __init__(
        self, store: CheckpointStore, now_ms: Callable[[], int], pace_bytes_s: int = 0
    ) -> None:
        self.store = store
        self.now_ms = now_ms
        self._pace_bytes_s = pace_bytes_s
        self.places: dict[str, Place] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted: Counter[str] = Counter()
        self._hear: dict[str, Callable[[RunId, int, CopyTime], None]] = {}
        self._incomplete: dict[str, _Incomplete] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, name: str, place: Place) -> None:
        """Says by which name (`CLUSTER/NODE`) a machine is reached."""
        self.places[name] = place

    def when_timed(self, cluster: str, hear: Callable[[RunId, int, CopyTime], None]) -> None:
        """Says who hears how long copies of runs of a cluster take: run, generation, and that."""
        self._hear[cluster] = hear

    def predicted(self, workload: str) -> CopyTime:
        """How long the next copy of a workload's takes. Waits for the disk."""
        return predicted(self.store.copies(workload))

    async def _tell_time(self, workload: str, running: Running) -> None:
        found = await asyncio.to_thread(self.predicted, workload)
        hear = self._hear.get(running.nodes[0].partition("/")[0])
        if found.ms and running.run and hear is not None:
            hear(RunId(running.run), running.generation, found)

    @contextlib.asynccontextmanager
    async def alone(self, workload: str) -> AsyncIterator[None]:
        """Lets nobody else copy or bring a workload's meanwhile."""
        lock = self._locks.setdefault(workload, asyncio.Lock())
        self._wanted[workload] += 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[workload] -= 1
            if not self._wanted[workload]:  # nobody waits for it either
                del self._locks[workload], self._wanted[workload]

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

    def ended(self, run: RunId, generation: int, then: Callable[[], None] = lambda: None) -> None:
        """A run is over: the rest of what it left is copied. ``then`` is called when that is done,
        or takes much longer than it should."""

        async def rest() -> None:
            workload = workload_of(run)
            running = await asyncio.to_thread(self.store.running, workload)
            if running is not None and running.generation == generation and not running.final:
                await self._try(workload, over=True)

        async def and_then() -> None:
            copying = asyncio.ensure_future(rest())
            try:
                expected = await asyncio.to_thread(self.predicted, workload_of(run))
                await asyncio.wait([copying], timeout=expected.patience_s)
            finally:
                then()
            await copying

        self._do(and_then())

    def not_begun(self, run: RunId, generation: int) -> None:
        """A start was refused: what it was to replace is the newest again."""

        async def back() -> None:
            workload = workload_of(run)
            async with self.alone(workload):
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
            async with self.alone(workload):
                await self.carry_alone(workload, over=over)
        except DriverError as error:
            known = error.code == TOO_OLD  # it is said where a run begins
            log.log(logging.DEBUG if known else logging.INFO, "%s: %s", workload, error.message)
        except OSError as error:
            log.warning("checkpoints of %s can't be kept: %s", workload, error)
        except Exception:
            log.exception("a fault while checkpoints of %s were copied", workload)

    async def carry(self, workload: str, *, over: bool = False) -> None:
        """Copies what is whole on its machines and isn't here. Raises DriverError."""
        async with self.alone(workload):
            await self.carry_alone(workload, over=over)

    async def carry_alone(self, workload: str, *, over: bool) -> None:
        """The same for whoever is alone with it already."""
        running = await asyncio.to_thread(self.store.running, workload)
        if running is None or running.final:
            return
        places = [self.places.get(node) for node in running.nodes]
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
        if not over and self._is_looked_at(workload, running, states):
            return
        told = max((one for look in looks for one in look.found), key=age_of, default=None)
        running = replace(running, told=told)
        await asyncio.to_thread(self.store.says, workload, running)
        await self._copy(workload, running, there, over=over)

    async def _copy(
        self, workload: str, running: Running, places: Sequence[Place], *, over: bool
    ) -> None:
        began_ms = self.now_ms()
        trouble, brought = "", 0
        try:
            held = [await place.hold(workload, over=over) for place in places]
            together = self._together(workload, running, held, over=over)
            if together is None:
                return
            apart = apart_in_words(held, running.nodes) if together.apart else ""
            counts = not apart or await asyncio.to_thread(self.store.newest, workload) is None
            if counts:
                trouble, brought = await self._fetch(workload, places, held, together)
        finally:
            for place in places:
                with contextlib.suppress(DriverError):
                    await place.let_go(workload)
        if trouble:
            log.warning("checkpoints of %s: %s", workload, trouble)
            await asyncio.to_thread(self.store.says, workload, replace(running, trouble=trouble))
            return
        whole = self._whole(running, held, together)
        took_ms = self.now_ms() - began_ms
        if counts and whole.found:
            whole = replace(whole, took_ms=took_ms, brought_bytes=brought)
            await asyncio.to_thread(self.store.keep, workload, whole)
            await self._tell_time(workload, running)
        done = replace(running, told=None, trouble="", apart=apart, final=over)
        await asyncio.to_thread(self.store.says, workload, done)

    def _whole(self, running: Running, held: Sequence[Held], together: Together) -> Whole:
        names = {piece.path for part in together.parts for piece in part}
        found = {one.name: one for each in held for one in each.look.found if one.name in names}
        return Whole(
            generation=running.generation,
            nodes=running.nodes,
            states=tuple(one.look.state for one in held),
            found=tuple(sorted(found.values(), key=age_of)),
            parts=tuple(tuple(part) for part in together.parts),
            taken_ms=self.now_ms(),
            apart=together.apart,
            as_held=tuple(
                len(part) == len(one.pieces) and set(part) == set(one.pieces)
                for part, one in zip(together.parts, held, strict=True)
            ),
        )

    def _together(
        self, workload: str, running: Running, held: Sequence[Held], *, over: bool
    ) -> Together | None:
        """What the hosts have together; None while that can't be told."""
        known = self._incomplete.get(workload)
        if known is None or known.generation != running.generation:
            known = _Incomplete(running.generation, self.now_ms(), ())
        together = put_together(held, running.given, patient=over or self._waited(known))
        if together is not None and together.apart and not over:
            together = None
        if over:
            self._incomplete.pop(workload, None)
        elif together is None or workload in self._incomplete:
            states = tuple(one.look.state for one in held) if together is None else ()
            self._incomplete[workload] = known._replace(states=states)
        return together

    def _waited(self, known: _Incomplete) -> bool:
        return self.now_ms() - known.since_ms >= SLOWER_S * 1000

    def _is_looked_at(self, workload: str, running: Running, states: tuple[str, ...]) -> bool:
        """Whether another look would tell nothing more: it reads all that there is."""
        known = self._incomplete.get(workload)
        return (
            known is not None
            and known.generation == running.generation
            and known.states == states
            and not self._waited(known)
        )

    async def _fetch(
        self,
        workload: str,
        places: Sequence[Place],
        held: Sequence[Held],
        together: Together,
    ) -> tuple[str, int]:
        """Brings what isn't here; why there is no room, if there is none, and how much came."""
        content = self.store.content(workload)
        everything = [piece for part in together.parts for piece in part]
        missing = await asyncio.to_thread(self.store.missing, workload, everything)
        trouble = await asyncio.to_thread(self.store.check_room, missing)
        if trouble:
            return trouble, 0
        content.path("0" * 64).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = {piece.hash for piece in missing}
        for place, one in zip(places, held, strict=True):
            of_its_own = wanted & {piece.hash for piece in one.pieces}
            if of_its_own and await place.shares(self.store.root):
                await place.lend(workload, self.store.root, self._pace_bytes_s)
                wanted -= of_its_own
            for piece in one.pieces:
                if piece.hash in wanted:
                    await fetch(place, workload, piece, content, self._pace_bytes_s)
                    wanted.discard(piece.hash)
        return "", sum(piece.size for piece in missing)


def age_of(one: Saved) -> tuple[int, int, str]:
    """By which the newest of some is found."""
    return one.modified_ms, one.step or 0, one.name
