"""What follows from commands that are about something else than one workload."""

from typing import assert_never

from stellwerk.core.draining import on_drain, on_remove, on_resume
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.queueing_objects import on_apply as on_apply_queues
from stellwerk.core.queueing_objects import on_delete as on_delete_objects
from stellwerk.core.reservations import on_cancel, on_make
from stellwerk.core.standing import on_apply, on_delete
from stellwerk.core.state import State
from stellwerk.core.windows import on_calendar, on_no_calendar


def on_command_of_none(
    state: State, command: cmd.OfNoWorkload, actor: str, now_ms: int
) -> list[ev.Event]:
    """Turns such a command into what follows from it at ``now_ms``."""
    match command:
        case cmd.ResumeNode():
            return on_resume(state, cmd.ResumeCluster(command.cluster, (command.node,)))
        case cmd.ResumeCluster():
            return on_resume(state, command)
        case cmd.DrainCluster():
            return on_drain(state, command, now_ms)
        case cmd.RemoveCluster():
            return on_remove(state, command)
        case cmd.ApplyFleet():
            return on_apply(state, command)
        case cmd.DeletePlacement():
            return on_delete(state, command)
        case cmd.ApplyQueues():
            return on_apply_queues(state, command)
        case cmd.DeleteQueueObjects():
            return on_delete_objects(state, command)
        case cmd.SetCalendar():
            return on_calendar(state, command)
        case cmd.RemoveCalendar():
            return on_no_calendar(state, command)
        case cmd.MakeReservation():
            return on_make(state, command, actor, now_ms)
        case cmd.CancelReservation():
            return on_cancel(state, command)
        case _:
            assert_never(command)
