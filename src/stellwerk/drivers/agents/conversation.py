"""Orders to one agent, and what it reports: the same wherever it is.

A connection that breaks is made anew at the next order or report, and begins with an inventory of
all that the agent knows. How an agent is reached, and whose clock it goes by, its holder knows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report, RunReport
from stellwerk.drivers.agents.gang import Part, part_of
from stellwerk.drivers.agents.link import AgentGone, AgentLink, AgentRefused, JSONObject, OnPush
from stellwerk.drivers.agents.sessions import OPEN_ENDED
from stellwerk.drivers.agents.translate import (
    inventory_of,
    report_of,
    sample_of,
    spec_of,
    why_of,
)
from stellwerk.drivers.base import DriverError, StartOrder, StopOrder
from stellwerk.runtime.files import RUN_NAME
from stellwerk.runtime.system import now_ms

Met = tuple[AgentLink, JSONObject]
"""A connection, and how the agent introduced itself."""
Reach = Callable[[OnPush, Callable[[], None]], Awaitable[Met]]
"""Makes a connection; is told what to call for what comes unasked, and when it breaks."""
HearParts = Callable[[list[Part], bool], None]
"""Is given parts of gangs; and whether they are all that there are."""
ANSWER_MS = 10_000


def no_parts(_parts: list[Part], _all: bool) -> None:
    """Of somebody who starts no gangs."""


def no_console(_state: JSONObject) -> None:
    """Of a machine that belongs to whoever sits there anyway."""


LONGEST_MS = 10 * 365 * 86_400_000
"""No window is told to close later than so."""


class Conversation:
    """All that is said with one agent; ``tell`` is given each report, ``broke`` called at a break.

    ``live`` are the runs that aren't over, as far as the agent has said. ``ahead_ms`` is by how
    much the agent's clock is ahead of ours: its times are told by our clock.
    """

    def __init__(
        self,
        cluster: str,
        reach: Reach,
        tell: Callable[[Report], None],
        broke: Callable[[], None],
        hear_parts: HearParts = no_parts,
    ) -> None:
        self.cluster = cluster
        self.live: set[str] = set()
        self.epoch = 0
        self.link: AgentLink | None = None
        self.hello: JSONObject = {}
        self.ahead_ms = 0
        self._reach = reach
        self._hand_on = tell
        self._broke = broke
        self._hear_parts = hear_parts
        self._linking = asyncio.Lock()
        self._early: list[JSONObject] | None = None
        self._is_open = False
        self.on_console: Callable[[JSONObject], None] = no_console

    # connecting

    async def open(self) -> None:
        """Connects to the agent, starting it where there is none."""
        await self.close()
        self._is_open = True
        await self.connected()

    async def close(self) -> None:
        """Hangs up; agent and runs go on."""
        self._is_open = False
        link, self.link = self.link, None
        if link is not None:
            await link.close()

    async def connected(self) -> AgentLink:
        """The connection, made anew if it broke. Raises a DriverError that isn't final."""
        async with self._linking:
            if not self._is_open:
                raise DriverError("driver/closed", "the driver isn't open", final=False)
            if self.link is None or self.link.closed.is_set():
                self.link = await self._connect()
            return self.link

    async def _connect(self) -> AgentLink:
        """Connects and asks for all runs; what is pushed before those are told is told after."""
        self._early = []
        link, hello = await self._reach(self._pushed, self._broke)
        try:
            answer = await link.call("watch")
        except (AgentGone, AgentRefused) as error:
            link.hang_up()
            raise DriverError("driver/agent-silent", str(error), final=False) from error
        self.hello = hello
        early, self._early = self._early, None
        now_ms = int(hello["now_ms"]) - self.ahead_ms
        self._take_all(answer["runs"], now_ms)
        for push in early:
            self._pushed(push)
        return link

    # reports

    def _pushed(self, push: JSONObject) -> None:
        if self._early is not None:
            self._early.append(push)
        elif push.get("event") == "run":
            self._take(push["run"])
        elif push.get("event") == "console":
            self.on_console(push.get("console") or {})
        elif push.get("event") == "sample":
            self._tell(sample_of(self.cluster, push, self.ahead_ms))

    def _take(self, said: JSONObject) -> None:
        """Passes on what is said of a run, or of a part of one."""
        part = part_of(self.cluster, said, self.ahead_ms)
        if part is None:
            self._tell(report_of(self.cluster, said, self.ahead_ms))
            return
        self._note(part.report)
        self._hear_parts([part], False)

    def _take_all(self, runs: Sequence[JSONObject], now_ms: int) -> None:
        whole = [said for said in runs if not said.get("gang")]
        found = (part_of(self.cluster, said, self.ahead_ms) for said in runs if said.get("gang"))
        parts = [part for part in found if part is not None]
        self.live = set()
        for part in parts:
            self._note(part.report)
        inventory = inventory_of(self.cluster, whole, now_ms, self.ahead_ms)
        for run in inventory.runs:
            self._note(run)
        self._hear_parts(parts, True)
        self._hand_on(inventory)

    def _note(self, report: RunReport) -> None:
        if report.end is None:
            self.live.add(report.run)
        else:
            self.live.discard(report.run)

    def _tell(self, report: Report) -> None:
        if isinstance(report, RunReport):
            self._note(report)
        self._hand_on(report)

    # orders

    async def start(
        self, order: StartOrder, additions: Mapping[str, Any], *, person: str = ""
    ) -> None:
        """Has the agent start a run, with what was laid out for it; twice is once.

        With a ``person`` it refuses unless it is theirs.
        """
        self.epoch = max(self.epoch, order.epoch)
        spec = {**spec_of(order, now_ms()), **additions}
        sent: JSONObject = {"spec": spec, "secrets": order.secrets}
        if order.secret_files:
            sent["secret_files"] = order.secret_files
        if person:
            sent["person"] = person
        answer = await self.ask("start", **sent)
        if answer.get("existing"):
            self._take(answer)

    async def stop(self, order: StopOrder) -> None:
        """Has the agent give notice to a run."""
        self.epoch = max(self.epoch, order.epoch)
        if order.window_end_ms:
            await self.ask(
                "window",
                run=order.run,
                generation=order.generation,
                epoch=order.epoch,
                window_end_in_ms=max(1, min(order.window_end_ms - now_ms(), LONGEST_MS)),
            )
            return
        await self.ask(
            "stop",
            run=order.run,
            generation=order.generation,
            epoch=order.epoch,
            why=why_of(order.why),
            grace_ms=order.grace_ms,
        )

    async def about(self, op: str, run: RunId) -> JSONObject:
        """Gives an order that says no more than which run is meant."""
        return await self.ask(op, run=run, epoch=self.epoch or None)

    async def ask(self, op: str, *, timeout_ms: int = ANSWER_MS, **fields: Any) -> JSONObject:
        """Asks the agent for something. Raises DriverError."""
        link = await self.connected()
        try:
            return await link.call(op, timeout_ms, **fields)
        except AgentGone as error:
            # Whoever connects anew finds out whether it is only slow, and says so where it isn't.
            link.hang_up()
            raise DriverError("driver/no-answer", str(error), final=False) from error
        except AgentRefused as refusal:
            final = refusal.code not in OPEN_ENDED
            raise DriverError(f"runtime/{refusal.code}", refusal.message, final=final) from refusal


def check_name(run: str) -> None:
    """Refuses for good what can't be the name of a run."""
    if RUN_NAME.fullmatch(run) is None:
        raise DriverError("runtime/spec_invalid", f"`{run}` is no run's name", final=True)
