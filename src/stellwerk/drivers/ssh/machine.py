"""One machine at the end of an SSH connection: its hand, its agent, and how it is.

The connection is made anew when something is asked for after it broke; whoever holds the machine
decides how often that is tried.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Any

import asyncssh
from msgspec.structs import replace

from stellwerk.core.inventory.facts import cluster_of
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.draining import moment
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.reports import Report
from stellwerk.drivers.agents.bringing import lay_out
from stellwerk.drivers.agents.conversation import (
    Conversation,
    HearParts,
    Met,
    check_name,
    no_parts,
)
from stellwerk.drivers.agents.hands import hello_of
from stellwerk.drivers.agents.layout import layout_of
from stellwerk.drivers.agents.link import AgentGone, AgentLink, AgentRefused, JSONObject, OnPush
from stellwerk.drivers.agents.sessions import AgentSession
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import DriverError, ExecOrder, StartOrder
from stellwerk.drivers.ssh.dial import Dials
from stellwerk.drivers.ssh.hand import Build, Channel, Hand, Opener
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.troubles import SshTrouble

PROBE_MS = 30_000
AGENT_S = 40.0
SKEW_MS = 5_000
"""A clock that is off by no more is taken as it is."""
NOTHING_MORE: JSONObject = {}
KEPT = {"checkpoint_dir": "checkpoints", "output_dir": "outputs"}
"""Folders beside the runtime's, with one for each workload: they outlive its runs."""


def in_use(node: Node, console: JSONObject, ahead_ms: int) -> Node:
    """The node as one at which somebody sits, if that is so and they come first there."""
    if console.get("taken") is not True or node.state != "ready":
        return node
    since_ms = console.get("since_ms")
    since = f" since {moment(since_ms - ahead_ms)}" if type(since_ms) is int else ""
    note = "; ".join(filter(None, (f"somebody sits there{since}", node.note)))
    return replace(node, state="in_use", note=note)


def unseen(host: Host, console: JSONObject) -> list[str]:
    """Says that a rule which was asked for can't be kept."""
    if host.console != "notice" or console.get("seen_by"):
        return []
    if not console:
        return ["its runtime is too old to tell who sits there"]
    return ["who sits there can't be told: it has neither a seat of logind nor a file of logins"]


class Machine:
    """A host of a cluster; ``tell`` is given what its agent reports."""

    def __init__(
        self,
        cluster: str,
        host: Host,
        dialer: Dials,
        build: Build,
        key: str,
        blobs: BlobReader,
        now_ms: Callable[[], int],
        tell: Callable[[Report], None],
        broke: Callable[[], None],
        hear_parts: HearParts = no_parts,
    ) -> None:
        self.host = host
        self.node = Node(
            host.node, cpus_milli=0, memory_bytes=0, state="unreachable", domains=host.domains
        )
        self.cluster: Cluster | None = None
        self.found: JSONObject = {}
        self.trouble: DriverError | None = None
        self.hand: Hand | None = None
        self.talk = Conversation(cluster, self._reach, tell, broke, hear_parts)
        self.talk.on_console = self._hear_console
        self.console: JSONObject = {}
        self._room: Collection[str] = ()
        self._changed: Callable[[], None] = lambda: None
        self._dialer = dialer
        self._opener = Opener(host, build, key)
        self._blobs = blobs
        self._now_ms = now_ms
        self._opening = asyncio.Lock()
        self._dialing = asyncio.Lock()
        self._laying_out = asyncio.Lock()
        self._accept: Collection[str] = ()

    @property
    def is_connected(self) -> bool:
        """Whether the agent can be spoken with now."""
        link = self.talk.link
        return link is not None and not link.closed.is_set()

    # connecting

    async def open(self, accept: Collection[str] = ()) -> None:
        """Connects if need be. Raises DriverError, and remembers it as how the machine is."""
        async with self._opening:
            if self.is_connected:
                return
            self._accept = accept
            try:
                await self.talk.open()
            except DriverError as error:
                self.trouble = error
                raise
            self.trouble = None

    async def close(self) -> None:
        """Hangs up; what runs there goes on."""
        await self.talk.close()
        hand, self.hand = self.hand, None
        if hand is not None:
            await hand.close()

    async def handy(self) -> Hand:
        """The hand, made anew if its connection broke. Raises SshTrouble."""
        async with self._dialing:
            if self.hand is not None and not self.hand.closed.is_set():
                return self.hand
            if self.hand is not None:
                await self.hand.close()
            self.hand = await self._dial()
            return self.hand

    async def _dial(self) -> Hand:
        connection = await self._dialer.connect(self.host, self._accept)
        try:
            folder = str(self.found.get("home") or self.host.folder)
            process, found = await self._opener.open(connection, "hand", folder)
        except BaseException:
            connection.abort()
            raise
        self._check_same(found)
        self.found = {**self.found, **found}
        address = connection.get_extra_info("peername")
        self.found["address"] = str(address[0]) if address else ""
        return Hand(self.host, connection, process, str(found["home"]))

    def _check_same(self, found: JSONObject) -> None:
        """Another machine behind the same name has no memory of what runs on the first one."""
        before, now = self.found.get("machine_id"), found.get("machine_id")
        if before and now != before:
            message = (
                f"{self.host} is another machine than before ({str(before)[:12]}, now "
                f"{str(now)[:12]})"
            )
            remedy = "if it was replaced, remove it from its cluster and add it again"
            raise SshTrouble("another-machine", message, remedy)

    async def _reach(self, on_push: OnPush, on_break: Callable[[], None]) -> Met:
        hand = await self.handy()
        await hand.ask("agent", timeout_s=AGENT_S)
        link = AgentLink(on_push, on_break)
        hand.join(link)
        before_ms = self._now_ms()
        hello = await hello_of(link, f"on {self.host}")
        between_ms = (before_ms + self._now_ms()) // 2
        await self._tell_rule(link, hello)
        ahead_ms = int(hello["now_ms"]) - between_ms
        self.talk.ahead_ms = ahead_ms if abs(ahead_ms) > SKEW_MS else 0
        # What its inventory leaves out is compared with what was seen here: by our clock alone.
        return link, {**hello, "now_ms": before_ms + self.talk.ahead_ms}

    # who sits there

    def mind(self, room: Collection[str], changed: Callable[[], None]) -> None:
        """``room`` is where it stands: among several, people come first. ``changed`` is called when
        somebody sits down or has left.
        """
        self._room, self._changed = room, changed

    async def _tell_rule(self, link: AgentLink, hello: JSONObject) -> None:
        """Has the agent go by this cluster's rule from now on, also while nobody can be asked."""
        self.console = {}
        if "console" not in hello.get("can", ()):
            return
        rule = self.host.console or ("notice" if len(self._room) > 1 else "ignore")
        more = {"quiet_ms": self.host.quiet_ms} if self.host.quiet_ms else {}
        try:
            answer = await link.call("console", do=rule, **more)
        except (AgentGone, AgentRefused) as error:
            link.hang_up()
            message = f"the agent on {self.host} takes no rule for who sits there: {error}"
            raise DriverError("driver/agent-silent", message, final=False) from error
        self.console = answer.get("console") or {}

    def _hear_console(self, state: JSONObject) -> None:
        self.console = state
        if self.cluster is not None:
            self._changed()

    # what there is

    async def probe(self) -> None:
        """Looks at the machine. Raises DriverError."""
        answer = await self.talk.ask("probe", timeout_ms=PROBE_MS)
        runs = self.talk.live
        self.cluster = cluster_of(answer["facts"], name="", driver="ssh", runs=runs)
        node = self.cluster.nodes[0]
        notes = [node.note, *self._notes()]
        self.node = replace(
            node,
            name=self.host.node,
            address=str(self.found.get("address") or ""),
            note="; ".join(filter(None, notes)),
            domains={**node.domains, **self.host.domains},
        )

    def _notes(self) -> list[str]:
        notes = unseen(self.host, self.console)
        if self.talk.ahead_ms:
            hours, seconds = divmod(abs(self.talk.ahead_ms) // 1000, 3600)
            by = f"{hours} h" if hours else f"{seconds} s"
            way = "ahead" if self.talk.ahead_ms > 0 else "behind"
            notes.append(f"its clock is {by} {way}; what it tells is put right")
        if self.found.get("no_exec"):
            notes.append(f"{self.found['home']} is mounted noexec: scripts need `bash script`")
        if tmp := self.found.get("tmp_no_exec"):
            notes.append(f"{tmp} is mounted noexec: what jobs build there can't be started")
        return notes

    def as_it_is(self) -> Node:
        """The node as last seen, and whether it can be reached."""
        if self.is_connected:
            return in_use(self.node, self.console, self.talk.ahead_ms)
        note = self.trouble.message if self.trouble is not None else "it isn't connected yet"
        return replace(self.node, state="unreachable", note=note)

    # orders

    async def start(self, order: StartOrder, more: JSONObject = NOTHING_MORE) -> None:
        """Brings what the run needs, then has the agent start it; twice is once.

        ``more`` is added to the runtime's spec.
        """
        check_name(order.run)
        hand = await self.handy()
        root = f"{hand.home}/runtime"
        layout = await asyncio.to_thread(layout_of, order, root, self._blobs)
        async with self._laying_out:
            made = await lay_out(hand, layout, self._blobs)
        spec: dict[str, Any] = {
            what: f"{hand.home}/{folder}/{order.workload}" for what, folder in KEPT.items()
        }
        spec |= {what: asked for what in KEPT if (asked := getattr(order, what))}
        if order.resumes:
            check_name(order.resumes)
            spec["resume_from"] = f"{hand.home}/checkpoints/{order.resumes}"
        try:
            await self.talk.start(order, {**spec, **layout.spec, **more})
        except DriverError as error:
            if error.final and made:
                with contextlib.suppress(DriverError):
                    await hand.ask("remove", places=made)
            raise

    async def forget(self, run: RunId) -> None:
        """Removes what a finished run left."""
        await self.talk.about("forget", run)
        hand = await self.handy()
        await hand.ask("remove", run=run)

    async def ask(self, op: str, run: RunId, **fields: Any) -> tuple[JSONObject, bytes]:
        """Asks the hand for something of a run."""
        check_name(run)
        hand = await self.handy()
        return await hand.ask(op, run=run, workload=workload_of(run), **fields)

    async def exec(self, order: ExecOrder) -> AgentSession:
        """A session over a channel of its own."""
        await self.talk.connected()
        hand = await self.handy()
        process, _ = await self._opener.open(hand.connection, "relay", hand.home)

        async def hang_up() -> None:
            process.channel.abort()
            with contextlib.suppress(OSError, asyncssh.Error):
                await process.wait_closed()

        channel = Channel(process)
        session = AgentSession(channel, channel, hang_up)
        await session.begin(order)
        return session
