"""A program of its own that runs the core forward: a question on standard input, then the answer.

    python -m stellwerk.engine.foresee < question.json > answer.json

It is apart from the server, so that a long look ahead never makes the one loop wait, and it can be
ended at any moment.
"""

import os
import sys
from collections.abc import Mapping

import msgspec

from stellwerk.core.forecast import Compared, Forecast, compared, forecast
from stellwerk.core.future import Knowledge
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.view import View

NICENESS = 5


class Question(msgspec.Struct, frozen=True):
    """Whose starts are asked for, on which view, and what is known of lengths.

    With ``after``, a changed view, what the change makes of them is asked for.
    """

    view: View
    known: Knowledge
    wanted: tuple[WorkloadId, ...]
    after: View | None = None


Answer = Mapping[WorkloadId, Forecast]
Change = Mapping[WorkloadId, Compared]


def main() -> int:
    """Answers one question."""
    os.nice(NICENESS)
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    found: Answer | Change
    if asked.after is None:
        found = forecast(asked.view, asked.known, asked.wanted)
    else:
        found = compared(asked.view, asked.after, asked.known, asked.wanted)
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
