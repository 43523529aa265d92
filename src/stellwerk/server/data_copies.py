"""Copies models and data sets from machine to machine, one at a time, and removes what nobody uses.

What is asked for is looked at before anything moves, and refused with all that is wrong. Copies are
known until the server ends; one that was cut is gone on from when it is asked for again.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from stellwerk.core.data.units import show_data
from stellwerk.core.model.data_there import (
    DataCopy,
    DataRemoved,
    RemoveWish,
    StageWish,
)
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.drivers.agents.checkpoint_places import Place
from stellwerk.drivers.agents.hub_copying import FarHub, OwnHub, copy, look
from stellwerk.drivers.base import DriverError
from stellwerk.server import data_there
from stellwerk.server.data_there import Spot, read_name, spots_of
from stellwerk.server.data_way import make_way
from stellwerk.server.machines import Watches
from stellwerk.server.services import Services

log = logging.getLogger("stellwerk.server")

KEPT = 200
"""So many copies are remembered."""
TOLD_EVERY_BYTES = 8 * 2**20
_NOT_PROVED = "its list of files isn't there, so that nobody can prove it whole"
_NO_WAY = "through the server, as these machines don't reach each other"
_HELP = {
    "data/no-room": "`stw data rm` makes room, or ask with a smaller `--keep-free`",
    "data/disk-full": "`stw data rm` makes room; what has come is gone on from",
    "data/busy": "`stw data where` shows copies under way; try again when it is done",
    "data/in-use": "it can be removed when that is over",
    "data/damaged": "the machine that it comes from has a damaged file: remove it there",
    "data/no-lock": "keep the cache on a local disk: set HF_HOME there",
    "data/not-there": "`stw data where` tells what is where",
}
_CODES = {
    "runtime/no_room": "data/no-room",
    "snapshot/disk-full": "data/disk-full",
    "runtime/busy": "data/busy",
    "runtime/in_use": "data/in-use",
    "runtime/content_damaged": "data/damaged",
    "runtime/no_lock": "data/no-lock",
    "runtime/not_found": "data/not-there",
}


class Copies:
    """Copies of this server, the newest last."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rows: dict[int, DataCopy] = {}
        self._one_at_a_time = asyncio.Lock()
        self._own: dict[str, OwnHub] = {}
        self._next = 1

    def rows(self) -> list[DataCopy]:
        """As far as each is."""
        return list(self._rows.values())

    # asking for copies

    async def stage(self, cluster: str, wish: StageWish) -> list[DataCopy]:
        """Begins the copies to machines that lack it. Raises StellwerkError, and begins nothing."""
        data, commit = read_name(wish.data)
        targets = [
            one
            for one in spots_of(self._services, cluster, wish.node)
            if (held := one.held(data, commit)) is None or held.whole != "proved"
        ]
        away = [one for one in targets if one.node.state in {"unreachable", "gone"}]
        if away and (wish.node or len(away) == len(targets)):
            message = f"{away[0].name} can't be reached now"
            raise StellwerkError.of("data/target-away", message, "try again when it is back")
        problems: list[Problem] = []
        planned = []
        for target in targets:
            if target in away:
                continue
            self._hub(target)
            try:
                source, held = data_there.best_source(
                    self._services, data, commit, target, wish.source
                )
            except StellwerkError as error:
                if not target.has_all(data, commit):
                    problems += [one for one in error.problems if one not in problems]
                continue
            if held.whole == "proved" or not target.has_all(data, commit):
                planned.append((source, target))
        if problems:
            raise StellwerkError(problems)
        rows = [self._row(data, commit, source, target) for source, target in planned]
        if rows:
            self._services.background(self._copy_all(rows, wish))
        return rows

    def _row(self, data: str, commit: str, source: Spot, target: Spot) -> DataCopy:
        row = DataCopy(self._next, data, commit, source.name, target.cluster.name, target.node.name)
        self._next += 1
        self._rows[row.id] = row
        for old in list(self._rows)[:-KEPT]:
            if self._rows[old].state in {"done", "failed"}:
                del self._rows[old]
        return row

    def _say(self, id: int, **now: object) -> None:
        self._rows[id] = replace(self._rows[id], **now)

    # copying

    async def _copy_all(self, rows: Sequence[DataCopy], wish: StageWish) -> None:
        for row in rows:
            async with self._one_at_a_time:
                began_ms = self._services.clock.now_ms()
                self._say(row.id, state="copying", began_ms=began_ms)
                try:
                    await self._copy(row, wish)
                except (DriverError, StellwerkError) as error:
                    one = problem_of(error)
                    log.warning("copy of %s to %s: %s", row.data, row.node, one.message)
                    self._say(row.id, state="failed", code=one.code, message=one.message,
                              help=one.help)  # fmt: skip
                except asyncio.CancelledError:
                    self._say(row.id, state="failed", code="data/cut", help="ask again",
                              message="the server ended")  # fmt: skip
                    raise
                except Exception as error:
                    log.exception("a fault while %s was copied to %s", row.data, row.node)
                    self._say(row.id, state="failed", code="internal", help="ask again",
                              message=f"a fault of the server: {error!r:.200}")  # fmt: skip
                else:
                    self._say(row.id, state="done")
                finally:
                    self._say(row.id, ended_ms=self._services.clock.now_ms())

    async def _copy(self, row: DataCopy, wish: StageWish) -> None:
        (target,) = spots_of(self._services, row.cluster, row.node)
        source, _ = data_there.best_source(
            self._services, row.data, row.revision, target, wish.source
        )
        self._say(row.id, source=source.name)
        from_there, to_there = self._hub(source), self._hub(target)
        wanted = await look(from_there, row.data, row.revision)
        if wanted.whole == "half" or any(not blob for _, blob, _ in wanted.files):
            message = f"{source.name} has only half of {row.data} at {row.revision[:12]}"
            lacks = f": `{wanted.lacks}` is missing" if wanted.lacks else ""
            raise StellwerkError.of("data/half", message + lacks, data_there.HALF_HELP)

        def moved(done: int, total: int) -> None:
            if done >= total or done - self._rows[row.id].done_bytes >= TOLD_EVERY_BYTES:
                self._say(row.id, done_bytes=done, total_bytes=total)

        self._say(row.id, total_bytes=sum(wanted.blobs.values()))
        addresses = [source.node.address] if source.node.address else []
        way = await asyncio.to_thread(make_way, addresses, self._services.clock.now_ms())
        await copy(from_there, to_there, wanted, wish.keep_free_bytes, moved, way)
        notes = [] if wanted.whole == "proved" else [_NOT_PROVED]
        if way is not None and not way.is_open:
            notes.append(_NO_WAY)
        self._say(row.id, note="; ".join(notes))
        await self._look_again(row.cluster)

    async def _look_again(self, cluster: str) -> None:
        engine: object = self._services.engine
        if isinstance(engine, Watches):
            await engine.watch.look(cluster)

    def _hub(self, spot: Spot) -> FarHub | OwnHub:
        """How a machine's cache is reached. Raises StellwerkError where it can't be."""
        home = self._services.checkpoint_home
        places: dict[str, Place] = home.places if home is not None else {}
        for key in spot.keys:
            place = places.get(key)
            if place is not None and place.is_home:
                folder = str(Path(self._services.identity.home))
                return self._own.setdefault(spot.name, OwnHub(spot.name, folder))
            if place is not None:
                return FarHub(spot.name, place)
        message = f"caches on {spot.name} can't be read or written by this server"
        help = "copies go between machines over SSH, those that dial in, and the server's own"
        raise StellwerkError.of("data/no-way", message, help)

    # removing

    async def remove(
        self, cluster: str, wish: RemoveWish, is_seen: data_there.IsSeen
    ) -> list[DataRemoved]:
        """Removes a commit from a machine, or from all of a cluster that have it.

        Raises StellwerkError where a live workload named it, or a program has it open.
        """
        data, commit = read_name(wish.data)
        found = spots_of(self._services, cluster, wish.node)
        having = [one for one in found if one.held(data, commit) is not None]
        short = f"{data} at {commit[:12]}"
        if not having:
            where = found[0].name if wish.node else cluster
            message = f"{where} doesn't have {short}"
            raise StellwerkError.of("data/not-there", message, _HELP["data/not-there"])
        problems = [
            Problem(
                "data/in-use",
                f"{', '.join(names)} uses {short} on {one.name}",
                _HELP["data/in-use"],
            )
            for one in having
            if (names := data_there.users(self._services, one, wish.data, is_seen))
        ]
        if problems:
            raise StellwerkError(problems)
        removed = []
        for one in having:
            try:
                told = await self._hub(one).ask(
                    "hub_remove", name=data, commit=commit, timeout_s=3_600.0
                )
            except DriverError as error:
                raise StellwerkError([problem_of(error)]) from error
            removed.append(DataRemoved(wish.data, one.name, int(told["freed"])))
            log.info("removed %s from %s: %s", wish.data, one.name, show_data(told["freed"]))
        await self._look_again(cluster)
        return removed


def problem_of(error: DriverError | StellwerkError) -> Problem:
    """What went wrong, by a code of its own where it has one."""
    if isinstance(error, StellwerkError):
        return error.problems[0]
    code = _CODES.get(error.code, error.code)
    return Problem(code, error.message, _HELP.get(code, "ask again: what has come is gone on from"))
