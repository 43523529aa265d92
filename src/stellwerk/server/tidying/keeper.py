"""Sweeps one state: on request, and by itself once a day while the server runs."""

import asyncio
import logging
from collections.abc import Callable, Collection

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from stellwerk.config import Settings, load
from stellwerk.server.services import Services
from stellwerk.server.tidying import rules
from stellwerk.server.tidying.places import Places
from stellwerk.server.tidying.rules import Kind
from stellwerk.server.tidying.state import State
from stellwerk.server.tidying.tally import Swept, Tally

log = logging.getLogger("stellwerk.server")

FIRST_S = 600.0
"""A server that has just started has better things to do."""

LOOK_S = 600.0
HOUR_MS = 3_600_000


class Keeper:
    """One sweep at a time, each of bounded work."""

    def __init__(self, services: Services, settings: Callable[[], Settings] = load) -> None:
        self._services = services
        self._settings = settings
        self._one = asyncio.Lock()

    async def sweep(
        self, *, dry_run: bool, older_than_ms: int | None = None, only: Collection[Kind] = ()
    ) -> Swept:
        """Removes what is due by the settings; `dry_run` only says what that would be."""
        async with self._one:
            wanted = rules.rules(self._settings(), older_than_ms, only)
            tally = Tally(wanted, self._services.clock.now_ms(), dry_run=dry_run)
            needed = await Places(self._services, tally).sweep()
            await State(self._services, tally).sweep(needed)
            swept = tally.swept()
            if not dry_run:
                _log(swept)
                if not only:
                    note = self._services.store.retention.note_sweep
                    await asyncio.to_thread(note, swept.at_ms)
            return swept

    async def keep_house(self) -> None:
        """Sweeps as often as the settings say, for as long as the server runs."""
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await self.sweep_if_due()
            except Exception:
                # Work goes on untidied; the next look may find the disk or the cluster well again.
                log.exception("what is kept too long could not be removed")
            await asyncio.sleep(LOOK_S)

    async def sweep_if_due(self) -> bool:
        """Sweeps if the last time is long enough ago; says whether it was."""
        every_ms = self._settings().number("tidy_every_hours") * HOUR_MS
        last_ms = await asyncio.to_thread(self._services.store.retention.swept_ms)
        if not every_ms or self._services.clock.now_ms() - last_ms < every_ms:
            return False
        swept = await self.sweep(dry_run=False)
        while swept.more and any(one.count for one in swept.items):
            swept = await self.sweep(dry_run=False)
        return True


def _log(swept: Swept) -> None:
    told = [f"{one.count} {one.kind} ({one.bytes} bytes)" for one in swept.items if one.count]
    if told:
        log.info("removed what was kept too long: %s", ", ".join(told))


GivenKeeper = NamedDependency[SkipValidation[Keeper]]
"""How handlers ask for it."""
