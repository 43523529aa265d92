"""One person's own runtime on this machine, which has called the server: a hand and an agent.

The server never becomes that person: what it has to say goes to a process of theirs, which the
kernel has named, and everything there has their rights and lies in their folders.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.reports import Report
from stellwerk.drivers.agents.bringing import lay_out
from stellwerk.drivers.agents.conversation import Conversation, Met, check_name
from stellwerk.drivers.agents.hands import SOON_S, Hand, hello_of
from stellwerk.drivers.agents.layout import layout_of
from stellwerk.drivers.agents.link import AgentLink, JSONObject, OnPush
from stellwerk.drivers.agents.sessions import AgentSession
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import (
    DriverError,
    ExecOrder,
    Folders,
    LogChunk,
    LogStream,
    Saved,
    StartOrder,
)
from stellwerk.runtime import PROTOCOL

AGENT_S = 40.0
KEPT = {"checkpoint_dir": "checkpoints", "output_dir": "outputs"}
Dial = Callable[[], Awaitable[AgentSession]]
"""Has the person's process call again, for a command inside a run."""


class Guest:
    """A person's runtime; ``tell`` is given what its agent reports."""

    def __init__(
        self,
        person: str,
        cluster: str,
        hand: Hand,
        blobs: BlobReader,
        tell: Callable[[Report], None],
        dial: Dial,
    ) -> None:
        self.person = person
        self.hand = hand
        self.talk = Conversation(cluster, self._reach, tell, lambda: None)
        self._blobs = blobs
        self._dial = dial
        self._laying_out = asyncio.Lock()

    @property
    def is_there(self) -> bool:
        """Whether its agent can be spoken with now."""
        link = self.talk.link
        return link is not None and not link.closed.is_set()

    async def _reach(self, on_push: OnPush, on_break: Callable[[], None]) -> Met:
        await self.hand.ask("agent", timeout_s=AGENT_S)
        link = AgentLink(on_push, on_break)
        self.hand.join(link)
        hello = await hello_of(link, f"of {self.person}")
        if PROTOCOL not in hello.get("protocol", ()):
            link.hang_up()
            message = f"the runtime of {self.person} speaks another protocol than this server"
            raise DriverError("driver/protocol", message, final=False)
        return link, hello

    async def start(self, order: StartOrder) -> None:
        """Brings what the run needs, then has the agent start it; twice is once."""
        check_name(order.run)
        layout = await asyncio.to_thread(layout_of, order, f"{self.hand.home}/runtime", self._blobs)
        async with self._laying_out:
            made = await lay_out(self.hand, layout, self._blobs)
        home = self.hand.home
        spec: dict[str, Any] = {
            what: f"{home}/{folder}/{order.workload}" for what, folder in KEPT.items()
        }
        spec |= {what: asked for what in KEPT if (asked := getattr(order, what))}
        if order.resumes:
            check_name(order.resumes)
            spec["resume_from"] = f"{home}/checkpoints/{order.resumes}"
        try:
            await self.talk.start(order, {**spec, **layout.spec}, person=self.person)
        except DriverError as error:
            if error.final and made:
                with contextlib.suppress(DriverError):
                    await self.hand.ask("remove", places=made)
            raise

    async def forget(self, run: RunId) -> None:
        """Removes what a finished run left."""
        await self.talk.about("forget", run)
        await self.hand.ask("remove", run=run)

    async def exec(self, order: ExecOrder) -> AgentSession:
        """A session with a keeper, over a connection that the person's process makes."""
        await self.talk.connected()
        session = await self._dial()
        await session.begin(order)
        return session

    # what its runs leave

    async def _ask(self, op: str, run: RunId, **fields: Any) -> tuple[JSONObject, bytes]:
        check_name(run)
        return await self.hand.ask(op, run=run, workload=workload_of(run), **fields)

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Has a log read by the person's own process."""
        head, data = await self._ask(
            "log", run, stream=stream, rank=rank, offset=offset, limit=limit
        )
        return LogChunk(data, offset, int(head["size"]))

    async def folders(self, run: RunId) -> Folders:
        """The directories of a run."""
        head, _ = await self._ask("folders", run, timeout_s=SOON_S)
        return Folders(head["work"], head["output"], head["checkpoint"])

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        """The whole checkpoints of a workload, the newest last."""
        head, _ = await self._ask("checkpoints", RunId(f"{workload}-1"))
        return [Saved(*one) for one in head["found"]]
