"""`stw run`: what is sent, and what is said when it can't be."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Stw
from tests.cli.jobs import Job, ended
from tests.client.fake_server import reason, refuses

STW = [sys.executable, "-m", "stellwerk.cli"]


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
        "repeated": False,
    }
    assert stw("run", task, "-o", "name").out == "digits\n"


def test_flags_travel_as_they_were_typed(
    job: Job, stw: Stw, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their meaning is the reader's business."""
    monkeypatch.setenv("TOKEN", "s3cret")
    monkeypatch.setenv("MINE", "here")
    Path("more.env").write_text("A=1\nB='two words'\n")
    flags = (
        "--name n --cpus 2+ --memory 4 --gpus A100:2 --num-nodes 1 --priority 7 --queue q "
        "--gpu-memory 4Gi --time-limit 2h --checkpoint-grace 90s --infra local --env B=3 "
        "--env MINE --env-file more.env --secret TOKEN -l team=x --hold --key k1"
    )
    stw("run", task, "-d", *flags.split())
    body = job.submitted
    assert body["overrides"] == {
        "name": "n",
        "cpus": "2+",
        "memory": "4",
        "gpus": "A100:2",
        "num_nodes": "1",
        "priority": "7",
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
    job.server.on("POST", "/v1/blobs/missing", {"missing": []})
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
    assert (
        "train.py is a program, not a task file  help: to run it: stw run -- python" in result.err
    )
    result = stw("run", "train")
    assert result.code == 2
    assert "train can't be read: No such file" in result.err
    assert "stw run -- COMMAND" in result.err
    result = stw("run", "python", "train.py")
    assert result.code == 2
    assert "a command goes after `--`: stw run -- python train.py" in result.err


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
    assert "packed 3 files, 0 B (the server has all of it)" in result.err


def test_a_known_key_is_told(job: Job, stw: Stw, task: str) -> None:
    """Nobody takes the workload of an earlier call for a new one."""
    told = {"id": "w-1", "name": "digits", "phase": "Running", "notices": []}
    at_ms = time.time_ns() // 1_000_000 - 300_000
    job.server.on("POST", "/v1/workloads", {**told, "repeated": True, "submitted_ms": at_ms})
    result = stw("run", "-d", task, "--key", "nightly")
    assert "already submitted as digits (w-1) at " in result.err
    assert "(5 min ago), under the same key" in result.err
