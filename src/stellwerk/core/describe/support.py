"""Decides what can't be run at present, though it can be read: one table, one line for each.

A feature that lands takes its line out. Nothing is left out of a job silently: what has no effect
is named by the reader (`Task.ignored`), what would change the job's meaning is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from stellwerk.core.describe.fill import VARIABLE
from stellwerk.core.describe.places import (
    can_be_image,
    can_be_target,
    names_login,
    targets,
)
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.task import Dag, GitWorkdir, ResourceRequest, Task


class _Line(NamedTuple):
    """A feature: its code and key, who uses it, and what to say to them."""

    code: str
    path: str
    used: Callable[[Task], object]
    message: str
    help: str


def _has_image(task: Task) -> bool:
    return any(request.image_id for request in task.resources)


def _any(test: Callable[[ResourceRequest], object]) -> Callable[[Task], bool]:
    return lambda task: any(test(request) for request in task.resources)


TABLE: tuple[_Line, ...] = (
    _Line(
        "nothing-to-run", "run",
        lambda task: not (task.run.strip() or task.setup.strip() or task.pool),
        "there is nothing to run", "add `run:` with a bash script",
    ),
    _Line(
        "service", "service", lambda task: task.service,
        "services are read, but can't be run yet",
        "remove `service:` to run the program as a job",
    ),
    _Line(
        "pool", "pool", lambda task: task.pool,
        "pools are read, but can't be run yet", "remove `pool:` and submit jobs instead",
    ),
    _Line(
        "git-workdir", "workdir", lambda task: isinstance(task.workdir, GitWorkdir),
        "a repository as `workdir` can't be fetched yet", "clone it and name the folder",
    ),
    _Line(
        "mount-target", "file_mounts",
        lambda task: not all(map(can_be_target, targets(task))),
        "a target is no place for something of a job's own",
        "use an absolute path or one below `~/`, without `..`, and none of the system's own",
    ),
    _Line(
        "volumes", "volumes",
        lambda task: not all(volume.host_path for volume in task.volumes.values()),
        "only volumes that are a `host_path` can be mounted yet",
        "give `host_path` with a path that the machine has",
    ),
    _Line(
        "image", "resources.image_id", _any(lambda request: not can_be_image(request)),
        "only images of containers can be run", "write `image_id: docker:IMAGE`",
    ),
    _Line(
        "image-login", "envs", lambda task: _has_image(task) and names_login(task),
        "a login for a registry of images can't be used yet",
        "log in once on the machine with `podman login`, and remove it from the task",
    ),
    _Line(
        "hooks", "config.hooks", lambda task: task.hooks,
        "hooks can't be run yet", "let the program itself catch SIGTERM",
    ),
    _Line(
        "event-callback", "event_callback", lambda task: task.event_callback,
        "`event_callback` can't be run yet", "remove it and follow with `stw events -f`",
    ),
    _Line(
        "secret-in-text", "secrets", lambda task: any(_secrets_in_texts(task)),
        "a secret stands in a value that is stored and shown, so it isn't filled in",
        "use an entry of `envs`, or the secret inside of `setup` or `run`",
    ),
    _Line(
        "accelerator-count", "resources.accelerators",
        _any(lambda request: request.gpus > 1 and not float(request.gpus).is_integer()),
        "a job can have a part of one accelerator or several whole ones, not both",
        "write a whole number, or one below 1",
    ),
    _Line(
        "launcher", "resources.labels.stellwerk/launcher",
        lambda task: task.launcher not in {None, "auto", "node"},
        "only one process for each node can be started yet",
        "start the launcher in `run`, or remove the label",
    ),
    _Line(
        "placement", "resources.labels.stellwerk/placement", lambda task: task.placement,
        "there are no placements yet", "name the cluster with `infra`, or remove the label",
    ),
    _Line(
        "move-after", "resources.labels.stellwerk/move-after",
        lambda task: task.move_after_ms is not None,
        "a job can't be moved away from a silent cluster yet", "remove the label",
    ),
)  # fmt: skip


def unsupported(task: Task | Dag) -> list[Problem]:
    """Everything that keeps a task from being run at present; nothing if it can be."""
    if isinstance(task, Task):
        return list(_unsupported(task, ""))
    what = "groups of tasks" if task.execution == "parallel" else "pipelines"
    problems = [
        Problem(
            "unsupported/tasks",
            f"{what} are read, but can't be run yet",
            "put each task into a file of its own and submit them one by one",
        )
    ]
    for i, one in enumerate(task.tasks):
        problems += _unsupported(one, f"tasks[{i}].")
    return problems


def _unsupported(task: Task, prefix: str) -> Iterator[Problem]:
    for line in TABLE:
        if line.used(task):
            yield Problem(
                f"unsupported/{line.code}", line.message, line.help, path=prefix + line.path
            )


def missing_secrets(task: Task, available: Collection[str]) -> list[Problem]:
    """The secrets that a task names and nobody has given: refused before anything is queued.

    `available` are the names in the store of secrets; those that came with the task count too.
    """
    return [
        Problem(
            "secret/missing",
            f"the secret `{ref.name}` has no value",
            f"give it with `--secret {ref.name}`",
            path=f"secrets.{ref.name}",
        )
        for ref in task.managed_secrets
        if ref.name not in task.secrets and ref.name not in available
    ]


def _secrets_in_texts(task: Task) -> Iterator[str]:
    names = {*task.secrets, *(ref.name for ref in task.managed_secrets)}
    if not names:
        return
    for text in _filled_texts(task):
        for match in VARIABLE.finditer(text):
            if (match[1] or match[2]) in names:
                yield match[0]


def _filled_texts(task: Task) -> Iterator[str]:
    workdir = task.workdir
    if isinstance(workdir, GitWorkdir):
        yield from (workdir.url, workdir.ref or "")
    elif workdir:
        yield workdir
    for target, source in task.file_mounts.items():
        yield from (target, source)
    for target, mount in task.storage.items():
        sources = mount.source if isinstance(mount.source, tuple) else (mount.source or "",)
        yield from (target, mount.name or "", *sources)
    for target, volume in task.volumes.items():
        yield from (target, volume.name or "", volume.sub_path or "", volume.host_path or "")
    if task.service is not None:
        probe = task.service.readiness_probe
        yield from (probe.path, *probe.headers.values())
