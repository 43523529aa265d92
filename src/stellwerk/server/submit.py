"""Takes submitted tasks from text to durable commands: all problems at once, or all accepted.

Reading, lowering and sealing run in a thread, each distinct task once, however many copies are
submitted. Nothing is written before everything has been found acceptable.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from stellwerk.core.model.commands import Submit
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.lengths import Work
from stellwerk.server import planning
from stellwerk.server.accept import (
    Accepted,
    ReadItem,
    Surroundings,
    accept,
    accept_all,
    with_flags,
)
from stellwerk.server.arrays import (
    Element,
    after_of,
    elements_of,
    readable,
    resolve_after,
    with_array_ids,
)
from stellwerk.server.gpu_advice import advice, asked_of
from stellwerk.server.ids import Ids
from stellwerk.server.models import PlanAnswer, SubmitItem, SubmittedMany, Told
from stellwerk.server.outlook import Outlook, forecast_view
from stellwerk.server.people import Caller
from stellwerk.server.protecting import check_protected
from stellwerk.server.queue_choice import class_values, queue_names
from stellwerk.server.sealing import Vault
from stellwerk.server.services import PROJECT, SETTLE_S, Services
from stellwerk.server.waiting_limit import check_waiting
from stellwerk.store import Ack, NewCommand

FIRST_FACTS_S = 3.0
MOST_ADVICE = 20


class Submits:
    """The way of a submission into the inbox."""

    def __init__(self, services: Services, read: ReadItem) -> None:
        self._services = services
        self._read = read
        self._ids = Ids()
        self._vault = Vault(services.store, PROJECT)

    async def submit(self, items: Sequence[SubmitItem], caller: Caller) -> SubmittedMany:
        """Checks all items and takes them down in one transaction; raises with every problem."""
        actor = caller.actor.name
        items = with_flags(items)
        await self._first_facts()
        if any(item.plan for item in items):
            await self._hold_to_plan(items, caller)
        now_ms = self._services.clock.now_ms()
        async with self._services.gate.passing():
            accepted = await asyncio.to_thread(self._accept, items, caller)
            told = (after_of(item, one) for item, one in zip(items, accepted, strict=True))
            after = await resolve_after(self._services, told)
            elements = elements_of(items, accepted, after)
            await check_waiting(self._services, caller, elements)
            self._check_protected(accepted, caller)
            ids = [self._ids.give(now_ms) for _ in elements]
            commands = await asyncio.to_thread(self._commands, elements, ids, actor, now_ms)
            acks = await self._services.take(commands)
        notices = [*_notices(accepted), *self._advice(accepted, caller)]
        return _answer(acks, notices)

    def _check_protected(self, new: Sequence[Accepted], caller: Caller) -> None:
        services, actor = self._services, caller.actor
        is_admin = actor.is_admin or actor.is_root
        limits = services.people.limits
        lowered = [one.lowered for one in new]
        check_protected(lowered, actor.name, limits, services.engine.view(), is_admin=is_admin)

    async def plan(self, item: SubmitItem, caller: Caller, outlook: Outlook) -> PlanAnswer:
        """Says what would become of an item if it were submitted now; raises as `submit` would."""
        [item] = with_flags([item])
        await self._first_facts()
        await self._services.settled(SETTLE_S)
        one = await asyncio.to_thread(self._accept_unsent, item, caller)
        found = await planning.look(self._services.engine, item, one)
        notices = [*_notices([one]), *self._advice([one], caller)]
        told = planning.answer(found, one, notices, self._services.feed.seq)
        if found.starts_now:
            return told
        starts = await outlook.of_one_more(caller.actor.name, one.name, one.lowered)
        return msgspec.structs.replace(told, forecast=starts and forecast_view(starts))

    def _advice(self, accepted: Sequence[Accepted], caller: Caller) -> list[Told]:
        """Says once of each name how much GPU memory is asked for and was never used."""
        found: dict[str, Told] = {}
        for one in accepted:
            asked = asked_of(one.lowered.shape)
            if asked and one.name not in found and len(found) < MOST_ADVICE:
                work = Work(PROJECT, caller.actor.name, one.name, "")
                message = advice(self._services.engine.lengths.peaks, work, asked)
                found[one.name] = Told("gpu/asks-much", message, "")
        return [told for told in found.values() if told.message]

    async def accepted(self, item: SubmitItem, caller: Caller) -> Accepted:
        """What would be submitted of an item, which isn't; raises as `submit` would."""
        [item] = with_flags([item])
        return await asyncio.to_thread(self._accept_unsent, item, caller)

    async def _hold_to_plan(self, items: Sequence[SubmitItem], caller: Caller) -> None:
        """Refuses a submission whose plan isn't true any more; one that was taken down is not."""
        if len(items) > 1:
            message, help = "a plan is about one workload", "submit them without `plan`"
            raise StellwerkError.of("request/invalid", message, help)
        [item] = items
        planning.check_id(item.plan)
        if item.key and self._services.store.acknowledged(caller.actor.name, item.key):
            return
        await self._services.settled(SETTLE_S)
        one = await asyncio.to_thread(self._accept_unsent, item, caller)
        planning.hold_to(item.plan, await planning.look(self._services.engine, item, one))

    def _accept_unsent(self, item: SubmitItem, caller: Caller) -> Accepted:
        """Accepts an item whose content need not be here yet."""
        around = msgspec.structs.replace(self._around(caller), missing_blobs=lambda _: ())
        return accept(item, self._read, around)

    def _around(self, caller: Caller) -> Surroundings:
        store, queueing = self._services.store, self._services.engine.state.queueing.objects
        return Surroundings(
            clusters=[cluster for cluster, _ in store.clusters()],
            known_secrets={info.name for info in store.secrets.list(PROJECT, caller.actor.name)},
            missing_blobs=store.blobs.missing,
            placements=store.placement_keys,
            queues=queue_names(queueing),
            priority_classes=class_values(queueing),
            caller=caller,
            policy=self._services.people.policy,
        )

    async def _first_facts(self) -> None:
        """Right after the first start a machine is still looked at; what can never fit shows then.

        If that takes too long nothing is refused for want of room: it waits, and says why.
        """
        seq, give_up = 0, asyncio.get_running_loop().time() + FIRST_FACTS_S
        while not self._services.store.clusters():
            left_s = give_up - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            seq = await self._services.engine.changed(seq, left_s)

    def _accept(self, items: Sequence[SubmitItem], caller: Caller) -> list[Accepted]:
        if any(item.sweep for item in items):
            items = [readable(item) for item in items]
        return accept_all(items, self._read, self._around(caller))

    def _commands(
        self, elements: Sequence[Element], ids: list[WorkloadId], actor: str, now_ms: int
    ) -> list[NewCommand]:
        store = self._services.store
        first = {one.accepted: one.item for one in reversed(elements)}
        for one in first:
            one.mounted.prepare(store.blobs)
        launches = [
            msgspec.json.encode(self._vault.launch(item, one, actor, now_ms))
            for one, item in first.items()
        ]
        tasks = dict(zip(first, store.blobs.put_many(launches), strict=True))
        return [
            NewCommand(actor, PROJECT, one.key, _submit(one, id, tasks[one.accepted]))
            for one, id in with_array_ids(elements, ids)
        ]


def _submit(element: Element, workload: WorkloadId, task: BlobHash) -> Submit:
    item, one = element.item, element.accepted
    return Submit(
        id=workload,
        name=one.name,
        project=PROJECT,
        shape=one.lowered.shape,
        task=task,
        snapshot=item.snapshot,
        priority=one.lowered.priority,
        queue=one.lowered.queue,
        labels={**one.read.task.labels, **item.labels},
        policies=one.lowered.policies,
        held=item.held,
        after=element.after,
        array=element.part,
    )


def _answer(acks: Sequence[Ack], notices: list[Told]) -> SubmittedMany:
    return SubmittedMany(
        ids=[ack.id for ack in acks],
        names=[ack.name for ack in acks],
        repeated=sum(ack.repeated for ack in acks),
        submitted_ms=min((ack.at_ms for ack in acks), default=0),
        notices=notices,
    )


def _notices(accepted: Sequence[Accepted]) -> list[Told]:
    """What the readers have to say, each once."""
    notices: dict[tuple[str, str], Told] = {}
    for one in dict.fromkeys(accepted):
        for notice in one.notices:
            told = Told(notice.code, notice.message, notice.help, notice.line)
            notices.setdefault((notice.code, notice.message), told)
    return list(notices.values())


GivenSubmits = NamedDependency[SkipValidation[Submits]]
"""How handlers ask for it."""
