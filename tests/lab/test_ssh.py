"""Work over SSH through the whole: server, driver, a real sshd, and a cable that can be pulled."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.room import Computer, Room, a_room, missing
from tests.processes import end_all_of, is_alive, wait_gone, wait_until
from tests.runtime.rig import INTERPRETERS

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
STW = Path(__file__).parents[2] / ".venv" / "bin" / "stw"
PATIENCE_S = 60.0


class Person:
    """Somebody at a terminal, whose server reaches a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.work = room.folder / f"work{len(list(room.folder.iterdir()))}"
        self.work.mkdir()
        self.state = self.work / "state"
        runtime = self.work / "run"
        runtime.mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {
            **kept,
            "HOME": str(room.person),
            "STELLWERK_HOME": str(self.state),
            "XDG_RUNTIME_DIR": str(runtime),
        }

    def stw(self, *argv: str, code: int | None = 0) -> str:
        """Runs a command; gives its output."""
        done = subprocess.run(
            [str(STW), *argv],
            env=self.env,
            cwd=self.work,
            capture_output=True,
            timeout=120,
            check=False,
        )
        said = done.stdout.decode() + done.stderr.decode()
        assert code is None or done.returncode == code, said
        return done.stdout.decode() if code == 0 else said

    def told(self, *argv: str) -> Any:
        """What a command says in JSON."""
        return json.loads(self.stw(*argv, "-o", "json"))

    def show(self, name: str) -> Any:
        return self.told("show", name)

    def task(self, script: str, name: str = "job", *argv: str, cluster: str = "lab") -> None:
        """Submits a script with a folder of code."""
        code = self.work / "code"
        code.mkdir(exist_ok=True)
        (code / "data.txt").write_text("from the snapshot\n")
        lines = "".join(f"  {line}\n" for line in script.splitlines())
        text = f"resources:\n  infra: ssh/{cluster}\nworkdir: code\nrun: |\n{lines}"
        (self.work / f"{name}.yaml").write_text(text)
        self.stw("run", "-d", "--name", name, *argv, f"{name}.yaml")

    def reaches(self, name: str, phase: str) -> Any:
        """Waits for a phase; gives what is shown then."""
        wait_until(lambda: self.show(name)["phase"] == phase, f"{phase} of {name}", PATIENCE_S)
        return self.show(name)

    def prints(self, name: str, text: str) -> None:
        """Waits until a job has printed something."""
        wait_until(lambda: text in self.stw("logs", name, code=None), text, PATIENCE_S)

    def nodes(self, cluster: str = "lab") -> list[Any]:
        found = [one for one in self.told("clusters") if one["name"] == cluster]
        return list(found[0]["nodes"]) if found else []

    def server_pid(self) -> int:
        return int(self.told("server", "status")["pid"])


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with a_room() as room:
        yield room


@pytest.fixture(scope="module")
def computer(room: Room) -> Computer:
    computer = room.add()
    room.trust(computer)
    return computer


@pytest.fixture
def person(room: Room) -> Iterator[Person]:
    person = Person(room)
    yield person
    person.stw("server", "stop", code=None)
    end_all_of(person.state)
    for computer in room.computers:
        computer.end_jobs()


@pytest.fixture
def lab(person: Person, computer: Computer) -> Person:
    """Somebody who has the one machine as the cluster `lab`."""
    person.stw("cluster", "add", "lab", "--host", str(computer))
    wait_until(lambda: [node["state"] for node in person.nodes()] == ["ready"], "lab is ready")
    return person


def test_a_job_runs_there_and_its_results_come_back(lab: Person, computer: Computer) -> None:
    """Code travels, output is read, files are listed and copied; it runs as the user of there."""
    script = 'cat data.txt\nid -un\necho r > "$STELLWERK_OUTPUT_DIR/r.txt"\n'
    script += "head -c 3000000 /dev/zero > big"
    lab.task(script)
    assert lab.reaches("job", "Succeeded")["cluster"] == "lab"
    assert lab.stw("logs", "job").split("\n")[:2] == ["from the snapshot", "ada"]
    assert [one["name"] for one in lab.told("ls", "job", "outputs:")] == ["r.txt"]
    lab.stw("cp", "job:big", "here")
    assert (lab.work / "here").stat().st_size == 3_000_000
    lab.stw("cp", "job:outputs:", "results")
    assert (lab.work / "results" / "r.txt").read_text() == "r\n"
    assert "leads out" in lab.stw("ls", "job", "../../..", code=3)
    content = next(computer.home.glob(".local/state/stellwerk/*/*/content"))
    before = {one.name for one in content.iterdir()}
    lab.task(script, "again")
    lab.reaches("again", "Succeeded")
    assert {one.name for one in content.iterdir()} == before, "nothing was sent twice"


def test_a_cancel_is_a_notice_there(lab: Person) -> None:
    """The job saves and leaves, as it would on this machine."""
    lab.task("trap 'echo saving; exit 85' TERM\necho ready\nsleep 600 & wait $!")
    lab.prints("job", "ready")
    lab.stw("cancel", "job")
    lab.reaches("job", "Cancelled")
    assert "saving" in lab.stw("logs", "job")


def test_a_command_runs_inside_a_job_there(lab: Person) -> None:
    """With the environment of the job, and its code."""
    lab.task("echo ready\nsleep 600", "job", "--env", "COLOUR=blue")
    lab.prints("job", "ready")
    said = lab.stw("exec", "job", "--", "sh", "-c", "cat data.txt; echo $COLOUR; exit 3", code=3)
    assert said.split("\n")[:2] == ["from the snapshot", "blue"]
    lab.stw("cancel", "--now", "job")
    lab.reaches("job", "Cancelled")


def test_a_pulled_cable_ends_nothing(lab: Person, computer: Computer) -> None:
    """The machine is unreachable since then; the job goes on, and its end is told when it is back,
    also what it printed meanwhile.
    """
    lab.task("echo before\nwhile [ ! -e ~/go ]; do sleep 0.1; done\necho after")
    lab.prints("job", "before")
    computer.restart_sshd()
    computer.cut()
    try:
        wait_until(
            lambda: [node["state"] for node in lab.nodes()] == ["unreachable"],
            "silence",
            PATIENCE_S,
        )
        shown = lab.show("job")
        assert shown["phase"] == "Running"
        assert lab.nodes()[0]["note"]
        (computer.home / "go").touch()
    finally:
        computer.mend()
    lab.reaches("job", "Succeeded")
    assert lab.stw("logs", "job") == "before\nafter\n"
    assert len(lab.show("job")["runs"]) == 1
    assert lab.nodes()[0]["state"] == "ready"


def test_a_killed_server_adopts_what_runs_there(lab: Person) -> None:
    """The next one finds it, tells its output from the start, and can stop it."""
    lab.task("echo here\nsleep 600")
    lab.prints("job", "here")
    pid = lab.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    assert lab.reaches("job", "Running")["runs"][0]["number"] == 1
    assert lab.server_pid() != pid
    lab.stw("cancel", "job")
    lab.reaches("job", "Cancelled")
    assert lab.stw("logs", "job").startswith("here\n")


def test_sshd_is_started_anew_under_a_job(lab: Person, computer: Computer) -> None:
    """Agent and job survive the connection, whoever ends it."""
    lab.task("echo here\nsleep 4\necho done")
    lab.prints("job", "here")
    agent = computer.agent_pid()
    computer.restart_sshd()
    lab.reaches("job", "Succeeded")
    assert lab.stw("logs", "job") == "here\ndone\n"
    assert computer.agent_pid() == agent
    assert is_alive(agent)


def test_a_killed_agent_is_replaced(lab: Person, computer: Computer) -> None:
    """The next one takes the run over from its files."""
    lab.task("echo here\nsleep 3\necho done")
    lab.prints("job", "here")
    os.kill(computer.agent_pid(), signal.SIGKILL)
    lab.reaches("job", "Succeeded")
    assert lab.stw("logs", "job") == "here\ndone\n"


def _refused(person: Person, computer: Computer, *more: str) -> str:
    return person.stw("cluster", "add", "odd", "--host", str(computer), *more, code=None)


Trouble = Callable[[Room], Computer]


def _with(rc: str = "", *options: str) -> Trouble:
    def make(room: Room) -> Computer:
        computer = room.add(options=options)
        (computer.home / ".bashrc").write_text(rc)
        room.trust(computer)
        return computer

    return make


def _with_another_key(room: Room) -> Computer:
    computer = _with()(room)
    computer.new_host_key()
    computer.restart_sshd()
    return computer


def _without_our_key(room: Room) -> Computer:
    computer = _with()(room)
    (computer.home / ".ssh" / "authorized_keys").write_text("")
    return computer


def _without_python(room: Room) -> Computer:
    """Whose path has a shell and little else."""
    computer = _with("export PATH=~/few\n")(room)
    (computer.home / "few").mkdir()
    (computer.home / "few" / "sh").symlink_to("/bin/sh")
    return computer


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_without_python, "ssh/no-python"),
        (lambda room: room.add(), "ssh/host-key-unknown"),
        (_with_another_key, "ssh/host-key-changed"),
        (_without_our_key, "ssh/auth-failed"),
        (_with("exit 7\n"), "ssh/shell-ends"),
        (_with("", "MaxSessions 0"), "ssh/max-sessions"),
        (lambda room: room.add(on=False), "ssh/refused"),
    ],
    ids=["no-python", "unknown-key", "changed-key", "no-key", "rc-exits", "no-sessions", "no-sshd"],
)
def test_each_trouble_has_its_own_name(
    room: Room, person: Person, make: Trouble, code: str
) -> None:
    """With a remedy, and nothing is kept of such a cluster."""
    said = _refused(person, make(room))
    assert f"error[{code}]" in said
    assert "help:" in said
    assert person.told("cluster", "ls") == []


def test_a_full_disk_and_a_mount_without_programs_are_named(room: Room, person: Person) -> None:
    """The first can't be worked with; on the second only programs in the code can't be started."""
    full, bare = room.add(small="size=64k"), room.add(small="noexec")
    room.trust(full, bare)
    said = _refused(person, full, "--folder", f"{full.folder}/small/s")
    assert "error[ssh/home-full]" in said
    said = person.stw(
        "cluster", "add", "bare", "--host", str(bare), "--folder", f"{bare.folder}/small/s"
    )
    assert "is mounted noexec" in said
    person.task("cat data.txt", cluster="bare")
    person.reaches("job", "Succeeded")


def test_the_doctor_says_what_is_wrong_with_each_machine(room: Room, person: Person) -> None:
    """Of a room whose machines were fine once: why each can't be used now, and what helps."""
    bare = f"{room.folder}/m{len(room.computers) + 1}/small"
    hosts = [room.add(small="noexec", env={"TMPDIR": bare}), room.add(), room.add()]
    room.trust(*hosts)
    person.stw("cluster", "add", "odd", *(f"--host={host}" for host in hosts))
    hosts[1].new_host_key()
    (hosts[2].home / ".ssh" / "authorized_keys").write_text("")
    for host in hosts[1:]:
        host.restart_sshd()

    expected = (
        f"{bare} is mounted noexec: what jobs build there can't be started   -> set TMPDIR",
        "[ssh/host-key-changed]   -> if it was set up anew",
        "[ssh/auth-failed]   -> make `ssh ada@",
    )

    def all_told() -> bool:
        lines = person.stw("doctor", code=None).splitlines()
        return all(
            any(f" odd/{host.address}" in line and words in line for line in lines)
            for host, words in zip(hosts, expected, strict=True)
        )

    wait_until(all_told, "each is named, with what helps", PATIENCE_S)


def test_start_up_files_may_print(room: Room, person: Person) -> None:
    """What they say is no answer to anything."""
    computer = _with("echo welcome to pc07; echo beware >&2; printf 'no line end'\n")(room)
    person.stw("cluster", "add", "odd", "--host", str(computer))
    person.task("cat data.txt", cluster="odd")
    person.reaches("job", "Succeeded")
    assert person.stw("logs", "job") == "from the snapshot\n"


def test_one_session_and_no_forwarding_are_enough(room: Room, person: Person) -> None:
    """But for a command inside of a job, which is refused in words."""
    options = ("AllowTcpForwarding no", "DisableForwarding yes", "MaxSessions 1")
    computer = _with("", *options)(room)
    person.stw("cluster", "add", "odd", "--host", str(computer))
    person.task("cat data.txt\nsleep 600", cluster="odd")
    person.prints("job", "from the snapshot")
    assert "MaxSessions" in person.stw("exec", "job", "--", "true", code=None)
    person.stw("cancel", "--now", "job")
    person.reaches("job", "Cancelled")


def test_a_room_has_machines_that_are_off(room: Room, person: Person) -> None:
    """Work goes to those that are on; one that is switched on later joins by itself."""
    on, off = room.add(), room.add(on=False)
    room.trust(on, off)
    person.stw("cluster", "add", "room", "--host", str(on), "--host", str(off))
    states = {node["name"]: node["state"] for node in person.nodes("room")}
    assert states == {on.address: "ready", off.address: "unreachable"}
    person.task("hostname", cluster="room")
    person.reaches("job", "Succeeded")
    off.switch_on()
    wait_until(
        lambda: {node["state"] for node in person.nodes("room")} == {"ready"}, "both", PATIENCE_S
    )


def test_an_old_python_is_enough(room: Room, person: Person) -> None:
    """The oldest that the runtime promises, by its path."""
    if "3.9" not in INTERPRETERS:
        pytest.skip("there is no Python 3.9 on this machine")
    computer = room.add(python=str(Path(INTERPRETERS["3.9"]).resolve().parents[1]))
    room.trust(computer)
    python = computer.home / "python"
    python.write_text('#!/bin/sh\nLD_LIBRARY_PATH=/opt/lib exec /opt/bin/python3.9 "$@"\n')
    python.chmod(0o755)
    person.stw("cluster", "add", "old", "--host", str(computer), "--python", str(python))
    person.task("cat data.txt", cluster="old")
    person.reaches("job", "Succeeded")
    assert person.told("cluster", "probe", "old")["hosts"][0]["python"].startswith("3.9.")
