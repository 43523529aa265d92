"""Keeps one's own runtime connected to a server that several people share.

`python -m stellwerk.client.guest FOLDER` is a process of the person's own: it starts a hand of the
runtime in the person's folders, calls the server and passes bytes between the two. Without a folder
it finds that itself: so the machine's service starts it, which may not look into a home. When the
server ends, it calls again until one is there; what runs goes on meanwhile. It ends when it is told
to (SIGTERM), or when the server doesn't want it.
"""

import contextlib
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO
from urllib.parse import urlencode

from stellwerk.client.connection import CutOffError, Saying, Stream, Transport, UnreachableError
from stellwerk.client.parts import decode
from stellwerk.client.refusals import ApiError, refusal
from stellwerk.client.server_wire import ServerStatus
from stellwerk.config import Settings, clean_environment, load, machine_id
from stellwerk.core.model.errors import StellwerkError
from stellwerk.runtime import frames, messages, system
from stellwerk.runtime.bundle import build

CALL_AGAIN = b"s"
"""A frame of the server's: call again, for a session of this name."""
MEDIA_TYPE = "application/vnd.stellwerk.runtime"
BLOCK = 256 * 1024
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 15.0
END_S = 5.0
LOCK, LOG = "guest.lock", "guest.log"


def folder_of(settings: Settings, server_home: str) -> str:
    """Where a person's runtime for a server keeps everything: on a local disk.

    Each server has a folder of its own, so that none takes another's runs for strays.
    """
    key = hashlib.sha256(f"{machine_id()}:{server_home}".encode()).hexdigest()[:12]
    top = settings.home
    if system.is_network_file_system(system.file_system_type(top)):
        top = f"/var/tmp/stellwerk-{os.getuid()}"  # noqa: S108 (0700, or it is refused)
    return os.path.join(top, f"guest-{key}")


def pid_of(folder: str) -> int:
    """The process that keeps the runtime of a folder connected; 0 if there is none."""
    try:
        with open(os.path.join(folder, LOCK), "r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read().strip() or b"0")
    except (OSError, ValueError):
        pass  # nobody has ever been here
    return 0


def start(settings: Settings, server: ServerStatus) -> bool:
    """Starts that process, if it isn't there; says whether it had to. Raises StellwerkError."""
    folder = _made(folder_of(settings, server.home), settings.home)
    if pid_of(folder):
        return False
    with open(os.path.join(folder, LOG), "ab") as log:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "stellwerk.client.guest", folder],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(settings),
            start_new_session=True,
        )
    return True


def _environment(settings: Settings) -> dict[str, str]:
    env = clean_environment(settings, os.environ)
    env |= {"STELLWERK_HOME": settings.home, "STELLWERK_SOCKET": settings.socket}
    if paths := os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    return env


def stop(folder: str) -> int:
    """Ends that process and waits for it; gives its pid, 0 if there was none."""
    pid = pid_of(folder)
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + END_S
        while pid_of(folder) == pid and time.monotonic() < until:
            time.sleep(0.01)
    return pid


def _made(folder: str, home: str) -> str:
    """Makes a folder that is its user's alone, and so is the one around it outside of ``home``."""
    why = ""
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        around = os.path.dirname(folder)
        for each in (folder,) if around == home else (around, folder):
            system.make_own(each)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise StellwerkError.of(
            "guest/folder", f"{folder} can't be used for your runtime: {why}", "see to its rights"
        )
    return folder


class Guest:
    """One person's runtime and the connection that keeps it known."""

    def __init__(self, folder: str, transport: Transport) -> None:
        self._folder = folder
        self._transport = transport
        self._build = str(build(Path(folder, "runtime")))
        self._hand: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Ends it at the next opportunity."""
        self._stopping.set()
        if self._hand is not None:
            self._hand.kill()

    def serve(self) -> None:
        """Calls the server again and again; raises ApiError where it doesn't want this runtime."""
        delay = RETRY_FIRST_S
        while not self._stopping.is_set():
            begun = time.monotonic()
            with contextlib.suppress(UnreachableError, CutOffError):
                self._call()
            delay = RETRY_FIRST_S if time.monotonic() - begun > 1 else min(delay * 2, RETRY_MOST_S)
            self._stopping.wait(delay)

    def _call(self) -> None:
        where = urlencode({"home": self._folder, "machine": machine_id()})
        first = frames.frame(messages.PING)
        stream, saying = self._transport.converse(f"/v1/runtimes?{where}", MEDIA_TYPE, first)
        with stream:
            _check(stream)
            self._hand = self._start("hand")
            assert self._hand.stdin is not None
            assert self._hand.stdout is not None
            up = _in_background(lambda: _pass_up(self._hand, saying, stream))
            try:
                self._pass_down(stream, self._hand.stdin)
            finally:
                self._hand.kill()
                self._hand.wait()
                up.join()

    def _pass_down(self, stream: Stream, hand: IO[bytes]) -> None:
        reader = frames.FrameReader()
        for block in stream:
            for kind, content in reader.frames(block):
                if kind == CALL_AGAIN:
                    _in_background(partial(self._session, content.decode()))
                    continue
                try:
                    hand.write(frames.frame(kind, content))
                    hand.flush()
                except OSError:
                    return

    def _session(self, word: str) -> None:
        """Joins the agent to the server for one command inside a run."""
        target = f"/v1/runtimes/sessions/{word}"
        with contextlib.suppress(UnreachableError, CutOffError, ApiError):
            stream, saying = self._transport.converse(target, MEDIA_TYPE, b"\n")
            with stream:
                _check(stream)
                relay = self._start("relay")
                assert relay.stdin is not None
                up = _in_background(lambda: _pass_up(relay, saying, stream))
                try:
                    for block in stream:
                        relay.stdin.write(block)
                        relay.stdin.flush()
                except OSError:
                    pass  # the command is over
                finally:
                    relay.kill()
                    relay.wait()
                    up.join()

    def _start(self, mode: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-I", "-S", self._build, mode, "--home", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


def _check(stream: Stream) -> None:
    if stream.status >= 400:
        raise refusal(stream.status, b"".join(stream))


def _pass_up(process: "subprocess.Popen[bytes] | None", saying: Saying, stream: Stream) -> None:
    """Tells the server what a process says; its end is the end of the connection."""
    assert process is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        while block := os.read(process.stdout.fileno(), BLOCK):
            saying.say(block)
    saying.end()
    stream.interrupt()


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _as_the_service_starts_it(settings: Settings) -> str:
    """Waits for the server, then has the folder, the log and the environment of any other start.

    The machine's service knows nothing of all that: it lies in this person's home.
    """
    transport, delay = Transport(settings.socket), RETRY_FIRST_S
    while True:
        with contextlib.suppress(UnreachableError):
            answer = transport.request("GET", "/v1/server", None, {})
            if answer.status < 400:
                break
            raise refusal(answer.status, answer.body)
        time.sleep(delay)
        delay = min(delay * 2, RETRY_MOST_S)
    transport.close()
    server = decode(answer.body, ServerStatus)
    folder = _made(folder_of(settings, server.home), settings.home)
    env = _environment(settings)
    os.environ.clear()
    os.environ.update(env)
    log = os.open(os.path.join(folder, LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    return folder


def main() -> int:
    """Be the process that keeps a folder's runtime connected; the exit status."""
    try:
        settings = load()
        folder = sys.argv[1] if len(sys.argv) > 1 else _as_the_service_starts_it(settings)
    except StellwerkError as error:
        return _told(error)
    with open(os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600), "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        lock.truncate(0)
        lock.write(b"%d\n" % os.getpid())
        lock.flush()
        guest = Guest(folder, Transport(settings.socket))
        signal.signal(signal.SIGTERM, guest.stop)
        try:
            guest.serve()
        except ApiError as error:
            return _told(error)
    return 0


def _told(error: StellwerkError) -> int:
    sys.stderr.write("\n".join(str(problem) for problem in error.problems) + "\n")
    return error.exit_code if isinstance(error, ApiError) else 1


if __name__ == "__main__":
    sys.exit(main())
