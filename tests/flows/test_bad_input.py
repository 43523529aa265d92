"""What breaks other things is refused in words or stays bounded, and the server still answers."""

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from stellwerk.runtime.removing import remove_tree
from tests.flows.person import Person

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(97 + i)}: &{chr(97 + i)} [{','.join([f'*{chr(96 + i)}'] * 9)}]\n" for i in range(1, 9)
)
FILES: dict[str, tuple[bytes, str]] = {
    "no-yaml": (b"name: [a, b\nrun: }{\n", "error[spec/yaml]"),
    "20-mb": (b"run: |\n" + b"  echo and so on\n" * 1_300_000, "error[spec/too-large]"),
    "bomb": (BOMB.encode() + b"run: true\n", "error[spec/alias]"),
    "deep": (b"a: " + b"[" * 100_000, "error[spec/yaml]"),
    "noise": (bytes(range(256)) * 8, "error[spec/encoding]"),
    "nul": (b"name: a\0b\nrun: true\n", "error[spec/character]"),
    "dots": (b"name: ../../etc\nrun: true\n", "error[spec/name]"),
    "1-mb-env": (b"envs: {A: " + b"x" * 2**20 + b"}\nrun: true\n", "error[spec/env-size]"),
    "100,000-tasks": (b"run: true\n" + b"---\nrun: true\n" * 100_000, "error[spec/too-large]"),
    "never-fits": (b"run: 'true'\nresources: {cpus: 9999}\n", "error[place/never-fits]"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_task(colleague: Person, name: str) -> None:
    """It is refused at submit, with a code, and nothing of it is left."""
    content, told = FILES[name]
    (colleague.desk / name).write_bytes(content)
    refused = colleague.stw("run", "-d", name, code=2)
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr) < 4_000
    assert name not in colleague.phases()


def _socket(folder: Path) -> None:
    os.chdir(folder)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")


def _odd_name(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff\xfe")).touch()


@pytest.mark.parametrize(
    ("make", "told"),
    [(_socket, "is a socket"), (_odd_name, r"\xff\xfe has a name"), (Path.rmdir, "doesn't exist")],
)
def test_a_work_directory_that_can_not_be_packed(
    colleague: Person,
    make: Callable[[Path], None],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is in the way is named."""
    monkeypatch.chdir(tmp_path)
    code = colleague.desk / "code"
    code.mkdir()
    make(code)
    task = colleague.task("true", name="packed", more="workdir: code\n")
    refused = colleague.stw("run", "-d", task, code=2)
    assert told in refused.stderr
    shutil.rmtree(code, ignore_errors=True)


def _dig(top: Path, depth: int) -> Path:
    for _ in range(depth):
        top /= "d"
        top.mkdir()
    return top


def test_a_work_directory_of_odd_names_that_is_deeper_than_calls_can_be(colleague: Person) -> None:
    """It is made as it was; a submission like that must not end the engine, then or ever after."""
    code = colleague.desk / "code"
    (code / "a\nb" / "$(x)").mkdir(parents=True)
    (code / "loop").symlink_to("loop")
    (_dig(code, 1_100) / "found").write_text("at the bottom\n")
    script = f"cat {'d/' * 1_100}found; ls -b; mkdir -p {'e/' * 1_100}; chmod a-w ."
    task = colleague.task(script, name="digger", more="workdir: code\n")
    colleague.stw("run", "-d", task)
    assert remove_tree(str(code))
    colleague.until({"digger": "Succeeded"})
    assert colleague.stw("logs", "digger").stdout == "at the bottom\na\\nb\nd\nloop\n"
    assert colleague.stw("run", "--", "echo", "fine").stdout == "fine\n"


@pytest.mark.timeout(180)
def test_jobs_that_turn_on_what_watches_them(colleague: Person) -> None:
    """They stop or kill their wrapper, or delete their own folders: each ends, and is told so."""
    hidden = "env -i setsid sleep 4711 > /dev/null 2>&1 &"
    jobs = {
        "stopper": f"{hidden} kill -STOP $PPID; sleep 60",
        "deleter": 'rm -rf "$PWD" "$(dirname "$STELLWERK_STOP_FILE")"; sleep 60',
        "killer": f"{hidden} sleep 0.3; kill -9 $PPID; sleep 60",
    }
    small = "resources: {cpus: 0.1, labels: {stellwerk/checkpoint-grace: 1s}}\n"
    for name, run in jobs.items():
        colleague.stw("run", "-d", colleague.task(run, name=name, more=small))
    colleague.until({"stopper": "Running", "deleter": "Running"})
    colleague.stw("cancel", *jobs)
    colleague.until({"stopper": "Cancelled", "deleter": "Cancelled"})
    # It has killed its wrapper before the order to end came, or not.
    colleague.until({"killer": "Cancelled or Failed"})
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and _runs(pid, b"sleep\x004711\0")]
    assert left == []


def _runs(pid: str, command: bytes) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == command
    except OSError:
        return False


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def test_a_database_that_is_gone_or_older(person: Person) -> None:
    """Its loss is told, not made good by an empty one; with a copy put back jobs run as ever."""
    store, copy = person.state / "store.db", person.folder / "copy"
    person.stw("run", person.task("true", name="before"))
    person.stw("server", "stop")
    shutil.copy(store, copy)
    person.stw("run", person.task("true", name="after"))
    person.stw("server", "stop")
    for lose in (os.unlink, _empty):
        lose(store)
        refused = person.stw("ps", "-A", code=6)
        assert "error[store/gone]" in refused.stderr
        shutil.copy(copy, store)
    assert person.phases() == {"before": "Succeeded"}
    person.stw("run", person.task("true", name="again"))


def test_an_agent_that_is_stopped(person: Person) -> None:
    """The server answers at once, and all is well when the agent goes on."""
    person.stw("run", person.task("true", name="first"))
    agent = int(json.loads((person.state / "runtime" / "agent.json").read_text())["pid"])
    os.kill(agent, signal.SIGSTOP)
    try:
        person.stw("run", "-d", person.task("true", name="second"), timeout_s=8)
        person.stw("ps", timeout_s=8)
        person.stw("cancel", "second", timeout_s=8)
    finally:
        os.kill(agent, signal.SIGCONT)
    person.until({"second": "Cancelled"})
