"""Runs over several hosts of a room: started on all or none, ended together, told of as one run.

What is to be done follows from what the parts say (`agents.gang`); here it is ordered and told. A
run begins only on the word of the control plane of now: parts that an earlier one has prepared wait
until the start is ordered again. Until then it can be taken back, also where a host is silent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import (
    Inventory,
    Report,
    RunSample,
    StartRefused,
)
from stellwerk.drivers.agents.gang import (
    Host,
    Part,
    Step,
    failed,
    is_begun,
    lost_part,
    next_steps,
    together,
    whole_end,
)
from stellwerk.drivers.agents.link import JSONObject
from stellwerk.drivers.base import DriverError, StartOrder, StopOrder
from stellwerk.drivers.ssh.gang_cuts import may_be_cut_off, mind_cut
from stellwerk.drivers.ssh.gang_state import Gang, host_on, hosts_of
from stellwerk.drivers.ssh.machine import NOTHING_MORE, Machine

log = logging.getLogger("stellwerk.drivers")

PATIENCE_S = 15.0
"""So long a host may be silent before a run that hasn't begun is taken back."""
AGAIN_S = 0.5
PEER_GRACE_MS = 5_000
"""What a part has when another one is over, as ranks on one machine have it."""
NOWHERE = ("",)
NO_RECORD = ("runtime/unknown_run", "runtime/forgotten")


class Gangs:
    """All runs over several hosts of one cluster; ``tell`` is given what is known of each."""

    def __init__(
        self,
        cluster: str,
        machines: Mapping[str, Machine],
        tell: Callable[[Report], None],
        now_ms: Callable[[], int],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._cluster = cluster
        self._machines = machines
        self._tell = tell
        self._now_ms = now_ms
        self._patience_s = patience_s
        self._gangs: dict[RunId, Gang] = {}
        self._up: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, run: RunId) -> bool:
        return run in self._gangs

    def close(self) -> None:
        """Orders nothing more."""
        for task in self._tasks:
            task.cancel()
        self._up.clear()

    def machine_of(self, run: RunId, rank: int = 0) -> Machine | None:
        """The machine of a rank; that of rank 0 where it has none such."""
        gang = self._gangs.get(run)
        if gang is None:
            return None
        found = next((host for host in gang.hosts if rank in host.ranks), gang.hosts[0])
        return self._machines.get(found.node)

    # what is told

    def heard(self, node: str, parts: Sequence[Part], *, everything: bool) -> None:
        """Takes what a host says of its parts; with ``everything`` it has no others."""
        touched: dict[RunId, Gang] = {}
        for part in parts:
            gang = self._known(part.report.run, part.report.generation, part.hosts)
            if gang is not None:
                gang.parts[part.host] = part
                gang.absent.discard(part.host)
                touched[part.report.run] = gang
                if failed(part) and not everything and part.host not in gang.failures:
                    gang.failures.append(part.host)
        if everything:
            self._up[node] = self._now_ms()
            listed = {part.report.run for part in parts}
            for run, gang in self._gangs.items():
                host = host_on(gang, node)
                if host is not None:
                    touched[run] = gang
                    if run not in listed:
                        self._not_listed(gang, host)
        for run, gang in touched.items():
            self._told(run, gang)

    def _known(self, run: RunId, generation: int, hosts: tuple[Host, ...]) -> Gang | None:
        """The gang of a run; None if a younger generation is known."""
        gang = self._gangs.get(run)
        if gang is None or gang.generation < generation:
            gang = self._gangs[run] = Gang(generation, hosts)
        return gang if gang.generation == generation else None

    def _not_listed(self, gang: Gang, host: int) -> None:
        """A host that should have a part knows of none: it is lost, or was never begun."""
        part = gang.parts.get(host)
        some = part or next(iter(gang.parts.values()), None)
        if some is None:
            return
        if part is None and not is_begun(gang.parts):
            gang.absent.add(host)
        elif part is None or part.end is None:
            gang.parts[host] = lost_part(some._replace(host=host), self._now_ms())

    def _told(self, run: RunId, gang: Gang) -> None:
        """Orders what follows, and tells of the run as a whole."""
        self._advance(run, gang)
        self._mind_silence(run, gang)
        if gang.taken_back or (len(gang.parts) < len(gang.hosts) and not gang.is_over):
            return
        if not self._silent_ones(gang) and gang.is_settled:
            self._tell(together(gang.parts, gang.failures, over=gang.is_over))

    def silent(self, node: str) -> None:
        """A host can't be reached; what hasn't begun doesn't wait for it for ever."""
        self._up.pop(node, None)
        for run, gang in self._gangs.items():
            self._mind_silence(run, gang)
            if (host := host_on(gang, node)) is not None and may_be_cut_off(gang, host):
                self._do(
                    mind_cut(self._cluster, run, gang, host, self._machines, self._up, self._tell)
                )

    def _mind_silence(self, run: RunId, gang: Gang) -> None:
        if gang.may_be_taken_back and not gang.is_waited_for and self._silent_ones(gang):
            gang.is_waited_for = True
            self._do(self._give_up_later(run, gang))

    def _silent_ones(self, gang: Gang) -> list[str]:
        return [node for node in gang.live_on() if node not in self._up]

    def inventories(self) -> Iterable[Inventory]:
        """What is there on all hosts that can be reached, once one more could be.

        What waits for an order from now is left out of the first, so that it is ordered again if it
        is still wanted; the second tells of it, so that it is ended if it isn't.
        """
        whole = {
            run: gang
            for run, gang in self._gangs.items()
            if not gang.taken_back and gang.parts and not self._silent_ones(gang)
        }
        settled = [
            together(g.parts, g.failures, over=g.is_over)
            for _, g in sorted(whole.items())
            if g.is_settled
        ]
        waiting = [together(g.parts) for _, g in sorted(whole.items()) if not g.is_settled]
        at_ms = min(self._up.values(), default=0)
        nodes = tuple(sorted(self._up))
        yield Inventory(self._cluster, tuple(settled), at_ms, nodes=nodes, spread=True)
        if waiting:
            yield Inventory(self._cluster, tuple(waiting), nodes=NOWHERE, spread=True)

    def sampled(self, node: str, sample: RunSample) -> RunSample:
        """What all parts use now, as far as that was told."""
        gang = self._gangs[sample.run]
        host = host_on(gang, node)
        if host is None:
            return sample
        gang.samples[host] = sample
        parts = list(gang.samples.values())
        return replace(
            sample,
            memory_bytes=sum(one.memory_bytes for one in parts),
            cpu_ms=sum(one.cpu_ms for one in parts),
            processes=sum(one.processes for one in parts),
            log_bytes=sum(one.log_bytes for one in parts),
            peak_memory_bytes=max(one.peak_memory_bytes for one in parts),
            guest_cpu_ms=_sum_of_known([one.guest_cpu_ms for one in parts]),
            guest_typed_bytes=sum(one.guest_typed_bytes for one in parts),
            guest_carried_bytes=sum(one.guest_carried_bytes for one in parts),
        )

    # orders

    async def start(self, order: StartOrder, more: JSONObject = NOTHING_MORE) -> None:
        """Has every host prepare its part, with ``more`` in the head's spec.

        Raises a final DriverError where one can't; then none has begun, and the others are taken
        back.
        """
        hosts = hosts_of(order)
        gang = self._known(order.run, order.generation, hosts)
        if gang is None or gang.taken_back:
            raise DriverError("gang/over", f"{order.run} was taken back", final=True)
        gang.wanted = True
        tries = (self._prepare(order, hosts, index, more) for index in range(len(hosts)))
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        troubles = [one for one in outcomes if isinstance(one, BaseException)]
        for trouble in troubles:
            if not isinstance(trouble, DriverError):
                raise trouble
        if not troubles or not gang.may_be_taken_back:
            self._told(order.run, gang)
            return
        await self._take_back(order.run, gang)
        worst = next((one for one in troubles if isinstance(one, DriverError)), None)
        assert worst is not None
        raise worst

    async def _prepare(
        self, order: StartOrder, hosts: tuple[Host, ...], index: int, more: JSONObject
    ) -> None:
        """Starts a part, for a while again and again. Raises a final DriverError."""
        node = hosts[index].node
        machine = self._machines.get(node)
        if machine is None:
            message = f"{self._cluster} has no machine `{node}` any more"
            raise DriverError("ssh/no-machine", message, final=True)
        needed = {"gang", *(("launch",) if "STELLWERK_MPI_HOSTS" in order.env else ())}
        if machine.is_connected and not needed <= set(machine.talk.hello.get("can") or ()):
            message = (
                f"the runtime on {node} is older and knows no jobs over several machines; it is "
                "replaced as soon as nothing runs there"
            )
            raise DriverError("gang/old-runtime", message, final=True)
        gang = {
            "hosts": [{"node": host.node, "ranks": list(host.ranks)} for host in hosts],
            "host": index,
            "cut_off_ms": order.cut_off_ms,
        }
        part = replace(
            order,
            ranks=tuple(rank for rank in order.ranks if rank.node == node),
            setup_env={**order.setup_env, "SKYPILOT_SETUP_NODE_RANK": str(index)},
        )
        until_s = asyncio.get_running_loop().time() + self._patience_s
        while True:
            try:
                async with asyncio.timeout_at(None if machine.is_connected else until_s):
                    await machine.start(part, {"gang": gang, **({} if index else more)})
            except (DriverError, TimeoutError) as error:
                final = isinstance(error, DriverError) and error.final
                if final or asyncio.get_running_loop().time() >= until_s:
                    raise _no_part(node, error) from error
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def _take_back(self, run: RunId, gang: Gang) -> None:
        """Ends the parts of a run that hasn't begun and never will."""
        gang.taken_back = True
        up = (index for index, host in enumerate(gang.hosts) if host.node in self._up)
        await asyncio.gather(*(self._kill(run, gang, index) for index in up))

    async def _kill(self, run: RunId, gang: Gang, host: int) -> None:
        """Ends a part for good; a host that is silent is told when it is heard of again."""
        node, order = gang.hosts[host].node, ("kill", str(host))
        if order in gang.under_way:
            return
        gang.under_way.add(order)
        try:
            while node in self._up:
                try:
                    await self._machines[node].talk.about("kill", run)
                except DriverError as error:
                    if error.final:
                        return
                    await asyncio.sleep(AGAIN_S)
                else:
                    return
        finally:
            gang.under_way.discard(order)

    async def _give_up_later(self, run: RunId, gang: Gang) -> None:
        await asyncio.sleep(self._patience_s)
        gang.is_waited_for = False
        silent = self._silent_ones(gang)
        if not silent or not gang.may_be_taken_back:
            return
        ends = {host: part for host, part in gang.parts.items() if failed(part)}
        await self._take_back(run, gang)
        if ends:
            some = next(iter(ends.values())).report
            self._tell(replace(some, phase="Ended", end=whole_end(ends)))
            return
        message = f"{', '.join(silent)} can't be reached, and nothing had begun anywhere"
        self._tell(StartRefused(self._cluster, run, gang.generation, "gang/unreachable", message))

    async def stop(self, order: StopOrder) -> None:
        """Gives notice to all parts at once."""
        await self._all(order.run, lambda machine: machine.talk.stop(order))

    async def about(self, op: str, run: RunId) -> None:
        """Gives an order to all parts that says no more than which run is meant."""

        async def give(machine: Machine) -> None:
            await machine.talk.about(op, run)

        await self._all(run, give)

    async def forget(self, run: RunId) -> None:
        """Removes what all parts left."""
        await self._all(run, lambda machine: machine.forget(run))
        self._gangs.pop(run, None)

    async def _all(self, run: RunId, give: Callable[[Machine], Awaitable[None]]) -> None:
        """Gives an order to all hosts; one that has no part of it has carried it out."""
        gang = self._gangs[run]
        there = [self._machines[h.node] for h in gang.hosts if h.node in self._machines]
        outcomes = await asyncio.gather(*map(give, there), return_exceptions=True)
        troubles = [
            one
            for one in outcomes
            if isinstance(one, BaseException)
            and not (isinstance(one, DriverError) and one.code in NO_RECORD)
        ]
        if troubles:
            raise next((one for one in troubles if not _is_final(one)), troubles[0])

    # what follows by itself

    def _advance(self, run: RunId, gang: Gang) -> None:
        up = [index for index, host in enumerate(gang.hosts) if host.node in self._up]
        if gang.taken_back:
            for host, part in gang.parts.items():
                if part.end is None and host in up:
                    self._do(self._kill(run, gang, host))
            return
        for step in next_steps(gang.parts, up, self._address_of_head(gang), may_go=gang.wanted):
            if step.key in gang.under_way:
                continue
            gang.under_way.add(step.key)
            gang.go_sent = gang.go_sent or step.op == "go"
            self._do(self._order(run, gang, step))

    def _address_of_head(self, gang: Gang) -> str:
        machine = self._machines.get(gang.hosts[0].node)
        return str(machine.found.get("address") or "") if machine is not None else ""

    async def _order(self, run: RunId, gang: Gang, step: Step) -> None:
        node = gang.hosts[step.host].node
        talk = self._machines[node].talk
        is_peer = step.op == "peer"
        more = {"why": "peer", "grace_ms": PEER_GRACE_MS} if is_peer else step.fields
        try:
            await talk.ask(
                "stop" if is_peer else step.op,
                run=run,
                generation=gang.generation,
                epoch=talk.epoch or None,
                **more,
            )
        except DriverError as error:
            log.warning("%s on %s: %s: %s", run, node, step.op, error.message)
            await asyncio.sleep(AGAIN_S)
            gang.under_way.discard(step.key)
            if node in self._up and not error.final:
                self._advance(run, gang)
        else:
            gang.under_way.discard(step.key)

    def _do(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _sum_of_known(numbers: Sequence[int | None]) -> int | None:
    """The sum, unless one of them isn't known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _is_final(error: BaseException) -> bool:
    return isinstance(error, DriverError) and error.final


def _no_part(node: str, error: DriverError | TimeoutError) -> DriverError:
    """Why a host takes no part: final, since all others are taken back."""
    if isinstance(error, TimeoutError):
        return DriverError("gang/unreachable", f"{node} can't be reached in time", final=True)
    code = error.code if error.final else "gang/unreachable"
    return DriverError(code, f"{node}: {error.message}", final=True)
