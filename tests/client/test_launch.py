"""A server is started when it is needed: once, detached, and with its own words when it fails."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.client import Client, UnreachableError, launch
from stellwerk.client.launch import ensure_server, tail
from stellwerk.config import Settings, load

LISTENS = """
import os, socket, sys, time
time.sleep({delay})
with open({note!r}, "a") as note:
    note.write(f"{{os.getpid()}} {{os.getsid(0)}}\\n")
os.makedirs(os.path.dirname(os.environ["STELLWERK_SOCKET"]), mode=0o700, exist_ok=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["STELLWERK_SOCKET"])
listener.listen()
print("listening", flush=True)
time.sleep(60)
"""
BEGINS = "INFO stellwerk.server server 1 (pid 7) answers at x\n"
ENDS = "INFO stellwerk.server server (pid 7) has ended\n"


class Starts:
    """Stands in for the server's program, and knows which processes were started."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._note = folder / "started"
        self._monkeypatch = monkeypatch

    def run(self, program: str) -> None:
        command = [sys.executable, "-c", program]
        self._monkeypatch.setattr(launch, "server_command", lambda: command)

    def listen(self, delay_s: float = 0.0) -> None:
        self.run(LISTENS.format(delay=delay_s, note=str(self._note)))

    @property
    def lines(self) -> list[list[str]]:
        return [line.split() for line in self._note.read_text().splitlines()]

    def end(self) -> None:
        for pid, _ in self.lines if self._note.exists() else []:
            os.kill(int(pid), signal.SIGKILL)
        for process in launch._started:
            process.wait()
        launch._started.clear()


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starts]:
    stand_in = Starts(tmp_path, monkeypatch)
    yield stand_in
    stand_in.end()


@pytest.fixture
def settings() -> Settings:
    return load()


def test_a_server_is_started_once(starts: Starts, settings: Settings) -> None:
    """The first call starts it, in a session of its own; the second finds it."""
    starts.listen()
    assert ensure_server(settings)
    assert not ensure_server(settings)
    [[pid, session]] = starts.lines
    assert pid == session
    assert tail(settings.server_log) == ["listening"]


def test_two_at_once_start_one(starts: Starts, settings: Settings) -> None:
    """The second waits for the first one's server."""
    starts.listen(delay_s=0.3)
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ensure_server(settings))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, False, True]
    assert len(starts.lines) == 1


def test_a_server_that_fails_speaks_for_itself(
    starts: Starts, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last lines are our error, and only those of this start."""
    monkeypatch.setattr(launch, "AFTER_DEATH_S", 0.05)
    Path(settings.home, "server.log").write_text("an old line\n")
    starts.run("import sys; sys.exit('error[store/nfs] the state is on NFS')")
    with pytest.raises(UnreachableError) as caught:
        ensure_server(settings)
    assert "error[store/nfs] the state is on NFS" in str(caught.value)
    assert "an old line" not in str(caught.value)
    assert caught.value.exit_code == 6


def test_a_server_that_loses_the_race_is_no_failure(starts: Starts, settings: Settings) -> None:
    """Somebody else's server may hold the lock and answer a moment later."""
    starts.listen(delay_s=0.2)
    winner = threading.Thread(target=lambda: launch._spawn(settings))
    winner.start()
    winner.join()
    starts.run("import sys; sys.exit('another server holds the lock')")
    assert ensure_server(settings)
    assert len(starts.lines) == 1


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", ""),
        (f"{BEGINS}{ENDS}", ""),
        (f"{BEGINS}INFO s something\n", "the server had been killed"),
        (
            f"{BEGINS}CRITICAL s the engine has stopped\n{ENDS}",
            "the server had failed (stw doctor",
        ),
        (
            f"{BEGINS}CRITICAL s the engine has stopped\n{BEGINS}{ENDS}",
            "",
        ),
    ],
)
def test_a_server_that_wasnt_ended_is_told_of(
    starts: Starts, settings: Settings, log: str, told: str
) -> None:
    """Once, by whoever starts it anew; what was ended on purpose is nothing to tell."""
    Path(settings.server_log).parent.mkdir(parents=True, exist_ok=True)
    Path(settings.server_log).write_text(
        "".join(f"2026-11-30T10:00:00.000Z {line}\n" for line in log.splitlines())
    )
    starts.listen()
    said: list[str] = []
    assert ensure_server(settings, said.append)
    assert not ensure_server(settings, said.append)
    assert len(said) == bool(told)
    assert "".join(said).startswith(told)


def test_a_server_that_never_answers_is_given_up(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is bounded by a setting."""
    monkeypatch.setenv("STELLWERK_START_TIMEOUT_MS", "200")
    starts.run("import time; time.sleep(5)")
    before = time.monotonic()
    with pytest.raises(UnreachableError, match=r"within 0\.2 s"):
        ensure_server(load())
    assert time.monotonic() - before < 3
    launch._started[-1].kill()


def test_a_home_that_cannot_be_made_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder and the way out are named."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STELLWERK_HOME", str(tmp_path / "file" / "state"))
    with pytest.raises(UnreachableError, match="STELLWERK_HOME"):
        Client().server_status()


def test_the_socket_of_a_killed_server_is_no_server(starts: Starts, settings: Settings) -> None:
    """A leftover file doesn't keep a new server from being started."""
    starts.listen()
    ensure_server(settings)
    os.kill(int(starts.lines[0][0]), signal.SIGKILL)
    launch._started[-1].wait()
    os.unlink(settings.socket)
    Path(settings.socket).touch()
    os.unlink(settings.socket)
    assert ensure_server(settings)
    assert len(starts.lines) == 2
    (pid, _), _ = starts.lines
    Path(starts._note).write_text("\n".join(" ".join(line) for line in starts.lines[1:]))
    assert pid
