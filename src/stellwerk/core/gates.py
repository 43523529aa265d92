"""Decides what keeps a workload from its turn besides room, and when nothing does any more.

A workload may wait for the end of others (``after``); an array may have a limit of how many of its
elements are under way. One whose condition can't come true any more ends, with that reason.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.gates import GONE, After, ArrayPart, Gate
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import in_queue
from stellwerk.core.model.workload import Workload
from stellwerk.core.state import State

TOLD_NAMES = 3
"""So many of those that a workload waits for are named in its reason."""

HOW_ENDED = {
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Cancelled": "was cancelled",
    GONE: "is no longer known",
}
Ended = Callable[[After], str]
"""The phase in which one that isn't alive ended, ``gone`` where nothing is known of it."""


def on_submit(state: State, command: Submit, actor: str) -> ev.Submitted:
    """A new workload, with the gate that it waits before, and the queue in its shape."""
    command = resolved(state, command, lambda _: GONE)
    shape = in_queue(command.shape, command.project, command.queue)
    if shape is not command.shape:
        command = replace(command, shape=shape)
    gate: Gate = "after" if command.after else _in_array(command.array)
    return ev.Submitted(owner=actor, submit=command, gate=gate)


def resolved(state: State, command: Submit, ended: Ended) -> Submit:
    """Fills in how those ended that aren't alive any more; ``ended`` is asked for nothing else."""
    if all(one.ended or is_alive(state, one.id) for one in command.after):
        return command
    after = tuple(
        one if one.ended or is_alive(state, one.id) else replace(one, ended=ended(one))
        for one in command.after
    )
    return replace(command, after=after)


def is_alive(state: State, id: WorkloadId) -> bool:
    """Whether a workload, or an array, isn't over."""
    return id in state.workloads or id in state.gates.tallies


def _in_array(part: ArrayPart | None) -> Gate:
    return "array" if part is not None and part.id and part.limit else ""


def settle(state: State) -> list[ev.Event]:
    """What follows from ends and free places; asked again until nothing does.

    This takes out what it decides about; what it leaves undecided comes again with the next fact.
    """
    gates = state.gates
    news, gates.news = gates.news, {}
    found: list[ev.Event] = []
    for id in news:
        workload = state.workloads.get(id)
        if workload is not None and workload.gate == "after":
            found += _about(workload)
    free, gates.free = gates.free, {}
    for array_id in free:
        array = gates.arrays.get(array_id)
        if array is not None:
            places = max(0, array.limit - len(array.open))
            found += [ev.GateChanged(key[2]) for key in array.shut[:places]]
    return found


def _about(workload: Workload) -> list[ev.Event]:
    never = next((one for one in workload.after if one.ended and not _holds(one)), None)
    if never is not None:
        ended = HOW_ENDED.get(never.ended, never.ended)
        why = {"wanted": never.written, "name": never.name, "ended": ended}
        return [ev.WorkloadEnded(workload.id, "Cancelled", Reason("after_never", {**why}))]
    if any(not one.ended for one in workload.after):
        return []
    return [ev.GateChanged(workload.id, _in_array(workload.array))]


def _holds(one: After) -> bool:
    """Whether a condition holds, now that the other is over; of what is gone only that it is."""
    if one.when == "any":
        return True
    if one.ended == GONE:
        return False
    return (one.ended == "Succeeded") == (one.when == "ok")


def gate_reasons(workload: Workload) -> tuple[Reason, ...]:
    """Why a gate keeps a waiting workload; nothing where none does."""
    if workload.gate == "after":
        left = [one for one in workload.after if not one.ended]
        more = f" and {len(left) - TOLD_NAMES} more" if len(left) > TOLD_NAMES else ""
        said = _listed(one.written for one in left[:TOLD_NAMES]) + more
        names = _listed(one.name for one in left[:TOLD_NAMES]) + more
        verb = "have" if len(left) > 1 else "has"
        return (Reason("after", {"waits_for": said, "names": f"{names} {verb}"}),)
    if workload.gate == "array" and workload.array is not None:
        part = workload.array
        return (Reason("array_limit", {"limit": part.limit, "array": part.name}),)
    return ()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
