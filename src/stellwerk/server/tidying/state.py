"""Sweeps what lies in the state: rows, decisions and requests by age, and content by references.

What refers is read first and, for what was submitted meanwhile, once more while the gate is closed.
Lists of files go before files, so that a submission either finds all of its code or is told that it
is missing.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import NamedTuple, TypeVar

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import WorkloadId
from stellwerk.server.services import PROJECT, Services
from stellwerk.server.tidying.rules import Kind
from stellwerk.server.tidying.tally import Tally
from stellwerk.store import Marks, StoreError
from stellwerk.store.references import is_manifest

MOST = 50_000
"""Rows, blobs and sealed values of a kind that one sweep removes."""

CHUNK = 500
"""So many are removed while the gate is closed; then submissions have their turn."""

T = TypeVar("T")
Amount = tuple[int, int]
"""A count, and bytes."""


class State:
    """The store, seen by who tidies it."""

    def __init__(self, services: Services, tally: Tally) -> None:
        self._services = services
        self._kept = services.store.retention
        self._blobs = services.store.blobs
        self._tally = tally
        self._without: frozenset[WorkloadId] = frozenset()

    async def sweep(self, needed: frozenset[WorkloadId]) -> None:
        """Removes what is due; workloads that are `needed` stay on the lists."""
        counts = await asyncio.to_thread(self._kept.counts)
        if "workloads" in self._tally.rules:
            await self._workloads(needed, counts["workloads"])
        if "commands" in self._tally.rules:
            await self._commands(counts["inbox"])
        await self._unreferenced(counts["decisions"])
        if "decisions" in self._tally.rules:
            await self._placed()
        if "journal" in self._tally.rules:
            self._tally.says("journal", left=(counts["journal"], None))

    async def _placed(self) -> None:
        """Old decisions about placements go with what only they were made of; the last stays."""
        before_ms = self._tally.before_ms("decisions")
        if before_ms is not None and not self._tally.dry_run:
            await asyncio.to_thread(self._services.engine.placements.prune, before_ms)

    async def _workloads(self, needed: frozenset[WorkloadId], rows: int) -> None:
        """Takes workloads off the lists of which nothing is left on any cluster."""
        going: list[WorkloadId] = []
        before_ms = self._tally.before_ms("workloads")
        if before_ms is not None:
            ids = await asyncio.to_thread(self._kept.ended_before, before_ms, MOST)
            self._tally.more |= len(ids) == MOST
            going = [id for id in ids if id not in needed]
            if self._tally.unseen:
                going = await asyncio.to_thread(self._surely_gone, going)
        if self._tally.dry_run:
            self._without = frozenset(going)
        else:
            for chunk in _chunks(going):
                async with self._services.gate.closed():
                    await asyncio.to_thread(self._kept.drop_workloads, chunk)
        self._tally.says("workloads", (len(going), 0), (rows - len(going), None))

    def _surely_gone(self, ids: Sequence[WorkloadId]) -> list[WorkloadId]:
        """Those that never ran on a cluster of which a machine is out of reach now."""
        unseen = self._tally.unseen
        rows = ((id, self._services.store.workload(id, PROJECT)) for id in ids)
        return [
            id
            for id, row in rows
            if row is None or not any(run.allocation.cluster in unseen for run in row.workload.runs)
        ]

    async def _unreferenced(self, decisions: int) -> None:
        """Marks what is referred to, and removes the rest."""
        upto = await asyncio.to_thread(self._kept.newest_command)
        marks = Marks(
            await self._old("blobs", self._blobs.old),
            await self._old("decisions", self._kept.decisions),
            await self._old("secrets", self._kept.sealed),
        )
        if any(marks):
            since_ms = self._tally.before_ms("commands") or 0
            texts = self._kept.texts(self._without, since_ms)
            await asyncio.to_thread(self._note, marks, texts)
        piles = [
            Pile("blobs", marks.blobs, self._drop_blobs),
            Pile("decisions", marks.decisions, self._kept.drop_decisions),
            Pile("secrets", marks.sealed, self._kept.drop_sealed),
        ]
        for pile in piles:
            if pile.kind in self._tally.rules:
                gone = await self._remove(pile, marks, upto)
                left = await self._left_of(pile.kind, gone, decisions)
                self._tally.says(pile.kind, gone, left)

    async def _old(self, kind: Kind, ask: Callable[[int], dict[str, int]]) -> dict[str, int]:
        before_ms = self._tally.before_ms(kind)
        return {} if before_ms is None else await asyncio.to_thread(ask, before_ms)

    def _note(self, marks: Marks, texts: Iterable[bytes]) -> None:
        marks.note(self._unless_stopping(texts), self._read)

    def _unless_stopping(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """Breaks off when the server ends; nothing may go then that wasn't looked for."""
        for text in texts:
            if self._services.stopping.is_set():
                raise StellwerkError.of("server/stopping", "the server ends", "try again")
            yield text

    def _read(self, name: str) -> bytes | None:
        try:
            return self._services.store.blobs.get(name)
        except StoreError as error:
            if error.problems[0].code == "store/no-blob":
                return None
            raise

    async def _remove(self, pile: "Pile", marks: Marks, upto: int) -> Amount:
        """Removes chunk by chunk what is still not referred to when the gate is closed."""
        names = await asyncio.to_thread(self._in_order, pile)
        self._tally.more |= len(names) > MOST
        if self._tally.dry_run:
            return len(names[:MOST]), sum(pile.found[name] for name in names[:MOST])
        count = size = 0
        for chunk in _chunks(names[:MOST]):

            def drop(names: Sequence[str] = chunk) -> Amount:
                self._note(marks, (text for _, text in self._kept.commands_after(upto)))
                going = [name for name in names if name in pile.found]
                return pile.drop(going), sum(pile.found[name] for name in going)

            async with self._services.gate.closed():
                gone = await asyncio.to_thread(drop)
            count, size = count + gone[0], size + gone[1]
        return count, size

    def _in_order(self, pile: "Pile") -> list[str]:
        """The names of a pile; of blobs first those that list others: who finds a list finds its
        files.
        """
        if pile.kind != "blobs":
            return list(pile.found)
        return sorted(pile.found, key=lambda name: not is_manifest(self._blobs.begins(name)))

    def _drop_blobs(self, names: Sequence[str]) -> int:
        before_ms = self._tally.before_ms("blobs")
        return 0 if before_ms is None else len(self._blobs.drop(names, before_ms).names)

    async def _left_of(
        self, kind: Kind, gone: Amount, decisions: int
    ) -> tuple[int | None, int | None]:
        """What is left of a kind, or would be."""
        if kind == "decisions":
            return decisions - gone[0], None
        if kind == "secrets":
            return None, None
        left, size = await asyncio.to_thread(self._blobs.measure)
        return (left - gone[0], size - gone[1]) if self._tally.dry_run else (left, size)

    async def _commands(self, rows: int) -> None:
        before_ms = self._tally.before_ms("commands")
        gone = (0, 0)
        if before_ms is not None:
            gone = await asyncio.to_thread(self._kept.old_commands, before_ms)
            if not self._tally.dry_run:
                await asyncio.to_thread(self._kept.forget_commands, before_ms)
        self._tally.says("commands", gone, (rows - gone[0], None))


class Pile(NamedTuple):
    """What of one kind may go, with sizes, and how it is removed; gives how many were."""

    kind: Kind
    found: MutableMapping[str, int]
    drop: Callable[[Sequence[str]], int]


def _chunks(names: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(names), CHUNK):
        yield names[start : start + CHUNK]
