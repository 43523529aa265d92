"""Changes the course of many workloads by one request: chooses them, and orders it all at once.

The commands go into the inbox in one transaction. Their keys are made of the request's key and a
digest of what it asked for: the same request again finds them, another one under that key is told.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from stellwerk.core.model import commands as cmd
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.gates import ARRAY_LABEL
from stellwerk.core.model.ids import WorkloadId, digest
from stellwerk.core.model.workload import ENDED, WAITING, Phase
from stellwerk.server.bulk_models import ChangedMany, ChangeMany, RefusedOne, Verb
from stellwerk.server.models import Changed
from stellwerk.server.people import refusal
from stellwerk.server.policy import Refused, Thing, may, may_have_priority
from stellwerk.server.rules import rule_of
from stellwerk.server.seeing import Seeing
from stellwerk.server.services import PROJECT, SETTLE_S, Services
from stellwerk.store import NewCommand, Picked, StoreError, WorkloadFilter

MOST_TOLD_OF_YOURS = 3
EFFECT_S = 60.0
"""How long the answer waits for the effect, so that it can tell the phases after it."""

SUGGESTED = 20
"""For so many names that don't exist one that was meant is looked for."""

_DIGEST = 16
_OURS = re.compile(rf"#([0-9a-f]{{{_DIGEST}}})#\d+")


class _Rule(msgspec.Struct, frozen=True):
    """In which phases a verb does something, in which it is done already, and what else is said."""

    acts_on: tuple[Phase, ...]
    done_in: tuple[Phase, ...] = ()
    code: str = ""
    help: str = ""


RULES: dict[Verb, _Rule] = {
    "cancel": _Rule(
        (*WAITING, "Starting", "Dispatched", "SettingUp", "Running", "Stopping"), tuple(ENDED)
    ),
    "hold": _Rule(
        ("Pending",),
        ("Held",),
        "phase/not-pending",
        "only what waits can be held; `stw cancel` ends it",
    ),
    "release": _Rule(("Held",), (), "phase/not-held", "nothing keeps it"),
    "priority": _Rule(
        tuple(WAITING), (), "phase/not-pending", "the priority counts only while it waits"
    ),
}


class _Chosen:
    """Those that were asked for, each once, and what was refused."""

    def __init__(self) -> None:
        self.to_change: dict[WorkloadId, Picked] = {}
        self.done: dict[WorkloadId, Picked] = {}
        self.refused: list[RefusedOne] = []

    def refuse(self, name: str, problem: Problem) -> None:
        """Notes why nothing can be done to a name."""
        exit = rule_of(problem.code).exit
        self.refused.append(RefusedOne(name, problem.code, problem.message, problem.help, exit))


async def change_many(
    services: Services, body: ChangeMany, phases: tuple[Phase, ...], eyes: Seeing, key: str
) -> ChangedMany:
    """Chooses, orders, waits for the effect and tells it. Raises if the request makes no sense."""
    _check(body, phases)
    _check_rights(body, eyes)
    actor = eyes.caller.actor.name
    await services.settled(SETTLE_S)
    asked = _digest_of(body)
    before = await asyncio.to_thread(_ordered_before, services, actor, key, asked)
    if before:
        await services.settled(EFFECT_S)
        return await asyncio.to_thread(_answer, services, body, before, (), repeated=True)
    chosen = await asyncio.to_thread(_choose, services, body, phases, eyes)
    to_change = _in_order(body.verb, chosen.to_change.values())
    if to_change and not body.dry_run:
        make = _maker(body)
        await services.take(
            [
                NewCommand(actor, PROJECT, key and f"{key}#{asked}#{number}", make(one.id))
                for number, one in enumerate(to_change)
            ]
        )
        await services.settled(EFFECT_S)
    ids = [one.id for one in (*to_change, *chosen.done.values())]
    answer = await asyncio.to_thread(_answer, services, body, ids, chosen.refused)
    return await asyncio.to_thread(_with_ends, services, answer, chosen.done)


def _check(body: ChangeMany, phases: Sequence[Phase]) -> None:
    problems = []
    filtered = bool(body.labels or body.phases or body.owner)
    if sum((bool(body.names), filtered or body.all)) != 1:
        message = "say which workloads: `names`, or `labels`, `phases` and `owner`, or `all`"
        problems.append(Problem("request/invalid", message, "GET /v1/workloads lists them"))
    if (body.verb == "priority") != (body.priority is not None):
        message = "`priority` belongs to the verb priority, and to no other"
        problems.append(Problem("request/invalid", message, "send a whole number with it"))
    acts_on = RULES[body.verb].acts_on
    if phases and not any(phase in acts_on for phase in phases):
        message = f"{body.verb} does nothing to what is {' or '.join(phases)}"
        problems.append(
            Problem("request/invalid", message, f"it acts on what is {', '.join(acts_on)}")
        )
    if problems:
        raise StellwerkError(problems)


def _check_rights(body: ChangeMany, eyes: Seeing) -> None:
    """Refuses what whoever calls may do to nothing, however it is named."""
    actor, policy = eyes.caller.actor, eyes.people.policy
    verdict = may_have_priority(actor, body.priority or 0, policy)
    if body.owner and body.owner != actor.name and not isinstance(verdict, Refused):
        verdict = may(actor, "steer", Thing("workload", "that work", body.owner), policy)
    if isinstance(verdict, Refused):
        raise refusal(verdict)


def _refused(eyes: Seeing, name: str, owner: str) -> Problem | None:
    """Why somebody may not change the course of a workload; None where they may."""
    thing = Thing("workload", name, owner)
    verdict = may(eyes.caller.actor, "steer", thing, eyes.people.policy)
    return refusal(verdict).problems[0] if isinstance(verdict, Refused) else None


def _with_yours(services: Services, eyes: Seeing, name: str, problem: Problem) -> Problem:
    """Names what one has oneself by a name that somebody else was given first."""
    wanted = WorkloadFilter(owner=eyes.caller.actor.name, name=f"{name}-*", project=PROJECT)
    numbered = re.compile(re.escape(name) + r"-[0-9]+")
    yours = [one.name for one in services.store.picked(wanted) if numbered.fullmatch(one.name)]
    if not yours:
        return problem
    told = ", ".join(f"`{one}`" for one in yours[-MOST_TOLD_OF_YOURS:])
    help = f"{problem.help}; yours: {told}" if problem.help else f"yours: {told}"
    return msgspec.structs.replace(problem, help=help)


def _whose(eyes: Seeing, asked: str) -> str:
    """Whose work a filter or a pattern means: one's own, where others' is not to be touched."""
    actor = eyes.caller.actor
    return asked or ("" if actor.is_admin or actor.is_root else actor.name)


def _digest_of(body: ChangeMany) -> str:
    """Equal for requests that ask for the same, however much of the answer they want to see."""
    return digest(msgspec.structs.replace(body, show=0, dry_run=False))[:_DIGEST]


def _ordered_before(services: Services, actor: str, key: str, asked: str) -> list[WorkloadId]:
    """The workloads of the first request under this key; raises if that asked for something else.

    A request that had found nothing to do has left nothing, and is looked at anew.
    """
    if not key:
        return []
    ids = []
    for stored, workload in services.store.commands_under(actor, f"{key}#"):
        found = _OURS.fullmatch(stored[len(key) :])
        if found is None:
            continue
        if found[1] != asked:
            raise StellwerkError.of(
                "key/other-content",
                f"the key `{key[:80]}` belongs to an earlier request that asked for something else",
                "use a new key for a new request",
            )
        ids.append(workload)
    return ids


def _choose(
    services: Services, body: ChangeMany, phases: tuple[Phase, ...], eyes: Seeing
) -> _Chosen:
    chosen = _Chosen()
    body = msgspec.structs.replace(body, owner=_whose(eyes, body.owner))
    if not body.names:
        wanted = _acting_on(body, phases)
        chosen.to_change = {one.id: one for one in services.store.picked(wanted)}
        return chosen
    unknown = 0
    for name in dict.fromkeys(body.names):
        if "*" in name or "?" in name:
            unknown += not _choose_like(services, body, phases, name, chosen)
        else:
            suggest = unknown < SUGGESTED and not eyes.is_own_only
            unknown += not _choose_one(services, body, name, chosen, suggest, eyes)
    return chosen


def _acting_on(body: ChangeMany, phases: tuple[Phase, ...]) -> WorkloadFilter:
    acts_on = RULES[body.verb].acts_on
    return WorkloadFilter(
        phases=tuple(phase for phase in acts_on if not phases or phase in phases),
        labels=body.labels,
        owner=body.owner,
        project=PROJECT,
    )


def _choose_like(
    services: Services, body: ChangeMany, phases: tuple[Phase, ...], name: str, chosen: _Chosen
) -> bool:
    """Takes all whose names are like a pattern; says whether there is one."""
    wanted = msgspec.structs.replace(_acting_on(body, phases), name=name)
    found = services.store.picked(wanted)
    chosen.to_change.update((one.id, one) for one in found)
    if not found:
        acts_on = ", ".join(RULES[body.verb].acts_on)
        message = f"none that is {acts_on} has a name like `{name[:80]}`"
        chosen.refuse(name, Problem("find/workload", message, "`stw ps -A` lists all"))
    return bool(found)


def _choose_one(
    services: Services, body: ChangeMany, name: str, chosen: _Chosen, suggest: bool, eyes: Seeing
) -> bool:
    """Takes the one of a name, if something can be done to it; says whether there is one."""
    rule, verb = RULES[body.verb], body.verb
    try:
        row = services.store.workload(name, PROJECT)
    except StoreError as error:
        chosen.refuse(name, _unknown(name) if eyes.is_own_only else error.problems[0])
        return True
    if row is None and _choose_array(services, verb, name, chosen, eyes):
        return True
    if row is None:
        chosen.refuse(name, services.unknown(name).problems[0] if suggest else _unknown(name))
        return False
    if refused := _refused(eyes, row.workload.name, row.workload.owner):
        chosen.refuse(name, _with_yours(services, eyes, name, refused))
        return True
    one = Picked(row.workload.id, row.workload.name, row.workload.phase, row.workload.order)
    if one.phase in rule.acts_on:
        chosen.to_change[one.id] = one
    elif one.phase in rule.done_in:
        chosen.done[one.id] = one
    else:
        chosen.refuse(name, Problem(rule.code, f"{one.name} is {one.phase}", rule.help))
    return True


def _unknown(name: str) -> Problem:
    return Problem("find/workload", f"there is no workload `{name[:80]}`")


def _choose_array(services: Services, verb: Verb, name: str, chosen: _Chosen, eyes: Seeing) -> bool:
    """Takes the elements of an array to which something can be done; says whether there is one."""
    wanted = WorkloadFilter(live=False, labels={ARRAY_LABEL: name}, project=PROJECT)
    first = services.store.workloads(msgspec.structs.replace(wanted, limit=1))
    if first and (problem := _refused(eyes, name, first[0].workload.owner)):
        chosen.refuse(name, _with_yours(services, eyes, name, problem))
        return True
    found = services.store.picked(wanted)
    for one in found:
        if one.phase in RULES[verb].acts_on:
            chosen.to_change[one.id] = one
        elif one.phase in RULES[verb].done_in:
            chosen.done[one.id] = one
    return bool(found)


def _in_order(verb: Verb, chosen: Iterable[Picked]) -> list[Picked]:
    """First come, first served; but who waits is cancelled first and from the end of the line.

    Otherwise room that one gives back would be used by another that is about to be cancelled.
    """
    if verb != "cancel":
        return sorted(chosen, key=lambda one: one.order)
    return sorted(chosen, key=lambda one: (one.phase not in WAITING, -one.order))


def _maker(body: ChangeMany) -> Callable[[WorkloadId], cmd.Command]:
    makers: dict[Verb, Callable[[WorkloadId], cmd.Command]] = {
        "cancel": lambda one: cmd.Cancel(one, body.now),
        "hold": cmd.Hold,
        "release": cmd.Release,
        "priority": lambda one: cmd.SetPriority(one, body.priority or 0),
    }
    return makers[body.verb]


def _with_ends(
    services: Services, answer: ChangedMany, done: Mapping[WorkloadId, Picked]
) -> ChangedMany:
    """Says since when those are over to which nothing was done, as far as they are listed."""
    items = []
    for item in answer.items:
        row = services.store.workload(item.id, PROJECT) if item.id in done else None
        over = row is not None and row.workload.phase in ENDED
        since_ms = row.workload.ended_ms if row is not None and over else None
        items.append(msgspec.structs.replace(item, over_since_ms=since_ms))
    return msgspec.structs.replace(answer, items=items)


def _answer(
    services: Services,
    body: ChangeMany,
    ids: Sequence[WorkloadId],
    refused: Iterable[RefusedOne],
    *,
    repeated: bool = False,
) -> ChangedMany:
    seq = services.store.seq()
    found = {one.id: one for one in services.store.picked_by_id(ids)}
    now = [found[id] for id in ids if id in found]
    return ChangedMany(
        verb=body.verb,
        count=len(ids),
        phases=dict(Counter(one.phase for one in now)),
        items=[Changed(one.id, one.name, one.phase) for one in now[: body.show]],
        refused=list(refused),
        dry_run=body.dry_run,
        repeated=repeated,
        seq=seq,
    )
