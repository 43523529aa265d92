"""When waiting work could start: what is known of lengths, put to the program that looks ahead.

How long work runs is predicted by `core.lengths`. An answer is kept for a short while and carries
its age. Nothing decides by it.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from stellwerk.core.forecast import Compared, Forecast
from stellwerk.core.future import Knowledge
from stellwerk.core.lengths import History, kept_ms, keys_of, keys_of_workload, limit_of
from stellwerk.core.lower import Lowered
from stellwerk.core.model.ids import ShapeId, WorkloadId, digest
from stellwerk.core.model.lengths import Length
from stellwerk.core.model.workload import Phase, Workload
from stellwerk.core.place.aging import turn_of
from stellwerk.core.preview import NOBODY, with_one_more
from stellwerk.core.view import View
from stellwerk.engine.foresee import Answer, Question
from stellwerk.server.models import ForecastView
from stellwerk.server.services import PROJECT, Services
from stellwerk.store import Store, WorkloadFilter

log = logging.getLogger("stellwerk.server")

LIVE: tuple[Phase, ...] = ("Starting", "Dispatched", "SettingUp", "Running", "Stopping")
WAITING = 500
"""So many of the first in line get a length; of those behind none is known."""

ASKED = 50
"""So many of the first in line are foreseen together, since they are asked for together."""

LIMIT_S = 3.0
FRESH_S = 5.0


class Outlook:
    """Asks for forecasts, one at a time, and remembers the last answer for a moment."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._one = asyncio.Lock()
        self._last: tuple[float, Answer] = (0.0, {})

    async def of(self, wanted: Sequence[WorkloadId]) -> Answer:
        """When these could start; of what doesn't wait, or can't be foreseen, nothing is said."""
        async with self._one:
            until_s, known = self._last
            now_s = asyncio.get_running_loop().time()
            if now_s >= until_s or any(id not in known for id in wanted):
                view = self._services.engine.view()
                asked = tuple(dict.fromkeys((*wanted, *first_in_line(view)[:ASKED])))
                known = await self._ask(view, asked, {})
                self._last = (now_s + FRESH_S, known)
            found = {id: known[id] for id in wanted if id in known}
        for id, told in found.items():
            self._services.tally.forecast(id, told)
        return found

    async def of_one_more(self, owner: str, name: str, lowered: Lowered) -> Forecast | None:
        """When a workload could start that isn't submitted."""
        async with self._one:
            view = with_one_more(self._services.engine.view(), lowered.shape, lowered.priority)
            [own] = [part for part in view.shapes if any(h.id == NOBODY for h in part.heads)]
            if own.count > len(own.heads):
                return None  # those of its kind that come before it aren't all in the view
            mine = {NOBODY: self.length_of(owner, name, lowered)}
            return (await self._ask(view, (NOBODY,), mine)).get(NOBODY)

    async def of_change(
        self, before: View, after: View, mine: Mapping[WorkloadId, Length]
    ) -> dict[WorkloadId, Compared]:
        """What a change makes of the starts of the first in line, in the same futures."""
        wanted = tuple(dict.fromkeys((*mine, *first_in_line(after)[:ASKED])))
        services = self._services
        async with self._one:
            known = await asyncio.to_thread(
                knowledge, services.store, services.engine.lengths, before, mine
            )
            question = msgspec.json.encode(Question(before, known, wanted, after))
            told = await _run(question, 2 * LIMIT_S)
        return msgspec.json.decode(told, type=dict[WorkloadId, Compared]) if told else {}

    def length_of(self, owner: str, name: str, lowered: Lowered) -> Length:
        """What is known of how long a task would run that isn't submitted."""
        limits = lowered.policies
        shorter = [one for one in (limits.time_limit_ms, limits.max_exec_ms) if one]
        limit_ms = limit_of(min(shorter, default=0), limits.grace_ms)
        keys = keys_of(PROJECT, owner, name, "", ShapeId(digest(lowered.shape)))
        return self._services.engine.lengths.length(keys, limit_ms=limit_ms)

    async def _ask(
        self,
        view: View,
        wanted: tuple[WorkloadId, ...],
        more: Mapping[WorkloadId, Length],
    ) -> Answer:
        services = self._services
        known = await asyncio.to_thread(
            knowledge, services.store, services.engine.lengths, view, more
        )
        question = msgspec.json.encode(Question(view, known, wanted))
        told = await _run(question, LIMIT_S)
        return msgspec.json.decode(told, type=dict[WorkloadId, Forecast]) if told else {}


async def _run(question: bytes, limit_s: float) -> bytes:
    """Lets the program answer; nothing if it takes too long or fails, which is logged."""
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "stellwerk.engine.foresee",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        told, said = await asyncio.wait_for(program.communicate(question), limit_s)
    except TimeoutError:
        log.info("a look ahead was given up after %g s", limit_s)
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            program.kill()
        await program.wait()
    if program.returncode:
        log.warning("a look ahead failed: %s", said.decode(errors="replace")[-500:])
        return b""
    return told


def knowledge(
    store: Store, lengths: History, view: View, more: Mapping[WorkloadId, Length]
) -> Knowledge:
    """What is known of the lengths of all that runs, and of the first that wait."""
    live = {
        run.id: (run.planned_ms, _length(lengths, row.workload, view.now_ms - run.planned_ms))
        for row in store.workloads(WorkloadFilter(phases=LIVE))
        if (run := row.workload.live_run) is not None
    }
    waiting = dict(more)
    for id in first_in_line(view):
        found = store.workload(id, PROJECT)
        if found is not None:
            waiting[id] = _length(lengths, found.workload, 0)
    return Knowledge(live, waiting)


def _length(lengths: History, workload: Workload, ran_ms: int) -> Length:
    """Of the run that goes on, or of the next one. A notice says how long it has at most."""
    limit_ms = limit_of(workload.limit_ms, workload.policies.grace_ms)
    found = lengths.length(keys_of_workload(workload), max(0, ran_ms), kept_ms(workload), limit_ms)
    run = workload.live_run
    if run is None or not run.notice:
        return found
    most_ms = run.notice_ms + run.leaves_in_ms - run.planned_ms
    likely = tuple(min(one, most_ms) for one in found.likely_ms) or (most_ms,)
    return Length(likely, most_ms, found.basis, found.seen)


def first_in_line(view: View) -> list[WorkloadId]:
    """The first that wait, in the order in which they are looked at."""
    heads = [head for part in view.shapes for head in part.heads]
    aging = view.limits.aging
    heads.sort(key=lambda head: turn_of(aging, head, view.now_ms))
    return [head.id for head in heads[:WAITING] if head.id != NOBODY]


def forecast_view(found: Forecast) -> ForecastView:
    """A forecast with all of its fields."""
    return ForecastView(**{**msgspec.structs.asdict(found), "assumes": list(found.assumes)})


GivenOutlook = NamedDependency[SkipValidation[Outlook]]
"""How handlers ask for it."""
