"""Runs `stw`, and the servers that it starts, in processes forked from one that has their modules
loaded: to load them anew for each took most of the time.

Each has an environment, a folder, files, a process and an end of its own, and looks to others as
if it had been started there. That they also start from nothing, lightly, in a terminal and under
signals is shown by the tests that start them so: `tests/cli/test_main.py`,
`tests/cli/test_following.py`, `tests/flows/test_exec.py`, `tests/server/test_process.py`,
`tests/tidy/test_startup.py`.
"""

import atexit
import functools
import gc
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from stellwerk.cli.main import main
from stellwerk.client import launch
from stellwerk.server.process import main as server_main

MOST_BYTES = 1 << 20
LOADED = (
    "stellwerk.cli", "stellwerk.cli.commands", "stellwerk.client", "stellwerk.core",
    "stellwerk.drivers.agents", "stellwerk.drivers.local", "stellwerk.drivers.ssh",
    "stellwerk.engine", "stellwerk.server", "stellwerk.store", "rich.console", "rich.table",
    "rich.text", "http.client", "email.parser", "yaml", "sqlite3", "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.off",
)  # fmt: skip
"""What commands and servers load, at once or later; of packages of this project all of it."""
CLI, SERVER = "stellwerk.cli", "stellwerk.server"
NOT_LOADED = ("__main__", "submitit", "far_side", "guest")
ROOM = 16_384
"""Bytes for the command line and for the environment that others see of a process."""
POPEN = subprocess.Popen


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` of `stw words…` would give."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line,
    ):
        given.write(stdin.encode())
        given.seek(0)
        files = (given.fileno(), out.fileno(), err.fileno())
        _ask(line, _terminal(), Asked(CLI, [*words], str(cwd), {**env}), files)
        line.settimeout(timeout_s)
        try:
            code = int(line.recv(64))
        except TimeoutError:
            raise subprocess.TimeoutExpired(
                ["stw", *words], timeout_s, _told(out), _told(err)
            ) from None
        return subprocess.CompletedProcess(["stw", *words], code, _told(out), _told(err))


def _told(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


class Asked(NamedTuple):
    """What is to be run, and where."""

    module: str
    words: list[str]
    cwd: str
    env: dict[str, str]


def _ask(line: socket.socket, path: str, asked: Asked, files: Sequence[int]) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    line.connect(path)
    socket.send_fds(line, [json.dumps(asked).encode()], files)


@functools.cache
def _terminal() -> str:
    """Where the process listens that has everything loaded; it ends with this one."""
    path = os.path.join(tempfile.mkdtemp(prefix="stw-"), "terminal")
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, path, " " * ROOM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ROOM": " " * ROOM},
    )
    atexit.register(_end, process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listens\n"
    return path


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it by the end of its standard input, and waits for it."""
    process.communicate()


def serve(path: str) -> None:
    """Forks a process for each command, until whoever started this is gone."""
    _load()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(50)
    watched = selectors.DefaultSelector()
    watched.register(0, selectors.EVENT_READ)
    watched.register(listener, selectors.EVENT_READ)
    os.write(1, b"listens\n")
    while True:
        for key, _ in watched.select():
            if key.fd == 0:
                os.unlink(path)
                os.rmdir(os.path.dirname(path))
                return
            if key.fileobj is listener:
                _begin(listener.accept()[0], path, watched)
            else:
                _look(key, watched)


def _load() -> None:
    """Loads what processes need, and spares them to copy it."""
    for name in LOADED:
        module = import_module(name)
        if name.startswith("stellwerk"):
            for found in pkgutil.iter_modules(module.__path__, f"{name}."):
                if not found.name.endswith(NOT_LOADED):
                    import_module(found.name)
    gc.collect()
    gc.freeze()


def _begin(line: socket.socket, path: str, watched: selectors.BaseSelector) -> None:
    """Forks; then the process's end, or its caller's, is what is watched for."""
    data, files, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
    asked = Asked(*json.loads(data))
    pid = os.fork()
    if pid == 0:
        _become(asked, files, path)
    for file in files:
        os.close(file)
    begun = (pid, line, os.pidfd_open(pid))
    watched.register(begun[2], selectors.EVENT_READ, begun)
    if asked.module != SERVER:  # which outlives its caller
        watched.register(line, selectors.EVENT_READ, begun)


def _look(key: selectors.SelectorKey, watched: selectors.BaseSelector) -> None:
    """Tells the exit status of what has ended; ends what nobody waits for any more."""
    pid, line, ends = key.data
    if ends not in watched.get_map():
        return  # both happened at once
    if key.fileobj is line:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):  # nobody waits any more
        line.send(b"%d" % os.waitstatus_to_exitcode(status))
    for one in (line, ends):
        if one in watched.get_map():
            watched.unregister(one)
    line.close()
    os.close(ends)


def _become(asked: Asked, files: Sequence[int], path: str) -> NoReturn:
    """Becomes what `python -m MODULE WORDS…` would have become; ends without taking apart what it
    shares with others.
    """
    code: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 65_536)
        os.chdir(asked.cwd)
        os.environ.clear()
        os.environ.update(asked.env)
        _look_like(asked)
        _open_files()
        sys.argv = [f"{os.path.dirname(launch.__file__)}/__main__.py", *asked.words]
        if asked.module == SERVER:
            os.setsid()
            code = server_main()
        else:
            sys.path.insert(0, asked.cwd)
            subprocess.Popen = functools.partial(_popen, path)  # type: ignore[assignment,misc]
            main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 (as an interpreter shows what ends it)
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else code is not None)


def _look_like(asked: Asked) -> None:
    """Writes command line and environment to where others read those of a process."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    words = [sys.executable, "-m", asked.module, *asked.words]
    told = (words, [f"{name}={value}" for name, value in asked.env.items()])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        for texts, begin, end in zip(told, stat[45:49:2], stat[46:49:2], strict=True):
            room = int(end) - int(begin)
            memory.seek(int(begin))
            memory.write("".join(f"{text}\0" for text in texts).encode().ljust(room, b"\0")[:room])


class Begun:
    """What `launch` asks of a server that it has started."""

    def __init__(self, line: socket.socket) -> None:
        self.returncode: int | None = None
        self._line = line

    def poll(self) -> int | None:
        """The exit code, when there is one."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self.returncode = int(self._line.recv(64))
        return self.returncode


def _popen(path: str, command: Sequence[str], **how: Any) -> Any:
    """Has a server forked in the place of one that is started; starts all else."""
    if command != launch.server_command():
        return POPEN(command, **how)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(os.devnull, "rb") as nothing:
        log = how["stdout"].fileno()
        assert how["start_new_session"]
        asked = Asked(SERVER, [], how["cwd"], how["env"])
        _ask(line, path, asked, (nothing.fileno(), log, log))
    return Begun(line)


def _open_files() -> None:
    """Opens the standard files as an interpreter does that has just been started."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old = getattr(sys, name)
        by_lines = 1 if name == "stderr" else -1
        new = os.fdopen(number, mode, by_lines, old.encoding, old.errors, closefd=False)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    serve(sys.argv[1])
