"""Checkpoints that follow a job from machine to machine, behind real sshds, whatever breaks."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.lab.room import Computer, Room, a_room, missing
from tests.lab.test_ssh import Person
from tests.processes import end_all_of, wait_gone, wait_until

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(400),
]
PATIENCE_S = 120.0
TRAINS = """\
cd "$STELLWERK_CHECKPOINT_DIR"
last=$(ls -d step-*.pt 2>/dev/null | sed 's/[^0-9]//g' | sort -n | tail -1)
echo "begins after ${last:-nothing} on $(hostname)"
step=${last:-0}
while [ ! -e "$STELLWERK_STOP_FILE" ]; do
  [ -e ~/enough ] && exit 0
  [ -e ~/pause ] || { step=$((step + 1)); head -c SIZE /dev/urandom > .new
    mv .new step-$step.pt; echo "step $step"; }
  sleep 0.5
done
exit 85
"""


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with a_room(switch=True) as room:
        for _ in range(2):
            room.add()
        room.trust(*room.computers)
        yield room


@pytest.fixture
def person(room: Room) -> Iterator[Person]:
    person = Person(room)
    person.env["STELLWERK_CHECKPOINT_COPY_BYTES_S"] = "0"
    yield person
    person.stw("server", "stop", code=None)
    end_all_of(person.state)
    for computer in room.computers:
        computer.mend()
        computer.end_jobs()
        for name in ("pause", "enough"):
            (computer.home / name).unlink(missing_ok=True)


class Training:
    """A job that trains in a room of two, wherever it is."""

    def __init__(self, person: Person, size: int = 10_000) -> None:
        self.person = person
        self.computers = dict(zip(("pc01", "pc02"), person.room.computers, strict=True))
        hosts = [word for one in person.room.computers for word in ("--host", str(one))]
        person.stw("cluster", "add", "lab", *hosts)
        wait_until(
            lambda: [node["state"] for node in person.nodes()] == ["ready", "ready"],
            "both machines are ready",
            PATIENCE_S,
        )
        person.task(TRAINS.replace("SIZE", str(size)), "train", "--checkpoint-grace", "20s")
        self.reaches("Running")

    def show(self) -> Any:
        return self.person.show("train")

    def reaches(self, phase: str) -> None:
        wait_until(lambda: self.show()["phase"] == phase, phase, PATIENCE_S)

    def until(self, holds: Callable[[], Any], what: str) -> None:
        wait_until(lambda: bool(holds()), what, PATIENCE_S)

    def is_reachable(self, node: str, wanted: bool) -> None:
        """Waits until a machine is known to be silent, or to be back."""

        def ready() -> bool:
            states = {one["name"]: one["state"] for one in self.person.nodes()}
            return bool(states[node] != "unreachable")

        self.until(lambda: ready() == wanted, f"{node} is{'' if wanted else ' not'} reachable")

    def at_home(self) -> int:
        """The step of the copy at home; 0 for none."""
        told = self.show()["checkpoint"] or {}
        return int((told.get("at_home") or {}).get("step") or 0)

    @property
    def where(self) -> tuple[str, Computer, Computer]:
        """The name of the node it is on, that machine, and the other."""
        name = self.show()["nodes"][0]
        names = {one.address: one for one in self.computers.values()}
        here = names.get(name) or self.computers[name]
        (other,) = (one for one in self.computers.values() if one is not here)
        return name, here, other

    def steps(self, run: int) -> tuple[int, list[int]]:
        """After which step a run began, and which it has done."""
        lines = self.person.stw("logs", "train", "--run", str(run), code=None).splitlines()
        words = [line.split() for line in lines]
        began = [each[2] for each in words if each[:2] == ["begins", "after"]]
        done = [int(each[1]) for each in words if each[:1] == ["step"] and each[1].isdigit()]
        return int(began[0]) if began and began[0].isdigit() else 0, done


def test_a_drained_job_goes_on_elsewhere_from_its_last_step(person: Person) -> None:
    """What it saved in its last moment comes too, and back again; `stw ls` reads what is there."""
    job = Training(person)
    job.until(lambda: job.steps(1)[1][2:], "three steps")
    name, _, _ = job.where
    person.stw("cluster", "drain", "lab", name, "--now")
    job.until(lambda: job.steps(2)[1], "a step of the second run")
    assert job.steps(2)[0] == job.steps(1)[1][-1]
    second, _, _ = job.where
    assert second != name
    person.stw("cluster", "resume", "lab", name)
    person.stw("cluster", "drain", "lab", second, "--now")
    job.until(lambda: job.steps(3)[1], "a step of the third run")
    assert job.steps(3)[0] == job.steps(2)[1][-1]
    assert job.where[0] == name


def test_a_job_is_moved_and_goes_on_from_its_last_step(person: Person) -> None:
    """To the machine that was named; to where it can't be it is refused, and goes on."""
    job = Training(person)
    job.until(lambda: job.steps(1)[1][2:], "three steps")
    name, _, _ = job.where
    (other,) = (node["name"] for node in person.nodes() if node["name"] != name)
    refused = person.stw("move", "train", "--to", "lab/pc09", code=None)
    assert "lab has no node pc09" in refused
    person.stw("move", "train", "--to", f"lab/{other}")
    job.until(lambda: job.steps(2)[1], "a step of the second run")
    assert job.steps(2)[0] == job.steps(1)[1][-1]
    assert job.where[0] == other
    assert f"has it go on at lab/{other}" in person.stw("story", "train")


def test_a_lost_machine_leaves_what_is_at_home(person: Person) -> None:
    """While it is silent nothing is begun; given up, the job goes on from the copy, and says so."""
    job = Training(person)
    job.until(lambda: job.at_home() >= 2, "a copy at home")
    name, here, _ = job.where
    here.cut()
    here.end_jobs()
    job.is_reachable(name, False)
    copied = job.at_home()
    listed = person.stw("ls", "train", "checkpoints:")
    assert f"step-{copied}.pt" in listed
    person.stw("cp", f"train:checkpoints:step-{copied}.pt", "there.pt")
    assert (person.work / "there.pt").stat().st_size == 10_000
    person.stw("lost", "train", "--yes")
    job.until(lambda: len(job.show()["runs"]) > 1 and job.steps(2)[1], "a step of the second run")
    assert job.steps(2)[0] == copied
    said = person.stw("logs", "train", "--run", "2")
    assert f"lab/{name} was given up; the copy at home is step-{copied}.pt" in said


def test_the_server_dies_in_the_middle_of_a_copy(person: Person) -> None:
    """Half of a copy is none; the next server goes on with it, and the job follows."""
    person.env["STELLWERK_CHECKPOINT_COPY_BYTES_S"] = "4000000"
    job = Training(person, size=40_000_000)
    name, here, _ = job.where
    (here.home / "pause").touch()
    folder = person.state / "checkpoint-home"
    job.until(lambda: list(folder.glob("*/content/*.part")), "a copy on its way")
    pid = job.person.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    assert not list(folder.glob("*/[0-9]*.json"))
    begun = max(path.stat().st_size for path in folder.glob("*/content/*.part"))
    assert begun > 0
    person.env["STELLWERK_CHECKPOINT_COPY_BYTES_S"] = "0"
    job.until(job.at_home, "the copy is whole")
    here.cut()
    job.is_reachable(name, False)
    here.mend()
    job.is_reachable(name, True)
    person.stw("cluster", "drain", "lab", name, "--now")
    job.until(lambda: len(job.show()["runs"]) > 1 and job.steps(2)[1], "a step of the second run")
    assert job.steps(2)[0] == job.steps(1)[1][-1]


def test_what_rank_0_saves_is_on_both_machines_when_a_gang_goes_on(person: Person) -> None:
    """Whichever machine gets which rank, both ranks find the last step that rank 0 has saved."""
    hosts = [word for one in person.room.computers for word in ("--host", str(one))]
    person.stw("cluster", "add", "lab", *hosts)
    wait_until(
        lambda: [node["state"] for node in person.nodes()] == ["ready", "ready"],
        "both machines are ready",
        PATIENCE_S,
    )
    saves = '[ "$SKYPILOT_NODE_RANK" = 0 ] || touch "$STELLWERK_CHECKPOINT_DIR/../pause"\n'
    script = saves + TRAINS.replace("SIZE", "1000").replace("[ -e ~/pause ]", "[ -e ../pause ]")
    person.task(script, "pair", "--checkpoint-grace", "20s", "--num-nodes", "2")

    def began(run: int, rank: int) -> list[str]:
        words = ("logs", "pair", "--run", str(run), "--rank", str(rank))
        lines = person.stw(*words, code=None).splitlines()
        return [line.split()[2] for line in lines if line.startswith("begins after")]

    def saved(run: int) -> list[int]:
        lines = person.stw("logs", "pair", "--run", str(run), "--rank", "0", code=None)
        words = [line.split() for line in lines.splitlines()]
        return [int(each[1]) for each in words if each[:1] == ["step"]]

    wait_until(lambda: bool(saved(1)[2:]), "three steps", PATIENCE_S)
    name = person.show("pair")["nodes"][0]
    person.stw("cluster", "drain", "lab", name, "--now")
    wait_until(lambda: person.show("pair")["phase"] == "Pending", "it waits", PATIENCE_S)
    person.stw("cluster", "resume", "lab", name)
    wait_until(lambda: bool(began(2, 0) and began(2, 1)), "both go on", PATIENCE_S)
    last = str(saved(1)[-1])
    second = person.show("pair")["nodes"][1]
    assert person.stw("logs", "pair", "--node", second) == person.stw("logs", "pair", "--node", "1")
    person.stw("cp", f"pair:checkpoints:step-{last}.pt", "its.pt", "--node", second)
    assert (person.work / "its.pt").stat().st_size == 1000
    assert (began(2, 0), began(2, 1)) == ([last], [last])
