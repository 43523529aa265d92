"""`stw run`: what is sent, what is said, and which exit code comes back."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, Says, reason, refuses, run, show

SUBMITTED = {"id": "w-1", "name": "digits", "phase": "Pending", "notices": []}
STW = [sys.executable, "-m", "stellwerk.cli"]


def ended(phase: str = "Succeeded", code: int | None = 0, **more: Any) -> dict[str, Any]:
    end = {
        "how": "exited",
        "code": code,
        "signal": None,
        "message": "",
        "last_lines": ["bye"],
        "peak_memory_bytes": 128 * 2**20,
        "cpu_ms": 900,
        "checkpointed": False,
        "put_back": False,
    }
    one = run(1, "Ended", ended_ms=1_700_000_004_400, end=end)
    return {
        **show("digits", phase, exit_code=code, runs=[one], ended_ms=1_700_000_004_500, **more),
        "id": "w-1",
    }


class Job:
    """A workload that the fake server plays: it prints, and then it has ended."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.page = ended()
        server.on("POST", "/v1/workloads", SUBMITTED)
        server.on("GET", "/v1/workloads/w-1", lambda _: self.page)
        server.on("GET", "/v1/workloads/digits", lambda _: self.page)
        server.on("GET", "/v1/events", Says([]))
        self.prints(b"hello\n")

    def prints(self, *chunks: bytes) -> None:
        self.server.on("GET", "/v1/workloads/w-1/logs", Says(list(chunks)))

    @property
    def submitted(self) -> Any:
        return self.server.bodies("POST", "/v1/workloads")[-1]


@pytest.fixture
def job(server: FakeServer) -> Job:
    return Job(server)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text("run: echo hello\n")
    return "task.yaml"


def test_a_task_is_submitted_and_followed(job: Job, stw: Stw, task: str) -> None:
    """Output on stdout, everything about it on stderr, the job's code at the end."""
    result = stw("run", task)
    assert (result.code, result.out) == (0, "hello\n")
    assert result.err.splitlines() == [
        "submitted digits (w-1)",
        "digits succeeded on laptop: ran 4.2 s, peak memory 128 MiB, exit 0",
        "  details: stw show digits   files: stw ls digits",
    ]
    assert job.submitted["text"] == "run: echo hello\n"
    assert job.submitted["file"] == "task.yaml"
    log = next(asked for asked in job.server.asked if asked.path.endswith("logs"))
    assert (log.query["run"], log.query["stream"], log.query["follow"]) == ("all", "all", "1")


def test_a_failure_says_why_and_what_to_do(job: Job, stw: Stw, task: str) -> None:
    """Reason, remedy, last lines, and the job's own exit code."""
    job.page = ended(
        "Failed",
        3,
        reasons=[
            reason("exit_code", "ended", "the command ended with exit code 3", "stw logs digits"),
        ],
    )
    result = stw("run", task)
    assert result.code == 3
    assert result.err.splitlines()[1:] == [
        "digits failed on laptop: ran 4.2 s, peak memory 128 MiB, exit 3",
        "  the command ended with exit code 3  [exit_code]",
        "    -> stw logs digits",
        "  last lines:",
        "  | bye",
        "  details: stw show digits   files: stw ls digits",
    ]


@pytest.mark.parametrize(
    ("phase", "code", "expected"),
    [
        ("Failed", 137, 137),
        ("Failed", None, 1),
        ("Failed", 0, 1),
        ("Cancelled", 143, 143),
        ("Cancelled", 0, 130),
        ("Cancelled", None, 130),
        ("Succeeded", 0, 0),
    ],
)
def test_the_exit_code_is_the_job_s(
    job: Job, stw: Stw, task: str, phase: str, code: int | None, expected: int
) -> None:
    """What ended without a code of its own is never 0."""
    job.page = ended(phase, code)
    assert stw("run", task).code == expected


def test_output_is_passed_on_as_bytes(
    job: Job, task: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Nothing is decoded, added or taken away."""
    job.prints(b"\xff\x00a", b"\r\x1b[1m")
    subprocess.run([*STW, "run", "-q", task], check=True)
    captured = capfdbinary.readouterr()
    assert captured.out == b"\xff\x00a\r\x1b[1m"
    assert captured.err == b""


def test_a_detached_run_says_how_to_come_back(job: Job, stw: Stw, task: str) -> None:
    """It returns at once, and nothing is followed."""
    result = stw("run", "-d", task)
    assert (result.code, result.out) == (0, "")
    assert "stw logs -f digits" in result.err
    assert [asked.method for asked in job.server.asked] == ["POST"]


def test_a_program_gets_the_name(job: Job, stw: Stw, task: str) -> None:
    """`-o` prints what was submitted, and doesn't follow."""
    assert json.loads(stw("run", task, "-o", "json").out) == {
        "id": "w-1",
        "name": "digits",
        "phase": "Pending",
    }
    assert stw("run", task, "-o", "name").out == "digits\n"


def test_flags_travel_as_they_were_typed(
    job: Job, stw: Stw, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their meaning is the reader's business."""
    monkeypatch.setenv("TOKEN", "s3cret")
    monkeypatch.setenv("MINE", "here")
    Path("more.env").write_text("A=1\nB='two words'\n")
    stw(
        "run",
        task,
        "-d",
        "--name",
        "n",
        "--cpus",
        "2+",
        "--memory",
        "4",
        "--gpus",
        "A100:2",
        "--num-nodes",
        "2",
        "--priority",
        "7",
        "--queue",
        "q",
        "--gpu-memory",
        "4Gi",
        "--time-limit",
        "2h",
        "--checkpoint-grace",
        "90s",
        "--infra",
        "local",
        "--env",
        "B=3",
        "--env",
        "MINE",
        "--env-file",
        "more.env",
        "--secret",
        "TOKEN",
        "-l",
        "team=x",
        "--hold",
        "--key",
        "k1",
    )
    body = job.submitted
    assert body["overrides"] == {
        "name": "n",
        "cpus": "2+",
        "memory": "4",
        "gpus": "A100:2",
        "num_nodes": 2,
        "priority": 7,
        "queue": "q",
        "gpu_memory": "4Gi",
        "time_limit": "2h",
        "checkpoint_grace": "90s",
        "infra": "local",
    }
    assert body["env"] == {"A": "1", "B": "3", "MINE": "here"}
    assert body["secrets"] == {"TOKEN": "s3cret"}
    assert (body["labels"], body["held"], body["key"]) == ({"team": "x"}, True, "k1")


def test_a_secret_never_stands_on_a_command_line(job: Job, stw: Stw, task: str) -> None:
    """A value there is refused without being repeated; a file is fine."""
    result = stw("run", task, "--secret", "TOKEN=abc123")
    assert result.code == 2
    assert "abc123" not in result.err
    Path("token").write_text("abc123\n")
    stw("run", "-d", task, "--secret", "TOKEN=@token")
    assert job.submitted["secrets"] == {"TOKEN": "abc123"}


@pytest.mark.parametrize("flag", ["--env", "--secret"])
def test_a_variable_that_is_not_set_is_told(job: Job, stw: Stw, task: str, flag: str) -> None:
    """Rather than running without it."""
    result = stw("run", task, flag, "NOT_SET_HERE")
    assert result.code == 2
    assert "$NOT_SET_HERE isn't set here" in result.err


def test_a_command_takes_everything_after_the_dashes(job: Job, stw: Stw, task: str) -> None:
    """Its options are its own."""
    stw("run", "-d", "--name", "n", "--", "python", "-c", "print(1)", "--name", "x")
    assert job.submitted["argv"] == ["python", "-c", "print(1)", "--name", "x"]
    assert job.submitted["overrides"] == {"name": "n"}


@pytest.mark.parametrize("arguments", [[], ["task.yaml", "--", "ls"]])
def test_one_thing_is_run(stw: Stw, arguments: list[str]) -> None:
    """Neither nothing nor both."""
    result = stw("run", *arguments)
    assert result.code == 2
    assert "stw run FILE, or: stw run -- COMMAND" in result.err


def test_a_batch_script_is_known_by_its_first_line(job: Job, stw: Stw, task: str) -> None:
    """`#!` begins a script, whatever its name."""
    Path("job").write_text("#!/bin/bash\n#SBATCH --time=1\necho\n")
    stw("run", "-d", "job")
    assert job.submitted["kind"] == "sbatch"


def test_a_task_may_come_from_standard_input(
    job: Job, stw: Stw, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` reads it there."""
    with open(task, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        stw("run", "-d", "-")
    assert job.submitted["text"] == "run: echo hello\n"


def test_every_mistake_of_a_file_is_told_and_nothing_sent(job: Job, stw: Stw, task: str) -> None:
    """With places, and the sentence that nothing happened."""
    Path(task).write_text("run: x\nresorces: {}\nnum_nodes: none\n")
    result = stw("run", task)
    assert result.code == 2
    lines = result.err.splitlines()
    assert lines[0].startswith("error[spec/unknown-field]  task.yaml:2:1  ")
    assert "help: did you mean `resources`?" in lines[0]
    assert lines[1].startswith("error[spec/")
    assert lines[-1] == "2 errors, nothing was submitted (exit 2)"
    assert job.server.asked == []


def test_the_servers_refusal_of_a_task_is_told_alike(job: Job, stw: Stw, task: str) -> None:
    """What only the server can know looks the same."""
    job.server.on(
        "POST",
        "/v1/workloads",
        refuses(
            "place/never-fits",
            "16 CPUs asked, laptop can give at most 2",
            file="task.yaml",
            help="ask for at most 2",
        ),
    )
    result = stw("run", task)
    assert result.code == 2
    assert result.err.splitlines() == [
        (
            "error[place/never-fits]  task.yaml  16 CPUs asked, laptop can give at most 2"
            "  help: ask for at most 2"
        ),
        "1 error, nothing was submitted (exit 2)",
    ]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (2 * 2**20 + 1)])
def test_a_file_that_is_no_text_is_refused(job: Job, stw: Stw, task: str, content: bytes) -> None:
    """Before anything reads it as YAML."""
    Path(task).write_bytes(content)
    result = stw("run", task)
    assert result.code == 2
    assert "task.yaml" in result.err


def test_a_missing_file_suggests_what_may_be_meant(stw: Stw, task: str) -> None:
    """Many type a command where a file is wanted."""
    result = stw("run", "train.py")
    assert result.code == 2
    assert "train.py can't be read: No such file" in result.err
    assert "stw run -- COMMAND" in result.err


def test_a_missing_work_directory_says_where_it_was_looked_for(stw: Stw, task: str) -> None:
    """Relative to where the caller stands, with a hint when it lies beside the file."""
    Path("sub/code").mkdir(parents=True)
    Path("sub/task.yaml").write_text("workdir: code\nrun: ls\n")
    result = stw("run", "sub/task.yaml")
    assert result.code == 2
    assert f"{Path.cwd()}/code doesn't exist" in result.err
    assert "sub/code exists" in result.err


def test_a_large_work_directory_needs_a_yes(
    job: Job, stw: Stw, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal it is an error that names the flag."""
    monkeypatch.setenv("STELLWERK_ASK_ABOVE_FILES", "1")
    job.server.on("POST", "/v1/blobs/missing", {"missing": []})
    Path("code").mkdir()
    for name in "abc":
        Path("code", name).touch()
    Path(task).write_text("workdir: code\nrun: ls\n")
    result = stw("run", "-d", task)
    assert result.code == 2
    assert "--yes" in result.err
    result = stw("run", "-d", "--yes", task)
    assert result.code == 0
    assert "packed 3 files, 0 B (0 B sent)" in result.err


def test_phases_are_told_once_each(job: Job, stw: Stw, task: str) -> None:
    """Without a terminal there is one line for each change, and none for none."""
    why = [reason("no_room", "capacity", "2 CPUs asked, 1 free on laptop")]
    pages = iter(
        [
            show("digits", "Pending", reasons=why),
            show("digits", "Pending", reasons=why),
            show("digits", "Running", runs=[run(2)]),
            ended(),
        ]
    )
    last = [ended()]

    def page(_: object) -> dict[str, Any]:
        last[0] = next(pages, last[0])
        return last[0]

    def output() -> Any:
        yield b"hi\n"
        time.sleep(0.5)

    event = b'data: {"seq": %d, "at_ms": 1, "event": {"type": "x"}}\n\n'

    def events() -> Any:
        for number in range(1, 9):
            time.sleep(0.03)
            yield event % number

    job.server.on("GET", "/v1/workloads/w-1", page)
    job.server.on("GET", "/v1/events", lambda _: Says(events(), cut=True))
    job.server.on("GET", "/v1/workloads/w-1/logs", lambda _: Says(output()))
    lines = stw("run", task).err.splitlines()
    assert lines[1:3] == [
        "waiting: capacity: 2 CPUs asked, 1 free on laptop",
        "running on laptop (run 2)",
    ]


def test_a_lost_server_is_125_once_there_is_a_job(
    job: Job, stw: Stw, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code of ours can't be mistaken for the job's."""
    job.server.on("GET", "/v1/workloads/w-1/logs", refuses("internal", "oops", 500, 1))
    result = stw("run", task)
    assert result.code == 125
    assert "error[internal]  oops" in result.err
    assert "the job itself is not affected" in result.err


def start_following(job: Job, seconds: float, **how: Any) -> "subprocess.Popen[bytes]":
    """Runs `stw` on a job that prints once and then takes its time."""

    def output() -> Any:
        yield b"begun\n"
        time.sleep(seconds)

    job.page = {**show("digits", "Running", runs=[run(1)]), "id": "w-1"}
    job.server.on("GET", "/v1/workloads/w-1/logs", lambda _: Says(output()))
    return subprocess.Popen([*STW, "run", "task.yaml"], **how)


def test_ctrl_c_without_a_terminal_detaches(job: Job, task: str) -> None:
    """The job goes on, and the sentence says how to come back."""
    with start_following(job, 2, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == (
        "digits goes on; to follow it again: stw logs -f digits"
    )
    assert "cancel" not in [asked.path.rsplit("/", 1)[1] for asked in job.server.asked]


@pytest.mark.parametrize(
    ("answer", "code", "cancelled"), [(b"d\n", 130, False), (b"f\n", 0, False), (b"c\n", 130, True)]
)
def test_ctrl_c_on_a_terminal_asks(
    job: Job, task: str, answer: bytes, code: int, cancelled: bool
) -> None:
    """Detach, keep following, or cancel: nothing happens by accident."""
    job.server.on(
        "POST", "/v1/workloads/w-1/cancel", {"id": "w-1", "name": "d", "phase": "Running"}
    )
    ours, theirs = pty.openpty()
    with start_following(job, 1.5, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        screen = read_until(ours, b"begun")
        process.send_signal(signal.SIGINT)
        screen += read_until(ours, b"keep following: ")
        job.page = ended("Cancelled" if cancelled else "Succeeded", None if cancelled else 0)
        os.write(ours, answer)
        screen += read_until(ours, b"stw logs -f" if answer == b"d\n" else b"details: ")
        assert process.wait(timeout=10) == code
    os.close(theirs)
    os.close(ours)
    assert b"digits goes on.  [d] detach, [c] cancel it, [f] keep following: " in screen
    paths = [asked.path.rsplit("/", 1)[1] for asked in job.server.asked]
    assert ("cancel" in paths) == cancelled


def read_until(descriptor: int, mark: bytes, seconds: float = 10) -> bytes:
    """Reads a terminal until something stands there."""
    seen = b""
    deadline = time.monotonic() + seconds
    while mark not in seen:
        ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
        assert ready, seen
        seen += os.read(descriptor, 4096)
    return seen
