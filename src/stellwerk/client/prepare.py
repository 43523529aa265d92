"""Turns a wish (a file or command with flags) into a complete submission, with its code packed.

A task file is read here too, though the server has the last word: its `workdir` must be packed by
whoever has it, and a mistake is told before anything is sent. A relative `workdir` is relative to
the caller's folder, as `sky` takes it.
"""

import os
import shlex
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from stellwerk.client.wire import Kind, Override, Submission
from stellwerk.config import Settings
from stellwerk.core.describe.extras import LOCK_FILES, flags_in_labels
from stellwerk.core.describe.places import means, packed_targets
from stellwerk.core.model.errors import Problem, SpecError, StellwerkError
from stellwerk.core.model.task import Task

if TYPE_CHECKING:
    from stellwerk.client.api import Client
    from stellwerk.client.pack import Limits, Packed
    from stellwerk.client.upload import Tell

LARGEST_TEXT = 2 * 2**20
STDIN = "-"


class Wish(NamedTuple):
    """What is to be submitted. Exactly one of `file`, `text` and `argv` is given."""

    file: str | None = None
    text: str | None = None
    argv: tuple[str, ...] | None = None
    overrides: Mapping[str, Override] = {}
    env: Mapping[str, str | None] = {}
    secrets: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    held: bool = False
    key: str = ""
    plan: str = ""
    allow_large: bool = False
    after: tuple[str, ...] = ()
    array: str = ""
    sweep: Mapping[str, tuple[str, ...]] = {}


class Prepared(NamedTuple):
    """A submission, and what was packed for it: the work directory, and mounts by target."""

    submission: Submission
    packed: "Packed | None" = None
    mounts: "Mapping[str, Packed]" = MappingProxyType({})

    @property
    def everything(self) -> "list[Packed]":
        """All that was packed."""
        return [*([self.packed] if self.packed else []), *self.mounts.values()]

    def upload(self, client: "Client", tell: "Tell | None" = None) -> int:
        """Sends what the server lacks, and tells how far it is; gives the bytes sent."""
        if not self.everything:
            return 0
        from stellwerk.client.upload import quietly, upload

        return sum(upload(one, client, tell or quietly) for one in self.everything)


def prepare(wish: Wish, settings: Settings) -> Prepared:
    """Reads, checks and packs; raises StellwerkError with everything that is in the way."""
    if sum(part is not None for part in (wish.file, wish.text, wish.argv)) != 1:
        raise SpecError(
            [Problem("submit/what", "give either a file, a text, or a command", "one of the three")]
        )
    wish, wrong = _with_extras(wish)
    if wrong:
        raise SpecError([*wrong, *problems_of(wish)])
    if wish.argv is not None:
        return _command(wish, settings)
    name, text = _read(wish.file) if wish.file is not None else ("", wish.text or "")
    kind: Kind = "sbatch" if text.startswith("#!") else "task"
    task = _task_in(text, name, wish, kind)
    describe = import_module("stellwerk.core.describe.tasks")
    workdir = describe.local_workdir(task) or wish.overrides.get("workdir")
    overrides = {key: value for key, value in wish.overrides.items() if key != "workdir"}
    _check_sources(task, workdir, name)
    packed = None
    if isinstance(workdir, str):
        packed = _pack(workdir, name, wish, settings)
    _check_setup_inputs(task, packed, name)
    mounts = _pack_mounts(task, wish, settings)
    submission = _submission(wish, overrides, text=text, file=name, kind=kind)
    if packed is not None:
        submission.snapshot = packed.hash
    submission.mounts = {target: one.hash for target, one in mounts.items()}
    return Prepared(submission, packed, mounts)


def problems_of(wish: Wish) -> tuple[Problem, ...]:
    """What can be seen to be wrong with a task, its variables and flags, without packing."""
    wish, wrong = _with_extras(wish)
    try:
        if wish.argv is not None:
            describe = import_module("stellwerk.core.describe.tasks")
            given = {"env": wish.env, "secrets": wish.secrets, "overrides": wish.overrides}
            describe.read_command(wish.argv, **given)
        else:
            name, text = _read(wish.file) if wish.file is not None else ("", wish.text or "")
            _task_in(text, name, wish, "sbatch" if text.startswith("#!") else "task")
    except StellwerkError as error:
        return (*wrong, *error.problems)
    return wrong


def _with_extras(wish: Wish) -> tuple[Wish, tuple[Problem, ...]]:
    """Labels `stellwerk/…` as what they mean: like a flag where there is one; others are wrong."""
    labels, flags, problems = flags_in_labels(wish.labels)
    return wish._replace(overrides={**flags, **wish.overrides}, labels=labels), problems


def _command(wish: Wish, settings: Settings) -> Prepared:
    argv = list(wish.argv or ())
    if not argv:
        raise SpecError(
            [Problem("submit/what", "there is no command", "stw run -- python train.py")]
        )
    workdir = wish.overrides.get("workdir")
    overrides = {key: value for key, value in wish.overrides.items() if key != "workdir"}
    submission = _submission(wish, overrides, text=shlex.join(argv), kind="argv")
    submission.argv = argv
    if isinstance(workdir, str):
        packed = _pack(workdir, "", wish, settings)
        submission.snapshot = packed.hash
        return Prepared(submission, packed)
    submission.cwd = os.getcwd()
    submission.in_place = True
    submission.caller_env = {k: v for k, v in os.environ.items() if _is_text(k) and _is_text(v)}
    return Prepared(submission)


def _submission(
    wish: Wish, overrides: dict[str, Override], *, text: str, file: str = "", kind: Kind
) -> Submission:
    return Submission(
        text=text,
        file=file,
        kind=kind,
        overrides=overrides,
        env=dict(wish.env),
        secrets=dict(wish.secrets),
        labels=dict(wish.labels),
        held=wish.held,
        key=wish.key or os.urandom(12).hex(),
        plan=wish.plan,
        after=list(wish.after),
        array=wish.array,
        sweep={name: list(values) for name, values in wish.sweep.items()},
    )


def _read(path: str) -> tuple[str, str]:
    """The name for messages and the text of a file, or of standard input for `-`."""
    name = "<stdin>" if path == STDIN else path
    try:
        if path == STDIN:
            import sys

            data = sys.stdin.buffer.read(LARGEST_TEXT + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_TEXT + 1)
    except OSError as error:
        remedy = "to run a command instead of a file: stw run -- COMMAND"
        problem = Problem("spec/unreadable", f"{path} can't be read: {error.strerror}", remedy)
        raise SpecError([problem]) from error
    if len(data) > LARGEST_TEXT:
        problem = Problem(
            "spec/too-large", "a task file has at most 2 MiB", "move data out of it", name
        )
        raise SpecError([problem])
    try:
        return name, data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(
            "spec/encoding", f"byte {error.start} isn't UTF-8", "save it as UTF-8", name, line
        )
        raise SpecError([problem]) from error


def _task_in(text: str, name: str, wish: Wish, kind: Kind) -> Task:
    """Reads the whole file, so that all its mistakes are told before anything is packed."""
    read = import_module("stellwerk.core.describe.tasks").read
    if kind == "sbatch":
        read = import_module("stellwerk.core.describe.sbatch").read_batch
    swept = {name: values[0] for name, values in wish.sweep.items() if values}
    env = {**swept, **wish.env}
    found = read(text, file=name, env=env, secrets=wish.secrets, overrides=wish.overrides)
    task, problems = found.task, found.refusals
    if problems or not isinstance(task, Task):
        raise SpecError([structs.replace(one, file=one.file or name) for one in problems])
    return task


def _pack(workdir: str, file: str, wish: Wish, settings: Settings) -> "Packed":
    path = os.path.expanduser(workdir)
    if not os.path.isdir(path):
        raise StellwerkError([_no_folder(path, file)])
    from stellwerk.client.pack import pack

    packed = pack(path, settings.cache, _limits(wish, settings))
    if not os.path.isabs(path) and os.path.dirname(file):
        folder = os.path.abspath(path)
        notice = f"`workdir: {workdir}` is {folder}, counted from where you are, not from {file}"
        packed = packed._replace(notices=(notice, *packed.notices))
    return packed


def _check_sources(task: Task, workdir: object, file: str) -> None:
    """All that is to be packed must be there; what isn't is told before anything is packed."""
    missing = [
        _no_source(target, source, file)
        for target, sources in packed_targets(task).items()
        for source in map(os.path.expanduser, sources)
        if not os.path.exists(source)
    ]
    if isinstance(workdir, str) and not os.path.isdir(os.path.expanduser(workdir)):
        missing.insert(0, _no_folder(os.path.expanduser(workdir), file))
    if missing:
        raise StellwerkError(missing)


def _limits(wish: Wish, settings: Settings) -> "Limits | None":
    from stellwerk.client.pack import Limits

    if wish.allow_large:
        return None
    return Limits(settings.number("ask_above_files"), settings.number("ask_above_bytes"))


def _check_setup_inputs(task: Task, packed: "Packed | None", file: str) -> None:
    """A file on which the setup depends must be there: a mistyped one would never change."""
    paths = [entry.path for entry in packed.manifest.files] if packed is not None else []
    wrong = [
        pattern
        for pattern in task.setup_inputs or ()
        if pattern not in LOCK_FILES and not any(means(pattern, path) for path in paths)
    ]
    if wrong:
        path = "resources.labels.stellwerk/setup-cache"
        message = f"the setup depends on `{wrong[0]}`, which isn't in the work directory"
        remedy = "correct the name, or see to it that .gitignore or .skyignore doesn't leave it out"
        raise SpecError([Problem("spec/setup-cache", message, remedy, file, path=path)])


def _pack_mounts(task: Task, wish: Wish, settings: Settings) -> "dict[str, Packed]":
    """What the task brings along beside its work directory, by target."""
    wanted = {
        target: [os.path.expanduser(source) for source in sources]
        for target, sources in packed_targets(task).items()
    }
    if not wanted:
        return {}
    from stellwerk.client.pack import pack_sources

    limits = _limits(wish, settings)
    return {
        target: pack_sources(sources, settings.cache, limits) for target, sources in wanted.items()
    }


def _no_source(target: str, source: str, file: str) -> Problem:
    return Problem(
        "mount/missing",
        f"{os.path.abspath(source)}, which is to be at `{target}`, doesn't exist",
        "create it, or correct the source; a relative one starts at the folder you are in",
        file,
        path=f"file_mounts.{target}",
    )


def _no_folder(path: str, file: str) -> Problem:
    """Says which folder was looked for, and where it may have been meant to be."""
    full = os.path.abspath(path)
    what = "is no folder" if os.path.exists(path) else "doesn't exist"
    remedy = "create it, or name another with --workdir"
    beside = os.path.join(os.path.dirname(file), path)
    if file and not os.path.isabs(path) and os.path.isdir(beside):
        remedy = (
            f"a relative workdir starts at the folder you are in; "
            f"{beside} exists: cd there, or use --workdir {beside}"
        )
    return Problem("workdir/missing", f"the work directory {full} {what}", remedy, file)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
