"""Says of work that has its place and quota for which checks it waits."""

from stellwerk.core.model.holding import Claim
from stellwerk.core.model.reasons import Param, Reason
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
