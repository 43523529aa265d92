"""Makes submissions of Python calls: the call in a file, a command that makes it, its resources.

In place (the default) a call runs on this machine in this folder, with this interpreter and this
environment. With a `workdir`, that folder is packed once and runs wherever there is room; the call
travels beside it.
"""

import json
import os
import pickle
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from msgspec import structs

from stellwerk.client.parts import new_key
from stellwerk.client.prepare import Prepared, Wish, prepare
from stellwerk.client.python import far_side
from stellwerk.client.python.outcome import RESULT
from stellwerk.client.wire import Override, Submission
from stellwerk.config import Settings

CALL = ".stellwerk-call.pkl"
TARGET = f"~/sky_workdir/{CALL}"
LONGEST_NAME = 60
_UNFIT = re.compile(r"[^a-z0-9]+")


class Wants(NamedTuple):
    """What every call of an executor is given; None and empty: the defaults of a task."""

    cpus: str = ""
    memory: str = ""
    gpus: str = ""
    gpu_memory: str = ""
    time_limit: str = ""
    infra: str = ""
    queue: str = ""
    priority: str = ""
    env: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    workdir: str = ""
    setup: str = ""
    python: str = ""

    def overrides(self, name: str) -> dict[str, Override]:
        """As the flags of `stw run` say it."""
        flags = (
            "cpus", "memory", "gpus", "gpu_memory", "time_limit", "infra", "queue", "priority"
        )  # fmt: skip
        found: dict[str, Override] = {flag: getattr(self, flag) for flag in flags}
        return {"name": name, **{flag: value for flag, value in found.items() if value}}


class Call(NamedTuple):
    """A call that is ready to be submitted; `result` is where it leaves its outcome, if it is
    known before it runs.
    """

    prepared: Prepared
    file: str
    result: str


def called(function: Callable[..., Any], prefix: str = "") -> str:
    """The name of a call's workload, made of the function's."""
    name = getattr(function, "__name__", "") or type(function).__name__
    whole = _UNFIT.sub("-", f"{prefix} {name}".lower()).strip("-")
    return whole[:LONGEST_NAME].strip("-") or "call"


def pickled(function: Callable[..., Any], args: Any, kwargs: Any) -> bytes:
    """A call as its far side reads it: where modules are found, then the call itself."""
    import cloudpickle

    data = cloudpickle.dumps((function, args, kwargs))
    paths = [os.path.abspath(path) for path in sys.path if path and os.path.exists(path)]
    return pickle.dumps((paths, data))


class Maker:
    """Makes the submissions of one executor; what all its calls share is made once."""

    def __init__(self, wants: Wants, folder: str, settings: Settings) -> None:
        self._wants = wants
        self._folder = folder
        self._settings = settings
        self._first: Submission | None = None
        self._count = 0
        with open(far_side.__file__, encoding="utf-8") as source:
            self._source = source.read()

    def make(self, function: Callable[..., Any], args: Any, kwargs: Any, prefix: str) -> Call:
        """Writes a call down. Raises StellwerkError where what is wanted makes no sense."""
        data = pickled(function, args, kwargs)
        self._count += 1
        file = os.path.join(self._folder, f"{self._count}.call")
        with open(file, "wb") as out:
            out.write(data)
        name = called(function, prefix)
        return self._packed(file, name) if self._wants.workdir else self._in_place(file, name)

    def _in_place(self, file: str, name: str) -> Call:
        result = f"{file.removesuffix('.call')}.result"
        argv = (self._wants.python or sys.executable, "-c", self._source, file, result)
        if self._first is None:
            self._first = prepare(self._wish(argv=argv), self._settings).submission
        submission = structs.replace(
            self._first,
            argv=list(argv),
            text=shlex.join([argv[0], "call.py", *argv[3:]]),
            overrides=self._wants.overrides(name),
            key=new_key(),
        )
        return Call(Prepared(submission), file, result)

    def _packed(self, file: str, name: str) -> Call:
        overrides = self._wants.overrides(name)
        if self._first is None:
            text = self._task(file)
            whole = prepare(self._wish(text=text, workdir=self._wants.workdir), self._settings)
            self._first = structs.replace(whole.submission, overrides=overrides)
            return Call(whole._replace(submission=self._first), file, "")
        packed = import_module("stellwerk.client.pack").pack_sources(
            [file], self._settings.cache, None
        )
        mounts = dict.fromkeys(self._first.mounts, packed.hash)
        submission = structs.replace(self._first, mounts=mounts, overrides=overrides, key=new_key())
        return Call(Prepared(submission, None, {TARGET: packed}), file, "")

    def _wish(self, workdir: str = "", **what: Any) -> Wish:
        overrides = self._wants.overrides("")
        del overrides["name"]
        if workdir:
            overrides["workdir"] = workdir
        return Wish(
            overrides=overrides,
            env=dict(self._wants.env),
            labels=dict(self._wants.labels),
            **what,
        )

    def _task(self, file: str) -> str:
        """A task file whose `run` makes the call that lies beside the packed folder."""
        python = shlex.quote(self._wants.python or "python3")
        run = f'{python} -c {shlex.quote(self._source)} {CALL} "$STELLWERK_OUTPUT_DIR/{RESULT}"'
        task: dict[str, Any] = {"file_mounts": {TARGET: file}, "run": run}
        if self._wants.setup:
            task["setup"] = self._wants.setup
        return json.dumps(task, indent=1)
