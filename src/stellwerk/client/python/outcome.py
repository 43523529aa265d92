"""What came of a call: its value, its exception with the traceback, or Stellwerk's own reason."""

import os
import pickle
from typing import Any, NamedTuple

from stellwerk.client.api import Client
from stellwerk.client.wire import Show
from stellwerk.core.model.errors import Problem, StellwerkError

RESULT = "result.pkl"
TOLD_LINES = 8
PIECE = 4 * 2**20


class RemoteTracebackError(Exception):
    """Shows, as the cause of a call's exception, where it was raised on the far side."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told

    def __str__(self) -> str:
        return f"\n{self.told}"


class CallError(StellwerkError):
    """A call ended without an outcome: its process was killed, ran out of memory, or never ran.

    `workload` names it, `reason` is the code of why, as `stw explain` knows it.
    """

    def __init__(self, problem: Problem, workload: str, reason: str) -> None:
        super().__init__([problem])
        self.workload = workload
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return (CallError, (self.problems[0], self.workload, self.reason))


class Outcome(NamedTuple):
    """Either a value or an exception."""

    value: Any = None
    error: BaseException | None = None


def read_outcome(path: str) -> Outcome | None:
    """The outcome that a call left; None where it left none."""
    try:
        with open(path, "rb") as file:
            return outcome_of(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None


def bring_outcome(client: Client, show: Show) -> Outcome | None:
    """The outcome that a call's newest run left among its outputs, on whatever machine."""
    if not show.runs:
        return None
    found = client.files(show.id, "outputs", "")
    if found.is_here:
        return read_outcome(os.path.join(show.output_dir, RESULT)) if show.output_dir else None
    if not any(one.name == RESULT for one in found.files):
        return None
    data = bytearray()
    while piece := client.file_bytes(show.id, "outputs", RESULT, len(data), PIECE):
        data += piece
    return outcome_of(bytes(data))


def outcome_of(data: bytes) -> Outcome:
    """What the far side wrote."""
    try:
        kind, value, told = pickle.loads(data)  # noqa: S301 - the user's own call wrote it
    except Exception as error:  # noqa: BLE001 - whatever unpickling runs may raise anything
        return Outcome(error=error)
    if kind == "value":
        return Outcome(value)
    value.__cause__ = RemoteTracebackError(told)
    return Outcome(error=value)


def why_none(show: Show) -> CallError:
    """Says why a workload that is over left no outcome."""
    reason = show.reason
    last = next((run.end for run in reversed(show.runs) if run.end is not None), None)
    if reason is None or reason.code == "succeeded":
        code, sentence = "no_result", "it ended without a result: something in it called exit"
        remedy = "return from the function instead; `stw logs` shows what it printed"
    else:
        code, sentence, remedy = reason.code, reason.sentence, reason.remedy
    remedy = remedy.replace(" NAME", f" {show.name}")
    lines = "".join(f"\n  | {line}" for line in (last.last_lines if last else [])[-TOLD_LINES:])
    problem = Problem(f"call/{code}", f"{show.name}: {sentence}{lines}", remedy)
    return CallError(problem, show.name, code)
