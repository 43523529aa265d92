"""Why it failed, by what real programs do and print: the code, the sentence, what to do."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from stellwerk.client.api import Client
from stellwerk.client.wire import Show, Submission
from tests.flows.person import Person

PATIENCE_S = 40.0


class Case(NamedTuple):
    """A script, and what is to be said about it: ``says`` in the sentence, ``prints`` last."""

    script: str
    code: str
    says: str
    prints: str = ""
    more: str = ""


CASES = {
    "an-exit-code": Case("echo no; exit 3", "exit_code", "exit code 3", "no"),
    "a-false-at-the-end": Case("true; false", "exit_code", "exit code 1"),
    "no-command": Case(
        "nvcc --version", "missing_command", "the command `nvcc`", "nvcc: command not found"
    ),
    "no-command-in-a-script": Case(
        'printf "train_model --fast\\n" > go.sh; sh go.sh',
        "missing_command",
        "the command `train_model`",
        "not found",
    ),
    "no-module": Case(
        "python3 -c 'import torch_is_not_here.nn'",
        "missing_module",
        "the module `torch_is_not_here`",
        "ModuleNotFoundError",
    ),
    "no-module-to-run": Case(
        "python3 -m trainer_is_not_here.main",
        "missing_module",
        "the module `trainer_is_not_here",
    ),
    "no-file": Case("cat config.yaml", "missing_file", "not found: `config.yaml`"),
    "no-script": Case("python3 train.py", "missing_file", "/train.py`"),
    "no-file-in-python": Case(
        "python3 -c \"open('data/train.csv')\"",
        "missing_file",
        "a file was not found: `data/train.csv`",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
    ),
    "no-library": Case(
        "python3 -c \"import ctypes; ctypes.CDLL('libmpi_is_not_here.so.40')\"",
        "missing_library",
        "`libmpi_is_not_here.so.40`",
    ),
    "not-executable": Case(
        "echo 'echo hi' > run.sh; ./run.sh", "no_permission", "to use `./run.sh`"
    ),
    "a-folder-as-command": Case("mkdir x; ./x", "exit_code", "exit code 126", "Is a directory"),
    "a-traceback": Case(
        "python3 -c \"raise ValueError('lr must be positive')\"",
        "uncaught_error",
        "the program stopped with ValueError: lr must be positive",
        "Traceback",
    ),
    "a-traceback-from-a-traceback": Case(
        "python3 - <<'END'\ntry:\n    {}['lr']\nexcept KeyError as error:\n"
        "    raise RuntimeError('no learning rate') from error\nEND",
        "uncaught_error",
        "RuntimeError: no learning rate",
    ),
    "an-assertion": Case(
        "python3 -c \"assert 1 > 2, 'shapes differ'\"",
        "uncaught_error",
        "AssertionError: shapes differ",
    ),
    "an-assertion-without-words": Case(
        "python3 -c 'assert 1 > 2'", "uncaught_error", "AssertionError"
    ),
    "a-child-that-failed": Case(
        "python3 -c \"import subprocess; subprocess.run(['false'], check=True)\"",
        "uncaught_error",
        "CalledProcessError",
    ),
    "bad-bash": Case("if true; then\necho x", "syntax_error", "syntax error"),
    "bad-python": Case("python3 -c 'def f(:'", "syntax_error", "SyntaxError"),
    "no-memory-left": Case(
        "ulimit -v 400000\npython3 -c 'x = bytearray(2**30)'",
        "out_of_memory",
        "it ran out of memory",
        "MemoryError",
    ),
    "no-memory-for-a-child": Case(
        "ulimit -v 60000\npython3 -c 'x = bytearray(2**30)'; exit 1", "out_of_memory", "memory"
    ),
    "a-bad-pointer": Case(
        "python3 -c 'import ctypes; ctypes.string_at(0)'",
        "signal",
        "signal 11 (SIGSEGV)",
        "Segmentation fault",
    ),
    "an-abort": Case("python3 -c 'import os; os.abort()'", "signal", "signal 6 (SIGABRT)"),
    "killed-from-outside": Case("kill -9 $$", "killed", "something outside Stellwerk killed it"),
    "a-full-disk": Case(
        "echo checkpoint > /dev/full", "disk_full", "No space left on device", "write error"
    ),
    "a-full-disk-in-python": Case(
        "python3 -c \"open('/dev/full', 'w').write('x' * 99999)\"",
        "disk_full",
        "No space left on device",
    ),
    "an-unset-variable": Case("set -u; echo $LR", "exit_code", "exit code", "unbound variable"),
    "a-time-limit": Case(
        "echo started; sleep 60",
        "time_limit",
        "longer than its time limit of 1 s",
        more="resources: {labels: {stellwerk/time-limit: 1s, stellwerk/checkpoint-grace: 1s}}\n",
    ),
    "a-setup": Case(
        "echo never",
        "missing_command",
        "the command `pip-of-old`",
        more="setup: pip-of-old install torch\n",
    ),
}


@pytest.fixture(scope="module")
def client(colleague: Person) -> Iterator[Client]:
    """Everything is submitted at once, on one server."""
    with Client(colleague.json("server", "start")["socket"]) as client:
        for name, case in CASES.items():
            body = "".join(f"  {line}\n" for line in case.script.splitlines())
            text = f"name: {name}\n{case.more}run: |\n{body}"
            client.submit_prepared(Submission(text=text, file=f"{name}.yaml"))
        yield client


def ended(client: Client, name: str) -> Show:
    """A workload once it is over."""
    client.wait(name, timeout_s=PATIENCE_S)
    return client.get(name)


@pytest.mark.parametrize("name", CASES)
def test_each_failure_is_named(client: Client, name: str) -> None:
    """The code is right, the sentence says what was missing, the remedy says what to do."""
    case, show = CASES[name], ended(client, name)
    end = show.runs[-1].end
    assert end is not None
    seen = f"{show.reasons} {end}"
    assert show.phase == "Failed", seen
    assert [reason.code for reason in show.reasons] == [case.code], seen
    assert case.says in show.reasons[0].sentence, seen
    assert "not recorded" not in show.reasons[0].sentence + show.reasons[0].remedy
    assert show.reasons[0].remedy
    assert any(case.prints in line for line in end.last_lines) or not case.prints, seen


def test_none_of_it_is_held_against_the_machine(client: Client) -> None:
    """However many fail for reasons of their own, the node is still in use."""
    for name in CASES:
        ended(client, name)
    assert {node.state for one in client.clusters() for node in one.nodes} == {"ready"}


def test_a_command_that_is_not_there_is_told_before_anything_runs(colleague: Person) -> None:
    """In place there is no shell to say so; it is the person's to correct."""
    done = colleague.stw("run", "--name", "nosuch", "--", "./no-such-program", code=None)
    assert done.returncode != 0
    assert "no-such-program" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_person_reads_why_at_the_end_and_in_show(colleague: Person) -> None:
    """The last lines, the reason and the remedy stand together."""
    task = colleague.task("echo step 1\npython3 -c 'import numpi'", name="reader")
    done = colleague.stw("run", task, code=1)
    for text in (done.stderr, colleague.stw("show", "reader").stdout):
        assert "Python did not find the module `numpi`  [missing_module]" in text
        assert "-> install it in `setup:`" in text
        assert "| ModuleNotFoundError: No module named 'numpi'" in text
        assert "| step 1" in text


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("mount") is None, reason="needs a mount")
def test_a_node_whose_disk_is_full_is_quarantined_and_resumed(person: Person) -> None:
    """A tiny disk under the runs: three jobs can't start, then everything waits until `resume`."""
    person.state.mkdir()
    small = person.state / "runtime"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", small],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr.strip()}")
    try:
        fill_up_and_resume(person, str(small))
    finally:
        person.leave()
        subprocess.run(["umount", "-l", small], check=True)


def fill_up_and_resume(person: Person, disk: str) -> None:
    """Nothing can be started on a full disk; once there is room again, nothing is lost."""
    person.stw("run", person.task("echo fine", name="before"))
    ballast = os.path.join(disk, "ballast")
    with open(ballast, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert os.statvfs(disk).f_bavail < 4
    names = [f"job{number}" for number in range(5)]
    for name in names:
        person.stw("run", person.task("echo hello", name=name), "-d")
    deadline = time.monotonic() + 30
    while person.json("clusters")[0]["nodes"][0]["state"] != "quarantined":
        assert time.monotonic() < deadline, person.stw("ps", "-A").stdout
        time.sleep(0.1)
    assert "quarantined" in person.stw("clusters").stdout
    reasons = {each["code"]: each for each in person.json("show", names[-1])["reasons"]}
    assert "No space left on device" in reasons["quarantined"]["sentence"]
    cluster = person.json("clusters")[0]["name"]
    assert f"stw resume {cluster}" in reasons["quarantined"]["remedy"]
    assert "quarantined" in person.stw("events").stdout
    person.stw("resume", f"{cluster}/nowhere", code=3)
    os.unlink(ballast)
    person.stw("resume", cluster)
    person.until(dict.fromkeys(names, "Succeeded"), timeout_s=45)
    assert "no node there is drained or quarantined" in person.stw("resume", cluster).stderr
