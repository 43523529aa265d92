"""Where a task would go now and what it would wait for, without submitting it."""

from litestar import post
from litestar.params import JSONBody

from stellwerk.server.handlers.workloads import ITEM_BYTES
from stellwerk.server.models import PlanAnswer, SubmitItem
from stellwerk.server.outlook import GivenOutlook
from stellwerk.server.seeing import AnyRequest, caller_of
from stellwerk.server.submit import GivenSubmits


@post(
    "/plan", tags=["workloads"], summary="Plan", status_code=200, request_max_body_size=ITEM_BYTES
)
async def plan_item(
    data: JSONBody[SubmitItem], request: AnyRequest, submits: GivenSubmits, outlook: GivenOutlook
) -> PlanAnswer:
    """Says what would become of a task if it were submitted now, and changes nothing. What can't be
    accepted is refused as a submission of it would be. A submission that carries the answer's `id`
    as `plan` is refused when the answer would be another by then.
    """
    return await submits.plan(data, caller_of(request), outlook)


HANDLERS = [plan_item]
