"""Has checkpoints follow their job: before a run begins elsewhere, the newest is brought there.

Where the newest can't be had, the start is refused with the reason: a job that has a checkpoint
never begins without it unnoticed.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.drivers.agents.checkpoint_copying import CopiesHome
from stellwerk.drivers.agents.checkpoint_parts import given_of, has_it, part_for
from stellwerk.drivers.agents.checkpoint_places import Look
from stellwerk.drivers.agents.checkpoint_store import Running
from stellwerk.drivers.base import DriverError, Listing, LogChunk, Saved, StartOrder

log = logging.getLogger("stellwerk.drivers")


Given = tuple[dict[str, str], ...]


class Told(msgspec.Struct, frozen=True):
    """What is known of a workload's newest checkpoint at home, for people.

    ``newer`` is one that its machine has and that isn't here yet; ``trouble`` why not. ``next_ms``
    is how long the next copy is expected to take.
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
    next_ms: int = 0
    trouble: str = ""


class CheckpointHome(CopiesHome):
    """What goes on between the machines and the store."""

    # before it runs

    async def prepare(self, order: StartOrder, nodes: Sequence[str]) -> list[str]:
        """Has the newest checkpoints be on the hosts of a run, in their order, before it begins.

        Gives what its output is to begin with. Raises DriverError, final where they can't be had.
        """
        notes: list[str] = []
        given: Given = ()
        if order.resumes:
            async with self.alone(order.resumes):
                notes, given = await self._bring(order.resumes, order, nodes)
        async with self.alone(order.workload):
            running = await asyncio.to_thread(self.store.running, order.workload)
            if running is not None and running.generation >= order.generation:
                return notes  # it was prepared, and the order is given again
            if order.generation > 1:
                more, given = await self._bring(order.workload, order, nodes)
                notes += more
                running = await asyncio.to_thread(self.store.running, order.workload)
            before = replace(running, before=None) if running is not None else None
            if before is not None and before.nodes == tuple(nodes):
                given = given or before.given
            now = Running(order.generation, tuple(nodes), before=before, given=given, run=order.run)
            await asyncio.to_thread(self.store.says, order.workload, now)
            await self._tell_time(order.workload, now)
        return notes

    async def _bring(
        self, workload: str, order: StartOrder, nodes: Sequence[str]
    ) -> tuple[list[str], Given]:
        """Puts the newest on the hosts: what is to be told, and what several of them have then."""
        targets = [place for node in nodes if (place := self.places.get(node)) is not None]
        if len(targets) < len(nodes):
            return [], ()
        is_in_place, note = await self._newest_home(workload, order, nodes)
        notes = [note] if note else []
        whole = await asyncio.to_thread(self.store.newest, workload)
        if whole is None or is_in_place:
            return notes, ()
        given: list[dict[str, str]] = []
        for index, place in enumerate(targets):
            look = await place.look("settled", workload, over=True)
            pieces = part_for(whole, index, len(targets))
            is_same = has_it(whole, index, len(targets), look.state)
            is_newer = len(targets) == 1 and look.found and look.generation > whole.generation
            if not is_same and not is_newer:
                await place.put(workload, pieces, self.store.content(workload))
                log.info("checkpoints of %s were put on %s", workload, nodes[index])
            given.append(given_of(pieces))
        return notes, tuple(given) if len(targets) > 1 else ()

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
        running = await self._begun(workload, running)
        is_given_up = workload != order.workload or running.generation <= order.lost_generation
        is_where_it_was = tuple(nodes) == running.nodes
        if is_where_it_was and len(nodes) == 1:
            lost = await self._without_record(running, workload)
            note = f"{_names(lost)} has no record of the last run" if lost else ""
            return not lost, note + await self._instead(workload) if lost else ""
        if running.final:
            return False, await self._apart(workload, running)
        silent = [
            node
            for node in running.nodes
            if (place := self.places.get(node)) is None or not place.is_up
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
        await self.carry_alone(workload, over=True)
        running = await asyncio.to_thread(self.store.running, workload)
        if running is None:
            return False, ""
        if running.trouble and is_where_it_was:
            return True, f"what rank 0 has saved isn't on its other machines: {running.trouble}"
        if running.trouble:
            raise _away(running.trouble)
        return False, await self._apart(workload, running)

    async def _apart(self, workload: str, running: Running) -> str:
        """What is to be told where hosts of one run have saved no step together."""
        if not running.apart:
            return ""
        whole = await asyncio.to_thread(self.store.newest, workload)
        told = f"its machines saved no step together ({running.apart})"
        if whole is None or whole.apart:
            return f"{told}: each has what it saved itself"
        return told + await self._instead(workload)

    async def _begun(self, workload: str, running: Running) -> Running:
        """The newest run that did begin, as far as that is known: one may have been ordered alone.

        Of one that has begun something is at home, or its machine knows it, or can't be asked.
        """
        newest = await asyncio.to_thread(self.store.newest, workload)
        has_saved = newest is not None and newest.generation >= running.generation
        places = [self.places.get(node) for node in running.nodes]
        is_silent = any(place is None or not place.is_up for place in places)
        if running.before is None or running.told or has_saved or is_silent:
            return running
        if len(await self._without_record(running, workload)) < len(places):
            return running
        await asyncio.to_thread(self.store.says, workload, running.before)
        return running.before

    async def _without_record(self, running: Running, workload: str) -> list[str]:
        """Hosts of a run that know nothing of it: set up anew, or their disk was wiped."""
        looks = [await self._look(node, workload) for node in running.nodes]
        return [
            node
            for node, look in zip(running.nodes, looks, strict=True)
            if look.generation < running.generation
        ]

    async def _look(self, node: str, workload: str) -> Look:
        return await self.places[node].look("settled", workload, over=True)

    async def _instead(self, workload: str) -> str:
        whole = await asyncio.to_thread(self.store.newest, workload)
        if whole is None:
            return "; no copy of a checkpoint is at home"
        age_s = max(0, self.now_ms() - whole.taken_ms) // 1000
        return f"; the copy at home is {_said(whole.newest)}, made {_span(age_s)} ago"

    async def _found_anywhere(self, workload: str) -> tuple[Running | None, str]:
        """Which machine has the newest run of a workload of which nothing is written down."""
        up = [node for node, place in self.places.items() if place.is_up]
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
            silent = [node for node in self.places if node not in up]
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
        places = [place for node in nodes if (place := self.places.get(node)) is not None]
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
            next_ms=self.predicted(workload).ms,
            from_nodes=whole.nodes,
            folder=str(self.store.root / workload),
        )


def _away(why: str) -> DriverError:
    return DriverError("checkpoint/away", why, final=True)


def _said(one: Saved) -> str:
    return one.name if one.step is None else f"{one.name} (step {one.step:,})"


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes)


def _span(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
