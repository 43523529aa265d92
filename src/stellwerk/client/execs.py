"""Runs commands inside of what runs: one whole result, or a session whose streams one handles.

done = client.exec("digits", ["nvidia-smi", "-L"])
print(done.code, done.stdout.decode())

with client.exec_session("digits", ["tail", "-f", "train.log"]) as session:
for name, data in session:
...
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlencode

import msgspec

from stellwerk.client.connection import CutOffError, Saying, Stream
from stellwerk.client.parts import part
from stellwerk.client.refusals import ApiError, refusal
from stellwerk.client.requests import Requests
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.runtime import frames

MEDIA_TYPE = "application/vnd.stellwerk.exec"
OURS = 125
_NAMES: dict[bytes, Literal["stdout", "stderr"]] = {
    frames.OUTPUT: "stdout",
    frames.ERRORS: "stderr",
}
_HELP = {
    "not_found": "is it installed there? the job's own PATH and image count",
    "not_executable": "a program has to be executable; for a script name its interpreter",
    "run_ended": "`stw show NAME` tells how the run ended",
    "not_listening": "does it listen yet, at 127.0.0.1 or at all addresses? see `stw logs NAME`",
}


class ExecError(StellwerkError):
    """The command could not be run, or not to its end; `exit_code` is 125, 126 or 127."""

    def __init__(self, code: str, message: str, help: str, exit_code: int = OURS) -> None:
        super().__init__([Problem(code, message, help)])
        self.exit_code = exit_code


class ExecResult(NamedTuple):
    """How a command ended, and all that it printed."""

    code: int
    stdout: bytes
    stderr: bytes


class ExecSession:
    """One command inside a run. Iterating gives (`stdout` or `stderr`, bytes) until it has ended.

    Its input may be given by another thread. Leaving the `with` block earlier ends the command.
    """

    def __init__(self, stream: Stream, saying: Saying) -> None:
        self._stream = stream
        self._saying = saying
        self._reader = frames.FrameReader()
        self._under_way = 0
        self._changed = threading.Condition()
        self._is_over = False
        self.code: int | None = None
        """The command's exit code (128 + n after signal n), once iterating has come to its end."""
        self.on_room: Callable[[], None] = lambda: None
        """Called by the iterating thread when more input may be given, and at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up; a command that still runs is ended."""
        self._end()
        self._stream.interrupt()
        self._stream.close()

    def interrupt(self) -> None:
        """Hangs up from another thread than the iterating one."""
        self._stream.interrupt()

    @property
    def room(self) -> int:
        """How many bytes of input can be given without waiting."""
        return 0 if self._is_over else frames.WINDOW - self._under_way

    def write(self, data: bytes) -> None:
        """Gives input; waits where the command doesn't take it. Raises OSError once it is over."""
        rest = memoryview(data)
        while rest:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self.room > 0)
                if self._is_over:
                    raise BrokenPipeError("the command has ended")
                piece = rest[: min(self.room, frames.PIECE)]
                self._under_way += len(piece)
            rest = rest[len(piece) :]
            self._saying.say(frames.frame(frames.INPUT, bytes(piece)))

    def close_input(self) -> None:
        """Says that no more input comes."""
        self._saying.say(frames.frame(frames.END_OF_INPUT))

    def send_signal(self, number: int) -> None:
        """Sends a signal to the command and what it has started."""
        self._saying.say(frames.frame(frames.SIGNAL, bytes([number])))

    def resize(self, rows: int, columns: int) -> None:
        """Tells the size of the terminal's window."""
        self._saying.say(frames.size(rows, columns))

    def __iter__(self) -> Iterator[tuple[Literal["stdout", "stderr"], bytes]]:
        try:
            for data in self._stream:
                for kind, content in self._reader.frames(data):
                    if kind in _NAMES:
                        yield _NAMES[kind], content
                    elif kind == frames.TAKEN:
                        self._taken(frames.read_taken(content))
                    elif kind == frames.ENDED:
                        self._ended(msgspec.json.decode(content, type=dict[str, Any]))
                        return
        except (CutOffError, frames.FrameError, msgspec.MsgspecError):
            pass  # said below: how it ended isn't known
        finally:
            self._end()
        raise ExecError(
            "exec/cut-off",
            "the connection broke before the command's end was told; it has been ended",
            "the run or the server was stopped: see `stw show NAME` and `stw server status`",
        )

    def _taken(self, count: int) -> None:
        with self._changed:
            self._under_way = max(0, self._under_way - count)
            self._changed.notify_all()
        self.on_room()

    def _ended(self, said: dict[str, Any]) -> None:
        code, error = int(said.get("code", OURS)), said.get("error")
        if error:
            name = str(error.get("code"))
            message = str(error.get("message"))
            kind = f"exec/{name.replace('_', '-')}"
            raise ExecError(kind, message, _HELP.get(name, ""), code)
        self.code = code

    def _end(self) -> None:
        with self._changed:
            was_over, self._is_over = self._is_over, True
            self._changed.notify_all()
        if not was_over:
            self._saying.end()
            self.on_room()


class Execs(Requests):
    """What a client can run inside of what runs."""

    def exec(
        self,
        name: str,
        argv: Sequence[str],
        *,
        run: int | None = None,
        rank: int = 0,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Runs a command inside a run and waits for its end; all that it prints is kept.

        `env` is added to what the job has. Raises ExecError where it can't be run (`exit_code` 127:
        no such program, 126: not executable, 125: anything of ours, as when the run ends first).
        """
        told: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        with self.exec_session(
            name, argv, run=run, rank=rank, stdin=input is not None, env=env
        ) as session:
            if input is not None:
                threading.Thread(target=_give, args=(session, input), daemon=True).start()
            for stream, data in session:
                told[stream] += data
        code = OURS if session.code is None else session.code
        return ExecResult(code, bytes(told["stdout"]), bytes(told["stderr"]))

    def exec_session(
        self,
        name: str,
        argv: Sequence[str],
        *,
        run: int | None = None,
        rank: int = 0,
        stdin: bool = False,
        terminal: bool = False,
        size: tuple[int, int] = (0, 0),
        env: Mapping[str, str] | None = None,
    ) -> ExecSession:
        """Starts a command inside a run; see ExecSession.

        With a `terminal` of `size` (rows, columns) both outputs come as one, and what is written is
        what is typed.
        """
        wish = {"argv": list(argv), "terminal": terminal, "stdin": stdin, "env": dict(env or {})}
        wish |= {"rows": size[0], "columns": size[1]}
        return self._session(name, wish, run, rank)

    def connect_to(
        self, name: str, port: int, *, run: int | None = None, rank: int = 0
    ) -> ExecSession:
        """Connects to a port that something of a run listens at, on the machine where it runs.

        What is written goes there, what comes from there is the session's `stdout`. Raises
        ExecError (`exec/not-listening`), while iterating, where nothing answers there.
        """
        return self._session(name, {"port": port, "stdin": True}, run, rank)

    def _session(
        self, name: str, wish: Mapping[str, Any], run: int | None, rank: int
    ) -> ExecSession:
        if not self._ready:
            self.ensure_server()
        query = urlencode({"run": run or 0, "rank": rank})
        first = msgspec.json.encode(wish)
        if len(first) > frames.LARGEST:
            raise ExecError("exec/too-long", "the command is longer than 4 MiB", "use a file")
        stream, saying = self.transport.converse(
            f"/v1/workloads/{part(name)}/exec?{query}",
            MEDIA_TYPE,
            frames.frame(frames.COMMAND, first),
        )
        if stream.status != 200:
            body = b"".join(stream)
            stream.close()
            raise _older_server(refusal(stream.status, body))
        return ExecSession(stream, saying)


def _older_server(error: ApiError) -> StellwerkError:
    """Says so of a server that doesn't know this address at all."""
    if error.code != "request/path":
        return error
    return ExecError(
        "exec/older-server",
        "the server is older than this client, and runs no commands inside of what runs",
        "`stw server stop`; the next command starts the new one, and jobs go on",
    )


def _give(session: ExecSession, data: bytes) -> None:
    try:
        session.write(data)
        session.close_input()
    except OSError:
        return  # it has ended without reading all of it
