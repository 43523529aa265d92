"""What changes would do to live work. Nothing is changed.

What takes columns (numpy) is loaded when it is first asked for, so that no start waits for it.
"""

import asyncio

from litestar import post
from litestar.params import JSONBody
from msgspec.structs import replace

from stellwerk.core.forecast import NO_ARRIVALS, NO_FAILURES
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.ids import ShapeId, digest
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.preview import NOBODY
from stellwerk.core.queueing_objects import QueueingNow, queueing_now
from stellwerk.core.view import View
from stellwerk.server import applying, standing_models
from stellwerk.server.accept import Accepted
from stellwerk.server.models import Told
from stellwerk.server.outlook import WAITING, GivenOutlook, first_in_line
from stellwerk.server.seeing import AnyRequest, caller_of, find_seen, seeing
from stellwerk.server.services import SETTLE_S, Given, Services
from stellwerk.server.submit import GivenSubmits
from stellwerk.server.what_if_models import WhatIf, WhatIfBody

BODY_BYTES = 16 * 2**20
MOST_CHANGES = 50


@post(
    "/whatif",
    tags=["queues"],
    summary="What if",
    status_code=200,
    request_max_body_size=BODY_BYTES,
)
async def what_if_live(
    data: JSONBody[WhatIfBody],
    request: AnyRequest,
    services: Given,
    submits: GivenSubmits,
    outlook: GivenOutlook,
) -> WhatIf:
    """Who would start earlier or later, who would be stopped, and which reasons would change.
    Nothing is changed. Starts are those of the same futures, played without the changes and with
    them; what follows at once is planned as the next cycle would.
    """
    from stellwerk.server import supposing

    _check(data)
    await services.settled(SETTLE_S)
    eyes, view, now = seeing(request), services.engine.view(), queueing_now(services.engine.state)
    work = {
        name: await find_seen(eyes, services, name) for name in supposing.names_in(data.changes)
    }
    accepted = await submits.accepted(data.task, caller_of(request)) if data.task else None
    task = supposing.Task(accepted.name, accepted.lowered) if accepted else None
    if accepted is not None:
        view = await _with_wishes(services, view, accepted)
    objects, notices = await asyncio.to_thread(_read, data, services, now)
    supposed = await asyncio.to_thread(
        supposing.suppose, view, now, data.changes, objects, work, task
    )
    owner = caller_of(request).actor.name
    known = {NOBODY: outlook.length_of(owner, task.name, task.lowered)} if task else {}
    starts = await outlook.of_change(supposed.before, supposed.after, known)
    live = {one.id: one for one in now.live}
    rows, unchanged = await asyncio.to_thread(
        supposing.rows_of, supposed, starts, live, task, owner
    )
    seen = [one for one in rows if eyes.how(one.owner) != "nothing"]
    waiting = sum(part.count for part in view.shapes)
    return WhatIf(
        changes=[*([f"-f {data.file or 'FILE'}"] if data.text else []), *data.changes],
        items=seen,
        unchanged=unchanged,
        unseen=len(rows) - len(seen),
        beyond=max(0, waiting - len(first_in_line(view))) if waiting > WAITING else 0,
        over=supposing.over_of(supposed, now.live),
        notices=notices,
        assumes=[NO_ARRIVALS, NO_FAILURES],
        at_ms=view.now_ms,
        seq=view.seq,
    )


def _check(data: WhatIfBody) -> None:
    submits = [one for one in data.changes if one.split()[:1] == ["submit"]]
    problems = []
    if not data.changes and not data.text:
        problems.append(
            Problem("if/change", "nothing is changed", "`stw whatif --help` lists them")
        )
    if len(data.changes) > MOST_CHANGES:
        problems.append(Problem("if/change", f"these are more than {MOST_CHANGES} changes"))
    if len(submits) > 1:
        problems.append(Problem("if/change", "one `submit` can be asked about at a time"))
    if problems:
        raise StellwerkError(problems)


def _read(
    data: WhatIfBody, services: Services, now: QueueingNow
) -> tuple[tuple[QueueObject, ...], list[Told]]:
    """Objects of queueing in a file, read as if they were applied; what else it has is passed."""
    if not data.text:
        return (), []
    body = standing_models.ApplyBody(text=data.text, file=data.file)
    one = applying.read(body, services.clock.now_ms(), now)
    told = [Told(each.code, each.message, each.help, each.line) for each in one.notices]
    if one.of_a_fleet:
        told.append(Told("if/fleet", "what it says of a fleet isn't looked at here", "", 0))
    return one.objects, told


async def _with_wishes(services: Services, view: View, accepted: Accepted) -> View:
    shape = accepted.lowered.shape
    if shape.wishes is None:
        return view
    own = await asyncio.to_thread(services.engine.placements.wishes_of, shape)
    return view if own is None else replace(view, own={**view.own, ShapeId(digest(shape)): own})


HANDLERS = [what_if_live]
