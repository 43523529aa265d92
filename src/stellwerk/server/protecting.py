"""Refuses to protect runs for longer, or with more GPUs, than the settings let people do."""

from collections.abc import Iterable

from stellwerk.core.lower import Lowered
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.limits import Limits, gpus_of
from stellwerk.core.model.quantity import show_duration
from stellwerk.core.model.resources import Shape
from stellwerk.core.view import View


def check_protected(
    new: Iterable[Lowered], owner: str, limits: Limits, view: View, *, is_admin: bool
) -> None:
    """Raises StellwerkError for protected work beyond what somebody may ask for."""
    asked = [one for one in new if one.policies.protected_ms]
    if not asked or is_admin:
        return
    problems = []
    longest = max(one.policies.protected_ms for one in asked)
    if longest > limits.protected_ms:
        most = show_duration(limits.protected_ms) if limits.protected_ms else "no time at all"
        message = f"a run may be protected for {most}, not for {show_duration(longest)}"
        help = "ask for less, or have an administrator raise `protected_max_s`"
        problems.append(Problem("spec/protected", message, help))
    wanted = sum(_gpus(one.shape) for one in asked)
    known = _protected(view, owner) if limits.protected_gpus else 0
    if limits.protected_gpus and wanted + known > limits.protected_gpus:
        message = (
            f"protected work of {owner} may ask for {limits.protected_gpus} GPUs: it has {known}, "
            f"and this asks for {wanted} more"
        )
        help = "submit it without --protected, or wait until what is protected is over"
        problems.append(Problem("spec/protected", message, help))
    if problems:
        raise StellwerkError(problems)


def _gpus(shape: Shape) -> int:
    requests = [one.request.gpu for one in shape.alternatives]
    return shape.num_nodes * max(one.count if one is not None else 0 for one in requests)


def _protected(view: View, owner: str) -> int:
    """The GPUs of somebody's protected work: what runs, and the first of what waits."""
    running = sum(
        gpus_of(allocation.nodes)
        for part in view.clusters
        for run, allocation in part.allocations
        if (begun := part.begun.get(run)) is not None
        and begun.safe_ms > view.now_ms
        and begun.work.owner == owner
    )
    return running + sum(
        _gpus(part.shape)
        for part in view.shapes
        for head in part.heads
        if head.protected_ms and head.work.owner == owner
    )
