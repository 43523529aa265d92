"""Takes submitted tasks from text to durable commands: all problems at once, or all accepted.

Reading, lowering and sealing run in a thread, each distinct task once, however many copies are
submitted. Nothing is written before everything has been found acceptable.
"""

import asyncio
import os
import re
from collections.abc import Callable, Sequence

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from stellwerk.core.lower import Lowered, lower
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.errors import Notice, Problem, StellwerkError
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.task import Task
from stellwerk.core.place.decide import never_fits
from stellwerk.engine.orders import Launch
from stellwerk.server.ids import Ids
from stellwerk.server.models import TEXT_BYTES, VALUE_BYTES, SubmitItem, SubmittedMany, Told
from stellwerk.server.services import PROJECT, Services
from stellwerk.store import Ack, NewCommand, Store

CALLER_ENV = "caller-env"
MOST_PROBLEMS = 50
ENVIRONMENT_BYTES = 2 * 2**20
ARGV_BYTES = 1 * 2**20

_UNFIT = re.compile(r"[^a-z0-9]+")
_LIKE_ID = re.compile(r"w-[0-9a-z]{13}")


class Read(msgspec.Struct, frozen=True):
    """A task that can be run, as it was read; `secrets` are the values that came with it."""

    task: Task
    secrets: dict[str, str] = {}
    notices: tuple[Notice, ...] = ()


ReadItem = Callable[[SubmitItem], Read]
"""Reads an item, or raises SpecError with every problem."""


class Prepared(msgspec.Struct, frozen=True):
    """An item that is accepted: everything about it that its copies share."""

    read: Read
    lowered: Lowered
    name: str


class Submits:
    """The way of a submission into the inbox."""

    def __init__(self, services: Services, read: ReadItem) -> None:
        self._services = services
        self._read = read
        self._ids = Ids()

    async def submit(self, items: Sequence[SubmitItem], actor: str) -> SubmittedMany:
        """Checks all items and takes them down in one transaction; raises with every problem."""
        prepared = await asyncio.to_thread(self._prepare, items)
        now_ms = self._services.clock.now_ms()
        ids = [self._ids.give(now_ms) for _ in items]
        sealing = Sealing(self._services.store, actor, now_ms)
        commands = await asyncio.to_thread(self._commands, items, prepared, ids, actor, sealing)
        try:
            acks = await self._services.take(commands)
        except StellwerkError:
            await asyncio.to_thread(sealing.undo)
            raise
        if all(ack.repeated for ack in acks):
            await asyncio.to_thread(sealing.undo)
        return _answer(acks, prepared)

    def _prepare(self, items: Sequence[SubmitItem]) -> list[Prepared]:
        clusters = [cluster for cluster, _ in self._services.store.clusters()]
        found: dict[bytes, Prepared] = {}
        problems: list[Problem] = []
        result: list[Prepared] = []
        same: tuple[SubmitItem, Prepared] | None = None
        for number, item in enumerate(items):
            if same is not None and same[0] is item:
                result.append(same[1])
                continue
            content = content_of(item)
            try:
                if content not in found:
                    found[content] = self._prepare_one(item, clusters)
            except StellwerkError as error:
                problems.extend(_numbered(error.problems, number, len(items)))
                if len(problems) >= MOST_PROBLEMS:
                    break
                continue
            same = (item, found[content])
            result.append(found[content])
        if problems:
            raise StellwerkError(problems[:MOST_PROBLEMS])
        return result

    def _prepare_one(self, item: SubmitItem, clusters: list[Cluster]) -> Prepared:
        problems = [*sizes(item), *in_place(item)]
        if not problems and item.snapshot and self._services.store.blobs.missing([item.snapshot]):
            problems.append(
                Problem(
                    "blob/missing",
                    "the packed work directory isn't in the store",
                    "send the content that POST /v1/blobs/missing names, then submit again",
                )
            )
        if problems:
            raise StellwerkError(problems)
        read = self._read(item)
        lowered = lower(read.task)
        refused = never_fits(lowered.shape, clusters)
        if refused:
            told = [render(reason) for reason in refused]
            raise StellwerkError(
                [
                    Problem("place/never-fits", one.sentence, one.remedy, file=item.file)
                    for one in told
                ]
            )
        return Prepared(read=read, lowered=lowered, name=name_of(read.task, item))

    def _commands(
        self,
        items: Sequence[SubmitItem],
        prepared: list[Prepared],
        ids: list[WorkloadId],
        actor: str,
        sealing: "Sealing",
    ) -> list[NewCommand]:
        blobs: dict[int, BlobHash] = {}
        commands = []
        for item, one, workload in zip(items, prepared, ids, strict=True):
            if id(one) not in blobs:
                launch = msgspec.json.encode(sealing.launch(item, one.read, workload))
                blobs[id(one)] = self._services.store.blobs.put(launch)
            commands.append(
                NewCommand(
                    actor,
                    PROJECT,
                    item.key,
                    Submit(
                        id=workload,
                        name=one.name,
                        project=PROJECT,
                        shape=one.lowered.shape,
                        task=blobs[id(one)],
                        snapshot=item.snapshot,
                        priority=one.lowered.priority,
                        queue=one.lowered.queue,
                        labels={**one.read.task.labels, **item.labels},
                        policies=one.lowered.policies,
                        held=item.held,
                    ),
                )
            )
        return commands


class Sealing:
    """Seals what must not be seen, and remembers it in case that nothing comes of it."""

    def __init__(self, store: Store, owner: str, now_ms: int) -> None:
        self._store = store
        self._owner = owner
        self._now_ms = now_ms
        self._names: list[str] = []

    def launch(self, item: SubmitItem, read: Read, workload: WorkloadId) -> Launch:
        """What is stored of a submission, with references in place of secrets."""
        secrets = {
            variable: self._seal(f"{workload}/{variable}", value)
            for variable, value in read.secrets.items()
        }
        caller_env = ""
        if item.in_place:
            text = msgspec.json.encode(item.caller_env).decode()
            caller_env = self._seal(f"{workload}/{CALLER_ENV}", text)
        return Launch(
            task=read.task,
            text=item.text,
            file=item.file,
            argv=tuple(item.argv) if item.in_place else (),
            cwd=item.cwd if item.in_place else "",
            caller_env=caller_env,
            secrets=secrets,
        )

    def undo(self) -> None:
        """Removes what was sealed for nothing."""
        for name in self._names:
            self._store.secrets.delete(PROJECT, self._owner, name)

    def _seal(self, name: str, value: str) -> str:
        self._store.secrets.put(PROJECT, self._owner, name, value, self._now_ms)
        self._names.append(name)
        return name


def content_of(item: SubmitItem) -> bytes:
    """Equal for items that differ in nothing but their idempotency key."""
    return msgspec.json.encode(msgspec.structs.replace(item, key=""))


def sizes(item: SubmitItem) -> list[Problem]:
    """What of an item is larger than can be passed to a job."""
    problems = []
    if len(item.text.encode(errors="replace")) > TEXT_BYTES:
        problems.append(
            Problem(
                "spec/too-large",
                "the text is larger than 2 MiB",
                "a task file describes work; put data into files",
                file=item.file,
            )
        )
    for name, value in (*item.env.items(), *item.secrets.items()):
        if value is not None and len(value.encode(errors="replace")) > VALUE_BYTES:
            problems.append(
                Problem(
                    "spec/env-too-large",
                    f"the value of `{name[:80]}` is larger than 128 KiB",
                    "Linux passes no larger variable to a program; put it into a file",
                )
            )
    if sum(len(arg) for arg in item.argv) > ARGV_BYTES:
        problems.append(
            Problem(
                "spec/too-large",
                "the command is longer than 1 MiB",
                "put its arguments into a file",
            )
        )
    total = sum(len(name) + len(value) for name, value in item.caller_env.items())
    if total > ENVIRONMENT_BYTES:
        problems.append(
            Problem(
                "spec/env-too-large",
                "the caller's environment is larger than 2 MiB",
                "unset large variables first",
            )
        )
    texts = (*item.argv, item.cwd, *item.caller_env, *item.caller_env.values(), item.file)
    if any("\0" in text for text in texts):
        problems.append(
            Problem(
                "spec/nul", "there is a NUL byte in it, which no program can be given", "remove it"
            )
        )
    return problems


def in_place(item: SubmitItem) -> list[Problem]:
    """What is wrong with a command to be run where the caller stands."""
    problems = []
    if item.kind == "argv" and not item.argv:
        problems.append(
            Problem("spec/no-command", "there is no command to run", "write it after `--`")
        )
    if item.in_place and item.kind != "argv":
        problems.append(
            Problem("request/invalid", "only a command runs in place", "leave `in_place` out")
        )
    if item.in_place and not os.path.isabs(item.cwd):
        problems.append(
            Problem(
                "request/invalid",
                f"`cwd` is no absolute folder: {item.cwd[:200]!r}",
                "send the folder that the command is to run in",
            )
        )
    return problems


def name_of(task: Task, item: SubmitItem) -> str:
    """The task's own name, else one made of its file or its command."""
    if task.name:
        if _LIKE_ID.fullmatch(task.name):
            raise StellwerkError.of(
                "spec/name", f"`{task.name}` looks like a workload's id", "choose another name"
            )
        return task.name
    source = item.argv[0] if item.argv else item.file
    stem = os.path.basename(source).rsplit(".", 1)[0]
    return _UNFIT.sub("-", stem.lower()).strip("-")[:40].strip("-") or "task"


def _numbered(problems: Sequence[Problem], number: int, count: int) -> list[Problem]:
    """Says which item of a batch a problem belongs to."""
    if count == 1:
        return list(problems)
    return [
        msgspec.structs.replace(problem, message=f"item {number}: {problem.message}")
        for problem in problems
    ]


def _answer(acks: Sequence[Ack], prepared: Sequence[Prepared]) -> SubmittedMany:
    notices: dict[tuple[str, str], Told] = {}
    for one in {id(one): one for one in prepared}.values():
        for notice in one.read.notices:
            notices.setdefault(
                (notice.code, notice.message),
                Told(notice.code, notice.message, notice.help, notice.line),
            )
    return SubmittedMany(
        ids=[ack.id for ack in acks],
        names=[ack.name for ack in acks],
        notices=list(notices.values()),
    )


GivenSubmits = NamedDependency[SkipValidation[Submits]]
"""How handlers ask for it."""
