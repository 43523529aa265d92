"""Carries out what a client asks of the agent; each operation is a function of the same shape."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Optional

from . import PROTOCOL, VERSION, system
from .connection import Connection
from .ending import run_and_record
from .files import JSONObject, open_file, write_json
from .launches import order_of
from .ordering import Refused, hand_order, tell_to_leave
from .preparation import Order
from .roster import Entry
from .spec import Spec, SpecError, check_env, read_signals, read_spec
from .stopping import WHYS
from .telling import make_fifo

if TYPE_CHECKING:
    from .agent import Agent

_MOST_READ = 1024 * 1024


def hello(agent: Agent, _connection: Connection, _request: JSONObject) -> JSONObject:
    """Who is there, and what it speaks."""
    return {
        "protocol": [PROTOCOL],
        "version": VERSION,
        "pid": os.getpid(),
        "boot_id": system.boot_id(),
        "machine_id": system.machine_id(),
        "uid": os.getuid(),
        "user": system.user_name(os.getuid()),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "root": agent.places.root,
        "now_ms": system.now_ms(),
        "can": ["exec", "resume", "gang", "launch", "console"],
    }


def start(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Start a run, at most once per (run, generation)."""
    asked = _read_start(request)
    spec = asked.spec
    known = agent.roster.entries.get(spec.run)
    highest = known.identity.generation if known else agent.roster.forgotten.generation_of(spec.run)
    if highest is not None and spec.generation < highest:
        raise Refused("fenced", f"generation {highest} of run `{spec.run}` has been here already")
    agent.fence(spec.epoch)
    if known is not None and spec.generation == known.identity.generation:
        return {**known.report(), "existing": True}
    if known is None and highest == spec.generation:
        raise Refused("forgotten", f"run `{spec.run}` ended here and was removed")
    if known is not None:
        older = f"run `{spec.run}` is here in generation {known.identity.generation}"
        raise Refused("busy", f"{older} ({known.state}); it has to end and be forgotten first")
    entry = _launch(agent, asked, request["spec"])
    if agent.console.taken:
        tell_to_leave(agent, entry)
    return {**entry.report(), "existing": False}


class _Asked(NamedTuple):
    """A checked start, with the values that are never written down."""

    spec: Spec
    secrets: dict[str, str]
    secret_files: dict[str, str]


def _read_start(request: JSONObject) -> _Asked:
    raw = request.get("spec")
    if not isinstance(raw, dict):
        raise Refused("spec_invalid", "`spec` is no object")
    person, own = request.get("person"), system.user_name(os.getuid())
    if person is not None and person != own:
        raise Refused("not_yours", f"the order is for {person}, and this runtime is {own}'s")
    problems: list[tuple[str, str]] = []

    def complain(field: str, message: str) -> None:
        problems.append((field, message))

    secrets = check_env("secrets", request.get("secrets"), complain)
    files = request.get("secret_files") or {}
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        complain("secret_files", "is no map of texts")
    spec: Optional[Spec] = None
    try:
        spec = read_spec(raw)
    except SpecError as error:
        problems = error.problems + problems
    for mount in spec.mounts if spec is not None else ():
        if mount.secret is not None and mount.secret not in files:
            complain("secret_files", f"the value of `{mount.secret}` is missing")
    if problems or spec is None:
        sentence = "; ".join(f"{field}: {message}" for field, message in problems)
        raise Refused("spec_invalid", sentence, problems=[list(problem) for problem in problems])
    return _Asked(spec, secrets, files)


def _launch(agent: Agent, asked: _Asked, raw: JSONObject) -> Entry:
    """Claim the run by its directory, then fork its wrapper."""
    files = agent.places.run(asked.spec.run)
    try:
        os.mkdir(files.directory, 0o700)
    except FileExistsError:
        raise Refused("busy", f"`{files.directory}` is in the way") from None
    try:
        with contextlib.ExitStack() as opened:
            write_json(files.spec, raw)
            control = make_fifo(files.control)
            opened.callback(os.close, control)
            lock = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            opened.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            order = Order(
                agent.places,
                asked.spec,
                asked.secrets,
                asked.secret_files,
                agent.environment,
                agent.inherited,
                control,
            )
            pid = _fork_wrapper(order, lock)
    except OSError as error:
        agent.roster.throw_away(files)
        raise Refused("start_failed", f"the run can't be started: {error.strerror}") from error
    entry = Entry(files, raw)
    agent.roster.entries[entry.run] = entry
    agent.roster.watch(entry, pid)
    return entry


def _fork_wrapper(order: Order, lock: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        system.close_descriptors(lock, order.control)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.chdir("/")
        gc.freeze()
        run_and_record(order)
    finally:
        os._exit(0)


def _entry(agent: Agent, request: JSONObject) -> Entry:
    """The run a request is about, after its epoch and generation were found young enough."""
    if request.get("epoch") is not None:
        agent.fence(_whole_number(request, "epoch"))
    entry = agent.roster.entries.get(str(request.get("run")))
    if entry is None:
        raise Refused("unknown_run", f"there is no run `{request.get('run')}` here")
    if request.get("generation") is not None:
        generation = _whole_number(request, "generation")
        if generation != entry.identity.generation:
            there = entry.identity.generation
            raise Refused("fenced", f"run `{entry.run}` is here in generation {there}")
    return entry


def _whole_number(request: JSONObject, field: str) -> int:
    value = request.get(field)
    if type(value) is not int or value < 0:
        raise Refused("bad_request", f"`{field}` is no whole number")
    return value


def stop(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Give notice to a run."""
    entry = _entry(agent, request)
    if request.get("why") not in WHYS:
        raise Refused("bad_request", f"`why` is one of {', '.join(WHYS)}")
    order: JSONObject = {"op": "stop", "why": request["why"]}
    if request.get("grace_ms") is not None:
        order["grace_ms"] = _whole_number(request, "grace_ms")
    if request.get("signals"):
        problems: list[str] = []
        read_signals(request["signals"], lambda _field, message: problems.append(message))
        if problems:
            raise Refused("bad_request", "; ".join(problems))
        order["signals"] = request["signals"]
    return hand_order(agent, entry, order)


def console(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Whether somebody sits at the machine; with `do` also what follows from it from now on."""
    if "do" in request:
        trouble = agent.console.set(request["do"], request.get("quiet_ms"))
        if trouble is not None:
            raise Refused("bad_request", trouble)
    return {"console": agent.console.state()}


def withdraw(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Take a notice back."""
    return hand_order(agent, _entry(agent, request), {"op": "withdraw"})


def window(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Tell a run that it must be gone at another time than it was told."""
    end_in_ms = _whole_number(request, "window_end_in_ms")
    order = {"op": "window", "window_end_in_ms": end_in_ms}
    return hand_order(agent, _entry(agent, request), order)


def kill(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """End everything of a run at once."""
    return hand_order(agent, _entry(agent, request), {"op": "kill"})


def go(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Let the ranks of a part of a gang start, with variables of their own."""
    entry = _entry(agent, request)
    problems: list[str] = []
    env = check_env("env", request.get("env"), lambda field, what: problems.append(field + what))
    if problems:
        raise Refused("bad_request", "; ".join(problems))
    return hand_order(agent, entry, {"op": "go", "env": env})


def find(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Have a part of a gang look for the way to its head, which answers at a port."""
    entry = _entry(agent, request)
    addresses = request.get("addresses")
    if not isinstance(addresses, list):
        raise Refused("bad_request", "`addresses` is no list")
    port = _whole_number(request, "port")
    return hand_order(agent, entry, {"op": "find", "addresses": addresses, "port": port})


def of_mpi(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Start here what the MPI of a gang's head asks for, tell the head how it ended, or end all."""
    entry = _entry(agent, request)
    try:
        return hand_order(agent, entry, order_of(request, entry.files))
    except ValueError as wrong:
        raise Refused("bad_request", str(wrong)) from wrong


def list_runs(agent: Agent, _connection: Connection, _request: JSONObject) -> JSONObject:
    """Every run that is here."""
    return {"runs": [entry.report() for entry in agent.roster.entries.values()]}


def watch(agent: Agent, connection: Connection, request: JSONObject) -> JSONObject:
    """Every run that is here, and from now on each change."""
    connection.watches = True
    return list_runs(agent, connection, request)


def forget(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Remove what an ended run left."""
    try:
        entry = _entry(agent, request)
    except Refused as refusal:
        if refusal.code == "unknown_run":
            return {"removed": False}
        raise
    if not entry.has_ended():
        raise Refused("not_ended", f"run `{entry.run}` is still {entry.state}")
    agent.roster.forget(entry)
    agent.empty_trash()
    return {"removed": True}


def read(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """Bytes of a stream of a run from an offset; a stream without a file yet is empty."""
    entry = _entry(agent, request)
    path = entry.files.stream(str(request.get("stream", "run")))
    if path is None:
        raise Refused("bad_request", "`stream` is run, setup, metrics or rank-N")
    offset = _whole_number(request, "offset") if "offset" in request else 0
    limit = min(_MOST_READ, _whole_number(request, "limit") if "limit" in request else _MOST_READ)
    data, size = b"", 0
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(offset)
            data = file.read(limit)
    except FileNotFoundError:
        size = 0
    return {
        "data": base64.b64encode(data).decode("ascii"),
        "offset": offset,
        "next_offset": offset + len(data),
        "size": size,
        "state": entry.state,
    }


def run_guest(agent: Agent, connection: Connection, request: JSONObject) -> None:
    """Hand this connection over to a keeper, which runs a command inside a run for the client.

    It answers itself, and from there on frames are spoken; see `frames.py`.
    """
    entry = _entry(agent, request)
    rank = _whole_number(request, "rank") if "rank" in request else 0
    agent.roster.reread(entry)
    status = entry.status or {}
    if entry.has_ended():
        raise Refused("ended", f"run `{entry.run}` has ended")
    if entry.state not in {"running", "stopping"}:
        raise Refused("not_running", f"run `{entry.run}` is {entry.state}", state=entry.state)
    if "exec" not in (status.get("takes") or ()):
        message = f"run `{entry.run}` was started by an older runtime, which runs nothing beside it"
        raise Refused("too_old", message)
    ranks = status.get("ranks") or {}
    if str(rank) not in ranks:
        here = ", ".join(sorted(ranks, key=int))
        raise Refused("no_rank", f"run `{entry.run}` has no rank {rank} here, but {here}")

    def ask(token: str) -> None:
        if not hand_order(agent, entry, {"op": "exec", "token": token, "rank": rank})["delivered"]:
            raise Refused("ended", f"run `{entry.run}` has ended")

    agent.hand_overs.begin(connection, request.get("id"), entry, ask)


def leave(agent: Agent, _connection: Connection, request: JSONObject) -> JSONObject:
    """End the agent; jobs go on, and the next agent takes them over."""
    live = len(agent.roster.live)
    if live and request.get("force") is not True:
        raise Refused("busy", f"{live} runs are going on; with `force` they go on without an agent")
    agent.is_leaving = True
    return {"live": live}


Operation = Callable[["Agent", Connection, JSONObject], Optional[JSONObject]]
"""None: somebody else answers, or it comes later."""

OPERATIONS: dict[str, Operation] = {
    "hello": hello,
    "start": start,
    "stop": stop,
    "withdraw": withdraw,
    "window": window,
    "console": console,
    "kill": kill,
    "go": go,
    "find": find,
    **dict.fromkeys(("launch", "launched", "over"), of_mpi),
    "list": list_runs,
    "watch": watch,
    "forget": forget,
    "read": read,
    "exec": run_guest,
    "quit": leave,
}
