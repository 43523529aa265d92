"""Finds out how work ended that isn't alive any more, for those that are to start after it.

What ended in the present cycle isn't committed yet and stands in the state; the rest is in rows.
"""

from stellwerk.core.gates import resolved
from stellwerk.core.model.commands import Command, Submit
from stellwerk.core.model.gates import ARRAY_LABEL, GONE, After, Tally
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.workload import ENDED
from stellwerk.core.state import State
from stellwerk.store import Store, WorkloadFilter


def informed(store: Store, state: State, command: Command) -> Command:
    """A command with what it must know of the past; most are as they were."""
    if not isinstance(command, Submit) or not command.after:
        return command
    return resolved(state, command, lambda one: ended(store, state, command.project, one))


def ended(store: Store, state: State, project: str, one: After) -> str:
    """The phase in which a workload or an array ended."""
    if one.id.startswith("a-"):
        return _array(store, state, project, one)
    row = store.workload(one.id, project)
    touched = state.touched.get(one.id)
    phase = touched.phase if touched is not None else row.workload.phase if row else GONE
    return phase if phase in ENDED else GONE


def _array(store: Store, state: State, project: str, one: After) -> str:
    wanted = WorkloadFilter(live=False, labels={ARRAY_LABEL: one.name}, project=project)
    phases: dict[WorkloadId, str] = {row.id: row.phase for row in store.picked(wanted)}
    for id, workload in state.touched.items():
        if workload.array is not None and workload.array.id == one.id:
            phases[id] = workload.phase
    tally = Tally(len(phases))
    for phase in phases.values():
        tally = tally.plus(phase)
    return tally.ended if phases else GONE
