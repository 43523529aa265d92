"""Says of work that has its place and quota for which checks it waits, and looks beyond them."""

from msgspec.structs import replace

from stellwerk.core.model.holding import Claim
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.queue.quota import closed_by_check
from stellwerk.core.view import View


def checking(claim: Claim, pending: tuple[str, ...], view: View) -> Reason:
    """The reason why it doesn't start; ``pending`` are the checks that haven't agreed yet."""
    objects = view.queueing
    known = {one.name: one for one in objects.checks} if objects is not None else {}
    check = known.get(pending[0])
    params: dict[str, Param] = {
        "cluster": claim.allocation.cluster,
        "check": pending[0],
        "controller": check.controller if check is not None else "nobody",
    }
    if len(pending) > 1:
        params["others"] = len(pending) - 1
    return Reason("check_pending", params)


def as_if_agreed(view: View) -> View:
    """The view as it would be if all checks that anybody can answer agreed at once."""
    objects = view.queueing
    if objects is None or not any(one.checks for one in objects.queues):
        return view
    known = {one.name: one for one in objects.checks}
    queues = tuple(
        one if closed_by_check(one, known) is not None else replace(one, checks=())
        for one in objects.queues
    )
    return replace(view, queueing=replace(objects, queues=queues))
