"""A person reaches into a job that runs: by commands, by pipes, by a terminal; the job isn't moved.

One job stays for the whole module; the last test ends it.
"""

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import pytest

from stellwerk.client.api import Client
from tests.flows.person import Person
from tests.processes import is_alive, wait_gone

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def host(colleague: Person) -> Person:
    """Somebody whose job `host` runs, with a work directory, a mount, a variable and a secret."""
    for folder, text in (("code", "the code"), ("data", "the data")):
        (colleague.desk / folder).mkdir()
        (colleague.desk / folder / "text").write_text(text)
    task = colleague.task(
        "echo up; while :; do sleep 0.2; done",
        name="host",
        more="workdir: code\nfile_mounts: {/tmp/stw-flow-data: ./data}\n"
        "envs: {COLOUR: green}\nsecrets: {TOKEN: hush}\nresources: {cpus: 0.1}\n",
    )
    colleague.stw("run", "-d", task)
    colleague.stw("wait", "--for", "running", "host")
    return colleague


class Window:
    """A terminal in which `stw` runs."""

    def __init__(self, person: Person, *words: str) -> None:
        self.seen = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(person.desk)
            command = [sys.executable, "-m", "stellwerk.cli", *words]
            os.execve(sys.executable, command, {**person.env, "TERM": "vt100"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.close(self.terminal)
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def until(self, text: bytes) -> None:
        """Reads until something is on the screen."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.seen:
            assert time.monotonic() < deadline, (text, self.seen)
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.seen += os.read(self.terminal, 65536)

    def code(self) -> int:
        """Waits for the end of `stw`; its exit code."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.terminal], [], [], 0.05)[0]:
                with suppress(OSError):
                    self.seen += os.read(self.terminal, 65536)
        raise AssertionError(f"it goes on: {self.seen!r}")


@pytest.fixture
def window(host: Person) -> Iterator[Window]:
    """A shell inside the job, ready for input."""
    with Window(host, "shell", "host") as opened:
        opened.type("PS1=; echo rea''dy\n")
        opened.until(b"ready")
        yield opened


def test_a_command_finds_what_the_job_has(host: Person) -> None:
    """Folder, mounts, variables and secrets; streams apart; its own code."""
    script = (
        "cat text ~/sky_workdir/text /tmp/stw-flow-data/text; "
        'echo " $COLOUR $TOKEN $SKYPILOT_TASK_ID"; echo warn >&2; exit 7'
    )
    done = host.stw("exec", "host", "--", "sh", "-c", script, code=7)
    workload = host.json("show", "host")["id"]
    assert done.stdout == f"the codethe codethe data green hush {workload}\n"
    assert done.stderr == "warn\n"
    assert host.stw("exec", "host", "--", "no-such", code=127).stdout == ""
    assert host.stw("exec", "host", "--", "/etc/passwd", code=126).stdout == ""
    assert host.stw("exec", "-i", "host", "--", "cat", stdin="hi\n").stdout == "hi\n"
    assert host.stw("exec", "host", "--", "cat", stdin="unasked").stdout == ""
    shell = host.stw("shell", "host", stdin="echo in $PWD; exit 5\n", code=5)
    assert shell.stdout == f"in {host.home}/sky_workdir\n"
    assert host.stw("logs", "host").stdout == "up\n"


def test_much_goes_both_ways_whole(host: Person) -> None:
    """More than everything between holds, counted at the end."""
    command = [sys.executable, "-m", "stellwerk.cli", "exec", "-i", "host", "--"]
    data = os.urandom(1 << 20) * 8
    done = subprocess.run(
        [*command, "cat"], env=host.env, input=data, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == data


def test_python_gets_the_result(host: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Client.exec` gives code and both streams."""
    socket = host.json("server", "status")["socket"]
    with Client(socket) as client:
        assert client.exec("host", ["sh", "-c", "cat; echo e >&2; exit 4"], input=b"in") == (
            4, b"in", b"e\n",
        )  # fmt: skip


def test_a_terminal_is_the_persons_own(window: Window) -> None:
    """Ctrl-C reaches what is in front there, not `stw`; its code is the shell's."""
    window.type("tty; echo $TERM\n")
    window.until(b"vt100")
    assert b"/dev/pts/" in window.seen
    # It says so itself: from there on it is what is in front.
    window.type("""sh -c "echo be''gun; exec sleep 600"\n""")
    window.until(b"begun")
    window.type("\x03")
    window.type("echo code=$?.\n")
    window.until(b"code=130.")
    window.type("exit 9\n")
    assert window.code() == 9


def test_a_closed_window_ends_what_runs_in_it(host: Person, window: Window) -> None:
    """And nothing else."""
    window.type("echo pid=$$ no''w; sleep 600\n")
    window.until(b" now")
    shell = int(window.seen.rpartition(b"pid=")[2].split()[0])
    assert is_alive(shell)
    os.close(window.terminal)
    wait_gone(shell)
    assert host.phases()["host"] == "Running"


@pytest.mark.parametrize("victim", ["client", "server"])
def test_a_kill_on_the_way_ends_the_command(host: Person, victim: str) -> None:
    """The job goes on, and the next command works."""
    command = [sys.executable, "-m", "stellwerk.cli", "exec", "host", "--"]
    with subprocess.Popen(
        [*command, "sh", "-c", "echo $$; exec sleep 600"],
        env=host.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        inside = int(client.stdout.readline())
        if victim == "client":
            client.kill()
        else:
            host.kill_server()
        _, errors = client.communicate(timeout=LIMIT_S)
    wait_gone(inside)
    if victim == "server":
        assert client.returncode == 125
        assert errors.startswith("error[exec/cut-off]")
    assert host.stw("exec", "host", "--", "echo", "back").stdout == "back\n"


def test_a_port_of_the_job_is_reached_from_here(host: Person) -> None:
    """Several connections at a time, and a word where nothing listens yet."""
    said = host.folder / "forward.txt"
    with socket.create_server(("127.0.0.1", 0)) as door, said.open("wb") as told:
        port = door.getsockname()[1]
        command = [sys.executable, "-m", "stellwerk.cli", "forward", "host", f"0:{port}"]
        with subprocess.Popen(command, env=host.env, cwd=host.desk, stderr=told) as forward:
            probe, _ = door.accept()
            probe.close()
            deadline = time.monotonic() + LIMIT_S
            while b"Ctrl-C" not in said.read_bytes():
                assert time.monotonic() < deadline, said.read_bytes()
                time.sleep(0.02)
            here = int(said.read_text().split("127.0.0.1:")[1].split()[0])
            callers = [socket.create_connection(("127.0.0.1", here), LIMIT_S) for _ in "ab"]
            theirs = [door.accept()[0] for _ in callers]
            for number, one in enumerate(callers):
                one.sendall(b"%d" % number)
            assert sorted(one.recv(8) for one in theirs) == [b"0", b"1"]
            for one in theirs:
                one.sendall(b"pong")
                one.close()
            assert [one.recv(8) for one in callers] == [b"pong"] * 2
            assert [one.recv(8) for one in callers] == [b""] * 2
            for one in callers:
                one.close()
            door.close()
            late = socket.create_connection(("127.0.0.1", here), LIMIT_S)
            assert late.recv(8) == b""
            late.close()
            forward.send_signal(signal.SIGINT)
            assert forward.wait(LIMIT_S) == 0
    assert f"error[exec/not-listening]  nothing answers at port {port}" in said.read_text()
    refused = host.stw("forward", "host", "x:1", code=2)
    assert "`x:1` is no port" in refused.stderr


def test_the_jobs_end_ends_it_too(host: Person) -> None:
    """Cancelling waits for nobody inside; they are told, and what to do next is told as well."""
    command = [sys.executable, "-m", "stellwerk.cli", "exec", "host", "--"]
    with subprocess.Popen(
        [*command, "sh", "-c", "trap '' TERM HUP INT; echo $$; while :; do sleep 1; done"],
        env=host.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        inside = int(client.stdout.readline())
        host.stw("cancel", "host")
        _, errors = client.communicate(timeout=LIMIT_S)
    wait_gone(inside)
    assert (client.returncode, errors.partition("  ")[0]) == (125, "error[exec/run-ended]")
    host.until({"host": "Cancelled"})
    late = host.stw("exec", "host", "--", "true", code=125)
    assert late.stderr.startswith("error[exec/ended]  host is over (Cancelled)")
