"""Decides what a task becomes whose place is wanted for a shell, and not for its own `run`.

All that it asks for and brings along stays. In place of its `run` a script waits, at no cost, until
the job is said to be done, which whoever opened the shell does at its end. After a notice it waits
only as long as that shell is open, and no longer than the grace.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from stellwerk.core.describe.extras import limit
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.task import Dag, Task

NAME = "shell"
WAIT = """\
# Holds the place of a shell: `touch "$STELLWERK_DONE_FILE"` gives it back.
trap : TERM
exec 3<> <(:)
until [ -e "$STELLWERK_DONE_FILE" ]; do
  if [ -e "$STELLWERK_STOP_FILE" ] && ! kill -0 "$(cat "$STELLWERK_DONE_FILE.shell")"; then
    exit 143
  fi 2>/dev/null
  read -r -t 0.3 -u 3 || [ "$?" -gt 128 ] || sleep 0.3
done
exit 0
"""
"""It waits on a pipe that nobody writes to: no process is started for that."""


def as_shell(report: Report, task: Task | Dag, idle_limit: str, name: str) -> Task | Dag:
    """The task with the place of a shell in it; `idle_limit` holds where the task has none."""
    if isinstance(task, Dag):
        remedy = "write a file with the one task in whose place the shell is to be"
        message = "a shell takes the place of one task, and here are several"
        report.problem("spec/shell", None, "--shell", message, remedy)
        return task
    if task.num_nodes > 1:
        remedy = "`--num-nodes 1`; into a job on several one comes by `stw shell NAME --rank R`"
        message = f"a shell is on one machine, and this asks for {task.num_nodes}"
        report.problem("spec/shell", None, "--shell", message, remedy)
    fields: dict[str, Any] = {"run": WAIT, "name": name or NAME}
    fields |= dict.fromkeys(("launcher", "processes_per_node", "output", "error_output"))
    if task.idle_limit_ms is None:
        fields["idle_limit_ms"] = limit(
            report, Node("scalar", 0, 0, idle_limit), "interactive_idle_limit"
        )
    return structs.replace(task, **fields)
