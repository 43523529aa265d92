"""Answers what would become of an item that isn't submitted, and holds a submission to its plan.

Nothing is written and nothing is sealed: of secrets and of a caller's environment only the names
count, so that no plan's id tells anything of a value. A work directory counts by its hash alone; it
need not be in the store yet.
"""

import asyncio
from typing import Any

import msgspec

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import ShapeId, digest
from stellwerk.core.preview import PLAN_ID, Preview, changes, preview
from stellwerk.server import models, views
from stellwerk.server.accept import Accepted
from stellwerk.server.services import Engine


async def look(engine: Engine, item: models.SubmitItem, one: Accepted) -> Preview:
    """Plans the world as it is now with this item in it."""
    lowered, view = one.lowered, engine.view()
    if lowered.shape.wishes is not None:
        own = await asyncio.to_thread(engine.placements.wishes_of, lowered.shape)
        if own is not None:
            id = ShapeId(digest(lowered.shape))
            view = msgspec.structs.replace(view, own={**view.own, id: own})
    return await asyncio.to_thread(
        preview, view, lowered.shape, lowered.priority, spec_of(item, one), lowered.queue
    )


def spec_of(item: models.SubmitItem, one: Accepted) -> str:
    """The hash of all that would be stored of an item, values of secrets left out.

    Not what the reader has to say: a comment more in the file is the same task.
    """
    task = msgspec.structs.replace(one.read.task, ignored=(), notices=())
    secrets = sorted({*one.read.secrets, *one.managed})
    command = (item.argv, item.cwd) if item.in_place else ()
    labels = {**task.labels, **item.labels}
    code = (item.snapshot, item.mounts)
    return digest((task, code, command, secrets, labels, one.lowered.policies))


def answer(
    found: Preview, one: Accepted, notices: list[models.Told], seq: int
) -> models.PlanAnswer:
    """A preview for people and programs."""
    decision, lowered = found.decision, one.lowered
    view = views.decision_view(decision, lowered.shape, decision.inputs.now_ms)
    return models.PlanAnswer(
        id=found.id,
        name=one.name,
        wants=views.wants_of(lowered.shape),
        starts_now=found.starts_now,
        chosen=view.chosen,
        runner_up=view.runner_up,
        candidates=[_until_its_turn(one, found) for one in view.candidates],
        reasons=views.rendered(found.reasons),
        change=view.change,
        ahead=found.ahead,
        priority=lowered.priority,
        queue=lowered.queue,
        policies=_plain(lowered.policies),
        notices=notices,
        at_ms=view.at_ms,
        seq=seq,
    )


def _until_its_turn(one: models.CandidateView, found: Preview) -> models.CandidateView:
    """Nothing is chosen yet for what is behind others, though it would fit."""
    if one.verdict == "chosen" and not found.starts_now:
        return msgspec.structs.replace(one, verdict="fits")
    return one


def check_id(planned: str) -> None:
    """Refuses what can't be the id of a plan, before anything is looked at."""
    if PLAN_ID.fullmatch(planned) is None:
        raise StellwerkError.of(
            "request/invalid", f"`{planned[:40]}` is no plan's id", "`stw plan` tells one"
        )


def hold_to(planned: str, found: Preview) -> None:
    """Refuses if what was planned isn't so any more; says what has changed."""
    differ = changes(planned, found.id)
    if not differ:
        return
    told = ", ".join(name for name in differ if name)
    what = f"changed since: {told}" if told else "the same facts lead to another answer by now"
    raise StellwerkError.of(
        "plan/changed",
        f"plan {planned} isn't true any more; {what}",
        "plan again, or submit without --plan",
    )


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    """All fields of a struct, those at their defaults too."""
    return {name: msgspec.to_builtins(getattr(value, name)) for name in value.__struct_fields__}
