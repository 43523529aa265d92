"""Hands orders to the wrappers of runs, and refuses in words what can't be done."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from .files import JSONObject, to_json
from .roster import Entry
from .stopping import CONSOLE

if TYPE_CHECKING:
    from .agent import Agent


class Refused(Exception):
    """A request that isn't carried out: a code for programs, a sentence for people."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more


def hand_order(agent: Agent, entry: Entry, words: JSONObject) -> JSONObject:
    """Hand an order to the wrapper of a run."""
    agent.roster.reread(entry)
    if entry.has_ended():
        return {"state": "ended", "delivered": False}
    try:
        fifo = _open_control(entry)
        try:
            os.write(fifo, to_json(words) + b"\n")
        finally:
            os.close(fifo)
        agent.roster.waken(entry)
    except OSError as error:
        agent.roster.look(entry)
        if entry.has_ended():
            return {"state": "ended", "delivered": False}
        message = f"the wrapper of `{entry.run}` takes no orders: {error.strerror}"
        raise Refused("unreachable", message) from error
    return {"state": entry.state, "delivered": True}


def _open_control(entry: Entry) -> int:
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(entry.files.control, flags)
    except FileNotFoundError:
        # The job has removed its run's directory; the wrapper still holds what was in it.
        held = f"/proc/{entry.wrapper}/fd"
        for name in os.listdir(held):
            with contextlib.suppress(FileNotFoundError):  # one that is being closed just now
                if os.readlink(f"{held}/{name}") == f"{entry.files.control} (deleted)":
                    return os.open(f"{held}/{name}", flags)
        raise


def give_back(agent: Agent) -> None:
    """Give notice to every run, since somebody sat down at the machine."""
    for entry in agent.roster.live:
        if entry.state != "stopping":
            tell_to_leave(agent, entry)


def tell_to_leave(agent: Agent, entry: Entry) -> None:
    """Give notice to a run, since somebody sits at the machine."""
    # One that can't be told now is told at the next look, unless it has ended.
    with contextlib.suppress(Refused):
        hand_order(agent, entry, {"op": "stop", "why": CONSOLE})
