"""Decides what the queue and the priority class that a task names mean among those there are."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from stellwerk.core.describe.extras import PREFIX
from stellwerk.core.lower import Lowered, max_exec_ms, min_nodes
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.nearness import wrong_nearness
from stellwerk.core.model.queueing import (
    MAX_EXEC_LABEL,
    MIN_NODES_LABEL,
    PRIORITY_LABEL,
    QueueObjects,
)
from stellwerk.core.model.resources import DEFAULT_QUEUE
from stellwerk.core.model.task import Task
from stellwerk.core.queueing_objects import DEFAULT_NAMESPACE
from stellwerk.server.models import SubmitItem

NAMES = 8
OWN_NUMBER = "write a number from -1000 to 1000; higher goes first"


def queue_names(objects: QueueObjects) -> tuple[str, ...]:
    """What work may name as its queue: `default`, and each LocalQueue; one of the namespace
    `default` by its name alone, too.
    """
    short = (one.name for one in objects.local_queues if one.namespace == DEFAULT_NAMESPACE)
    return tuple(dict.fromkeys((DEFAULT_QUEUE, *short, *(o.key for o in objects.local_queues))))


def in_own_queue(lowered: Lowered, known: Sequence[str]) -> Lowered:
    """A queue named without a namespace is that of the work's project, if it has one of that name;
    else it is one of `default`.
    """
    own = f"{lowered.shape.project}/{lowered.queue}"
    if not lowered.shape.project or "/" in lowered.queue or own not in known:
        return lowered
    return replace(lowered, queue=own, shape=replace(lowered.shape, queue=own))


def class_values(objects: QueueObjects) -> dict[str, int]:
    """The priority classes by name; a WorkloadPriorityClass comes before a PriorityClass."""
    return {one.name: one.value for one in objects.priority_classes}


def queue_problems(queue: str, known: Sequence[str], file: str) -> list[Problem]:
    """That there is no queue of that name: it would wait where nobody looks for it."""
    if queue in known:
        return []
    close = get_close_matches(queue, known, 1)
    help = f"did you mean `{close[0]}`?" if close else "leave `queue` out, or name one of these"
    message = f"there is no queue `{queue}`; there {_there_are(known)}"
    return [Problem("submit/queue", message, help, file=file, path="queue")]


def _there_are(known: Sequence[str]) -> str:
    if len(known) == 1:
        return f"is only `{known[0]}`"
    more = f" and {len(known) - NAMES} more" if len(known) > NAMES else ""
    return f"are {', '.join(known[:NAMES])}{more}"


def class_of(task: Task) -> str:
    """The priority class that a task names; a number of its own holds before a label."""
    if task.priority_class:
        return task.priority_class
    return task.labels.get(PRIORITY_LABEL, "") if task.priority is None else ""


def with_class(lowered: Lowered, task: Task, classes: Mapping[str, int]) -> Lowered:
    """Work has the value that its class has at submission; later changes of that don't count."""
    value = classes.get(class_of(task))
    return lowered if value is None else replace(lowered, priority=value)


def class_problems(task: Task, item: SubmitItem, classes: Mapping[str, int]) -> list[Problem]:
    """That there is no priority class of that name: it would wait with another priority.

    The field of `sky` may name one of another system, and is only noted.
    """
    name = class_of(task)
    labels = (task.labels.get(f"{PREFIX}priority"), task.labels.get(PRIORITY_LABEL))
    if not name or name in classes or name not in (item.overrides.get("priority"), *labels):
        return []
    close = get_close_matches(name, classes, 1)
    listed = f"there are {', '.join(list(classes)[:NAMES])}, or {OWN_NUMBER}"
    help = f"did you mean `{close[0]}`?" if close else listed if classes else OWN_NUMBER
    message = f"there is no priority class `{name}`"
    return [Problem("submit/priority-class", message, help, file=item.file, path="priority")]


def label_problems(task: Task, item: SubmitItem) -> list[Problem]:
    """What is wrong in the labels of Kueue that it has."""
    found = _nearness_problems(task, item)
    if min_nodes(task) is None:
        least = task.min_nodes or task.labels.get(MIN_NODES_LABEL, "")
        message = f"of {task.num_nodes} nodes, at least {least} are asked"
        help = f"write a number from 1 to {task.num_nodes}"
        found.append(Problem("submit/min-nodes", message, help, file=item.file, path="labels"))
    if max_exec_ms(task.labels) is None:
        message = f"`{MAX_EXEC_LABEL}` is `{task.labels[MAX_EXEC_LABEL]}`"
        help = "write a number of seconds from 1 on"
        found.append(Problem("submit/max-exec", message, help, file=item.file, path="labels"))
    return found


def _nearness_problems(task: Task, item: SubmitItem) -> list[Problem]:
    """That its labels ask for nodes near to each other in a way that can't be."""
    wrong = wrong_nearness(task.labels, task.num_nodes)
    help = "name one of `required`, `preferred` and `unconstrained`, and slices that divide it"
    return [Problem("submit/topology", wrong, help, file=item.file, path="labels")] if wrong else []
