"""Reads a submitted item with the house's own readers: task files, batch scripts, commands."""

import msgspec

from stellwerk.core.describe.sbatch import read_batch
from stellwerk.core.describe.tasks import Reading, read, read_command
from stellwerk.core.model.errors import Problem, SpecError
from stellwerk.core.model.task import Dag, Task
from stellwerk.server.accept import Read
from stellwerk.server.models import SubmitItem


def read_item(item: SubmitItem) -> Read:
    """The task of an item; raises SpecError with everything that keeps it from being run."""
    found = _read(item)
    task = found.task
    problems = [
        msgspec.structs.replace(problem, file=problem.file or item.file)
        for problem in found.refusals
    ]
    if isinstance(task, Task) and task.workdir and not item.snapshot:
        problems.append(
            Problem(
                "submit/no-snapshot",
                "the task has a `workdir`, but its content did not come with it",
                "pack it and send its hash as `snapshot` (`stw run` does)",
                file=item.file,
                path="workdir",
            )
        )
    if problems or isinstance(task, Dag):
        raise SpecError(problems)
    secrets = found.secrets[0] if found.secrets else {}
    return Read(task, found.text, secrets, (*task.ignored, *task.notices))


def _read(item: SubmitItem) -> Reading:
    if item.kind == "argv":
        return read_command(item.argv, env=item.env, secrets=item.secrets, overrides=item.overrides)
    reader = read_batch if item.kind == "sbatch" else read
    return reader(
        item.text, file=item.file, env=item.env, secrets=item.secrets, overrides=item.overrides
    )
