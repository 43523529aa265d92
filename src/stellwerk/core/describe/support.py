"""Decides what can't be run at present, though it can be read: one table, one line for each.

A feature that lands takes its line out. Nothing is left out of a job silently: what has no effect
is named by the reader (`Task.ignored`), what would change the job's meaning is refused here. That
something is refused anyway is told together with its faults, not after they have been mended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from stellwerk.core.describe.fill import VARIABLE
from stellwerk.core.describe.nodes import Node
from stellwerk.core.describe.places import (
    IMAGE_PREFIX,
    can_be_image,
    can_be_target,
    names_login,
    targets,
)
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.launch import has_one_count
from stellwerk.core.model.task import Dag, GitWorkdir, ResourceRequest, Task
from stellwerk.core.model.wishes import Wishes


class _Line(NamedTuple):
    """A feature: its code and key, who uses it, and what to say to them.

    `message` may have `{what}`, which `named` says. `present` finds it in a document, also where
    that couldn't be read.
    """

    code: str
    path: str
    used: Callable[[Task], object]
    message: str
    help: str
    present: Callable[[Node], object] = lambda _node: False
    named: Callable[[Task], str] = lambda _task: ""


def _has_image(task: Task) -> bool:
    return any(request.image_id for request in task.resources)


def _any(test: Callable[[ResourceRequest], object]) -> Callable[[Task], bool]:
    return lambda task: any(test(request) for request in task.resources)


OF_SERVICES = ("spread", "clusters", "standby")
"""Wishes over how many clusters, and over which domains, something is put."""

NO_WISHES = Wishes()

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
        lambda node: node.get("service"),
    ),
    _Line(
        "pool", "pool", lambda task: task.pool,
        "pools are read, but can't be run yet", "remove `pool:` and submit jobs instead",
        lambda node: node.get("pool"),
    ),
    _Line(
        "git-workdir", "workdir", lambda task: isinstance(task.workdir, GitWorkdir),
        "a repository as `workdir` can't be fetched yet",
        "clone it, and name the folder: `workdir: FOLDER`",
        lambda node: (workdir := node.get("workdir")) and workdir.kind == "map",
    ),
    _Line(
        "mount-target", "file_mounts",
        lambda task: not all(map(can_be_target, targets(task))),
        "nothing of a job's own can be put at {what}",
        "use an absolute path or one below `~/`, without `..`, and none of the system's own",
        named=lambda task: ", ".join(
            f"`{target[:60]}`" for target in targets(task) if not can_be_target(target)
        ),
    ),
    _Line(
        "volumes", "volumes",
        lambda task: not all(
            volume.host_path
            or (isinstance(volume.as_written, dict) and "host_path" in volume.as_written)
            for volume in task.volumes.values()
        ),
        "only volumes that are a `host_path` can be mounted yet",
        "give `host_path` with a path that the machine has",
        lambda node: (volumes := node.get("volumes")) and not all(
            entry.value.get("host_path") for entry in volumes.entries
        ),
    ),
    _Line(
        "image", "resources.image_id", _any(lambda request: not can_be_image(request)),
        "only images of containers can be run",
        "name one as `docker:IMAGE`, for example `docker:ubuntu:24.04`",
        lambda node: any(map(_is_no_image, _parts(node, "image_id"))),
    ),
    _Line(
        "image-login", "envs", lambda task: _has_image(task) and names_login(task),
        "a login for a registry of images can't be used yet",
        "log in once on the machine with `podman login`, and remove it from the task",
    ),
    _Line(
        "hooks", "config.hooks", lambda task: task.hooks,
        "hooks can't be run yet",
        "remove them; let the program itself catch SIGTERM, or look for $STELLWERK_STOP_FILE",
        lambda node: (config := node.get("config")) and config.get("hooks"),
    ),
    _Line(
        "event-callback", "event_callback", lambda task: task.event_callback,
        "`event_callback` can't be run yet", "remove it and follow with `stw events -f`",
        lambda node: node.get("event_callback"),
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
        "processes", "resources", lambda task: not has_one_count(task),
        "the alternatives differ in how many processes a node has",
        "add the label `stellwerk/processes-per-node: '2'` for all of them",
    ),
    _Line(
        "wishes", "resources.labels",
        lambda task: task.service is None and any(_of_services(task)),
        "a job goes to one cluster, so {what} can't be kept",
        "remove what is meant for services",
        lambda node: not node.get("service") and any(
            _labels(node, f"stellwerk/{name}") for name in OF_SERVICES
        ),
        named=lambda task: " and ".join(f"`stellwerk/{name}`" for name in _of_services(task))
        or "a wish of a service",
    ),
    _Line(
        "prewarm", "resources.labels", lambda task: task.wishes and task.wishes.prewarm,
        "nothing moves data while a job waits yet",
        "remove `stellwerk/prewarm`; what a cluster lacks of its data, the job gets by itself",
        lambda node: any(one.as_text() == "yes" for one in _labels(node, "stellwerk/prewarm")),
    ),
    _Line(
        "move-after", "resources.labels.stellwerk/move-after",
        lambda task: task.move_after_ms is not None,
        "a job can't be moved away from a silent cluster yet",
        "remove the label; `stw lost NAME` gives a run up by hand",
        lambda node: _labels(node, "stellwerk/move-after"),
    ),
)  # fmt: skip


def _of_services(task: Task) -> Iterator[str]:
    """The wishes of a task that only a service can have."""
    wishes = task.wishes or NO_WISHES
    asked = (bool(wishes.spread), wishes.clusters is not None, bool(wishes.standby))
    return (name for name, there in zip(OF_SERVICES, asked, strict=True) if there)


def _parts(node: Node, key: str) -> list[Node]:
    """The values under a key of `resources` and of each of its alternatives."""
    resources = node.get("resources")
    if resources is None:
        return []
    lists = [resources.get(name) for name in ("any_of", "ordered")]
    parts = [resources, *(item for one in lists if one is not None for item in one.items)]
    return [value for part in parts if (value := part.get(key)) is not None]


def _labels(node: Node, name: str) -> list[Node]:
    entries = (entry for labels in _parts(node, "labels") for entry in labels.entries)
    return [entry.value for entry in entries if entry.key == name and entry.value.kind == "scalar"]


def _is_no_image(node: Node) -> bool:
    images = [entry.value for entry in node.entries] if node.kind == "map" else [node]
    return any(
        image.kind == "scalar" and not image.as_text().startswith(IMAGE_PREFIX) for image in images
    )


ONLY_OF_SOUND_TASKS = ("unsupported/nothing-to-run", "unsupported/secret-in-text")
"""Refusals that a fault elsewhere may be the cause of."""


def refusals(task: Task | Dag, documents: Sequence[Node], file: str) -> tuple[Problem, ...]:
    """As `unsupported`, with places, for a task that was read from documents, faults or not.

    `documents` are those of the tasks, in order.
    """
    if len(documents) != (1 if isinstance(task, Task) else len(task.tasks)):
        return tuple(unsupported(task))
    return tuple(
        structs.replace(problem, file=file, line=place.line, column=place.column)
        for problem, place in _placed(task, documents)
    )


def _placed(task: Task | Dag, documents: Sequence[Node]) -> Iterator[tuple[Problem, Node]]:
    if isinstance(task, Task):
        for problem in _unsupported(task, "", documents[0]):
            yield problem, _place(documents[0], problem.path)
        return
    yield _of_several(task), documents[0]
    for i, (one, node) in enumerate(zip(task.tasks, documents, strict=True)):
        prefix = f"tasks[{i}]."
        for problem in _unsupported(one, prefix, node):
            yield problem, _place(node, problem.path.removeprefix(prefix))


def _place(node: Node, path: str) -> Node:
    """The key that a path leads to, or the last one on the way that is there."""
    place = node
    for part in path.split("."):
        entry = next((entry for entry in node.entries if entry.key == part), None)
        if entry is None:
            break
        place, node = entry.key_node, entry.value
    return place


def unsupported(task: Task | Dag) -> list[Problem]:
    """Everything that keeps a task from being run at present; nothing if it can be."""
    if isinstance(task, Task):
        return list(_unsupported(task, ""))
    problems = [_of_several(task)]
    for i, one in enumerate(task.tasks):
        problems += _unsupported(one, f"tasks[{i}].")
    return problems


def _of_several(task: Dag) -> Problem:
    what = "groups of tasks" if task.execution == "parallel" else "pipelines"
    return Problem(
        "unsupported/tasks",
        f"{what} are read, but can't be run yet",
        "put each task into a file of its own and submit them one by one",
    )


def _unsupported(task: Task, prefix: str, node: Node | None = None) -> Iterator[Problem]:
    for line in TABLE:
        if line.used(task) or (node is not None and line.present(node)):
            message = line.message.replace("{what}", line.named(task))
            yield Problem(f"unsupported/{line.code}", message, line.help, path=prefix + line.path)


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
