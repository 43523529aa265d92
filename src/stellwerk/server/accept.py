"""Decides whether submitted items are acceptable: all problems at once, each distinct task once."""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from stellwerk.config import Settings, load
from stellwerk.core.describe.commands import called
from stellwerk.core.describe.extras import flags_in_labels
from stellwerk.core.describe.places import targets
from stellwerk.core.describe.support import missing_secrets
from stellwerk.core.lower import Lowered, lower
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.errors import Notice, Problem, StellwerkError
from stellwerk.core.model.resources import DEFAULT_QUEUE
from stellwerk.core.model.task import Task
from stellwerk.core.place.decide import never_fits
from stellwerk.server.models import TEXT_BYTES, VALUE_BYTES, SubmitItem
from stellwerk.server.mounting import Mounted, mount
from stellwerk.server.people import Caller
from stellwerk.server.policy import Policy, Refused, may_have_priority
from stellwerk.server.queue_choice import (
    class_of,
    class_problems,
    in_own_queue,
    label_problems,
    queue_problems,
    with_class,
)

MOST_PROBLEMS = 50
LOCAL = "local"
ENVIRONMENT_BYTES = 2 * 2**20
ARGV_BYTES = 2**20

_UNFIT = re.compile(r"[^a-z0-9]+")
_LIKE_ID = re.compile(r"w-[0-9a-z]{13}")


class Read(msgspec.Struct, frozen=True):
    """A task that can be run, as it was read.

    `secrets` are the values that came with it; `text` is what was written, without them.
    """

    task: Task
    text: str = ""
    secrets: dict[str, str] = {}
    notices: tuple[Notice, ...] = ()


ReadItem = Callable[[SubmitItem], Read]
"""Reads an item, or raises SpecError with every problem."""


class Accepted(msgspec.Struct, frozen=True, eq=False):
    """An item that may be taken down: everything about it that its copies share.

    `managed` maps variables to secrets that are in the store already.
    """

    read: Read
    lowered: Lowered
    name: str
    managed: dict[str, str]
    mounted: Mounted = Mounted()
    has_class: bool = False

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the person should know."""
        return (*self.read.notices, *self.mounted.notices, *self._unknown_class())

    def _unknown_class(self) -> list[Notice]:
        name = self.read.task.priority_class
        if not name or self.has_class:
            return []
        message = f"there is no priority class `{name}`, so its priority is {self.lowered.priority}"
        return [Notice("priority/no-class", message, "write a number from -1000 to 1000")]


class Surroundings(msgspec.Struct, frozen=True):
    """What an item is judged against."""

    clusters: Sequence[Cluster]
    known_secrets: Collection[str]
    missing_blobs: Callable[[Sequence[str]], Sequence[str]]
    settings: Callable[[], Settings] = load
    queues: Sequence[str] = (DEFAULT_QUEUE,)
    priority_classes: Mapping[str, int] = MappingProxyType({})
    placements: Callable[[], Sequence[str]] = tuple
    caller: Caller | None = None
    policy: Policy = Policy()


def with_flags(items: Sequence[SubmitItem]) -> list[SubmitItem]:
    """Items whose labels `stellwerk/…` are the flags they stand for; raises where there is none.

    Copies of one item stay the same object.
    """
    found: dict[int, SubmitItem] = {}
    problems: list[Problem] = []
    for number, item in enumerate(items):
        if id(item) in found or len(problems) >= MOST_PROBLEMS:
            continue
        labels, flags, wrong = flags_in_labels(item.labels)
        problems += _numbered(wrong, number, len(items))
        found[id(item)] = item
        if flags:
            overrides = {**flags, **item.overrides}
            found[id(item)] = replace(item, labels=labels, overrides=overrides)
    if problems:
        raise StellwerkError(problems[:MOST_PROBLEMS])
    return [found[id(item)] for item in items]


def accept_all(items: Sequence[SubmitItem], read: ReadItem, around: Surroundings) -> list[Accepted]:
    """Accepts all items, or raises StellwerkError with the problems of all of them."""
    found: dict[bytes, Accepted] = {}
    problems: list[Problem] = []
    result: list[Accepted] = []
    before: SubmitItem | None = None
    for number, item in enumerate(items):
        if item is before:
            result.append(result[-1])
            continue
        before, content = None, content_of(item)
        try:
            if content not in found:
                found[content] = accept(item, read, around)
        except StellwerkError as error:
            problems += _numbered(error.problems, number, len(items))
            if len(problems) >= MOST_PROBLEMS:
                break
            continue
        before = item
        result.append(found[content])
    if problems:
        raise StellwerkError(problems[:MOST_PROBLEMS])
    return result


def accept(item: SubmitItem, read: ReadItem, around: Surroundings) -> Accepted:
    """Accepts one item, or raises StellwerkError with all its problems."""
    problems = [*size_problems(item), *command_problems(item)]
    if problems:
        raise StellwerkError(problems)
    found = read(item)
    lowered = with_class(lower(found.task), found.task, around.priority_classes)
    lowered = in_own_queue(belonging(lowered, around, problems, item.file), around.queues)
    if item.in_place:
        lowered = stay_here(lowered, around.clusters, problems)
    mounted = Mounted()
    if targets(found.task):
        mounted = mount(found.task, item.mounts, around.settings(), problems)
    problems += _missing(item, found, around)
    problems += class_problems(found.task, item, around.priority_classes)
    problems += queue_problems(lowered.queue, around.queues, item.file)
    problems += label_problems(found.task, item)
    if lowered.shape.placement:
        problems += placement_problems(lowered.shape.placement, around.placements(), item.file)
    problems += [
        Problem("place/never-fits", told.sentence, told.remedy, file=item.file)
        for told in map(render, never_fits(lowered.shape, list(around.clusters)))
    ]
    if problems:
        raise StellwerkError(problems)
    managed = {
        ref.name: ref.name for ref in found.task.managed_secrets if ref.name not in found.secrets
    }
    known = class_of(found.task) in around.priority_classes
    return Accepted(found, lowered, name_of(found.task, item), managed, mounted, has_class=known)


def belonging(
    lowered: Lowered, around: Surroundings, problems: list[Problem], file: str
) -> Lowered:
    """Says as whom it runs, and that its priority is one that they may give."""
    if around.caller is None:
        return lowered
    verdict = may_have_priority(around.caller.actor, lowered.priority, around.policy)
    if isinstance(verdict, Refused):
        problems.append(Problem(verdict.code, verdict.message, verdict.help, file=file))
    person, project = around.caller.person, around.caller.project
    return replace(lowered, shape=replace(lowered.shape, person=person, project=project))


def content_of(item: SubmitItem) -> bytes:
    """Equal for items that differ in nothing but their idempotency key."""
    return msgspec.json.encode(msgspec.structs.replace(item, key=""))


def size_problems(item: SubmitItem) -> list[Problem]:
    """What of an item is larger than can be passed to a job, or can't be passed at all."""
    problems = []
    if _length(item.text) > TEXT_BYTES:
        message, help = "the text is larger than 2 MiB", "put data into files"
        problems.append(Problem("spec/too-large", message, help, file=item.file))
    for name, value in (*item.env.items(), *item.secrets.items()):
        if value is not None and _length(value) > VALUE_BYTES:
            message = f"the value of `{name[:80]}` is larger than 128 KiB"
            help = "Linux passes no larger variable to a program; put it into a file"
            problems.append(Problem("spec/env-too-large", message, help))
    if sum(map(_length, item.argv)) > ARGV_BYTES:
        message, help = "the command is longer than 1 MiB", "put its arguments into a file"
        problems.append(Problem("spec/too-large", message, help))
    if sum(len(name) + len(value) for name, value in item.caller_env.items()) > ENVIRONMENT_BYTES:
        message, help = "the caller's environment is larger than 2 MiB", "unset large variables"
        problems.append(Problem("spec/env-too-large", message, help))
    texts = (*item.argv, item.cwd, *item.caller_env, *item.caller_env.values(), item.file)
    if any("\0" in text for text in texts):
        message = "there is a NUL byte in the command, its folder or its environment"
        problems.append(Problem("spec/nul", message, "no program can be given one; remove it"))
    return problems


def command_problems(item: SubmitItem) -> list[Problem]:
    """What is wrong with a command, or with where it is to run."""
    problems = []
    if item.kind == "argv" and not item.argv:
        message, help = "there is no command to run", "write it after `--`"
        problems.append(Problem("spec/no-command", message, help))
    if item.in_place and item.kind != "argv":
        message, help = "only a command runs in place", "leave `in_place` out"
        problems.append(Problem("request/invalid", message, help))
    if item.in_place and not os.path.isabs(item.cwd):
        message = f"`cwd` is no absolute folder: {item.cwd[:200]!r}"
        help = "send the folder that the command is to run in"
        problems.append(Problem("request/invalid", message, help))
    return problems


def placement_problems(key: str, known: Sequence[str], file: str) -> list[Problem]:
    """That there is no placement of that name: nothing would ever choose a cluster for it."""
    if key in known:
        return []
    from difflib import get_close_matches

    close = get_close_matches(key, known, 1)
    listed = f"there are {', '.join(known[:8])}" if known else "apply one: stw placement apply"
    help = f"did you mean `{close[0]}`?" if close else listed
    path = "resources.labels.stellwerk/placement"
    return [
        Problem("submit/placement", f"there is no placement `{key}`", help, file=file, path=path)
    ]


def name_of(task: Task, item: SubmitItem) -> str:
    """The task's own name, else one made of its file or its command."""
    if task.name:
        if _LIKE_ID.fullmatch(task.name):
            message = f"`{task.name}` looks like a workload's id"
            raise StellwerkError.of("spec/name", message, "choose another name")
        return task.name
    stem = called(item.argv) if item.argv else os.path.basename(item.file).rsplit(".", 1)[0]
    return _UNFIT.sub("-", stem.lower()).strip("-")[:40].strip("-") or "task"


def stay_here(lowered: Lowered, clusters: Sequence[Cluster], problems: list[Problem]) -> Lowered:
    """Keeps a command in place on the machine it was given on, where there are others too."""
    if {cluster.driver for cluster in clusters} <= {LOCAL} or not any(
        cluster.driver == LOCAL for cluster in clusters
    ):
        return lowered
    shape = lowered.shape
    elsewhere = [one.infra for one in shape.alternatives if one.infra.partition("/")[0] == "ssh"]
    if elsewhere:
        message = f"a command in place can't run on {elsewhere[0]}"
        help = "give it its code: `stw run --workdir . --infra … -- COMMAND`, or write a task file"
        problems.append(Problem("submit/in-place", message, help))
    here = tuple(replace(one, infra=one.infra or LOCAL) for one in shape.alternatives)
    return replace(lowered, shape=replace(shape, alternatives=here))


def _missing(item: SubmitItem, found: Read, around: Surroundings) -> list[Problem]:
    """What an item refers to and nobody has sent."""
    problems = missing_secrets(found.task, {*found.secrets, *around.known_secrets})
    packed = [one for one in (item.snapshot, *item.mounts.values()) if one]
    if packed and around.missing_blobs(packed):
        message = "what was packed for the task isn't in the store"
        help = "send the content that POST /v1/blobs/missing names, then submit again"
        problems.append(Problem("blob/missing", message, help))
    return problems


def _length(text: str) -> int:
    return len(text.encode(errors="replace"))


def _numbered(problems: Sequence[Problem], number: int, count: int) -> list[Problem]:
    """Says which item of a batch a problem belongs to."""
    if count == 1:
        return list(problems)
    return [
        msgspec.structs.replace(problem, message=f"item {number}: {problem.message}")
        for problem in problems
    ]
