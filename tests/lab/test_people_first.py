"""Somebody sits down at a machine of a room while a job runs there, behind real sshds."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.room import Computer, Room, a_room, missing
from tests.lab.test_ssh import Person
from tests.processes import wait_until
from tests.runtime.test_console import PERSON, left, seated

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.timeout(120)]
PATIENCE_S = 40.0
TRAINS = """\
leave() { date +%s.%N > ~/told; exit 85; }
trap leave TERM
cd "$STELLWERK_CHECKPOINT_DIR"
last=$(ls step-*.pt 2>/dev/null | sed 's/[^0-9]//g' | sort -n | tail -1)
echo "begins after ${last:-nothing}"
step=${last:-0}
while [ ! -e "$STELLWERK_STOP_FILE" ]; do
  step=$((step + 1)); echo $step > .new; mv .new step-$step.pt; echo "step $step"
  sleep 0.1
done
leave
"""


@pytest.fixture
def room() -> Iterator[Room]:
    """Two machines, each with a logind of its own as far as its files go."""
    with a_room(switch=True) as room:
        for number in (1, 2):
            tree = room.folder / f"logind{number}"
            left(tree)
            room.add(env={"STELLWERK_LOGIND_FOLDER": str(tree)}, own_identity=True)
        room.trust(*room.computers)
        yield room


def tree_of(room: Room, computer: Computer) -> Path:
    return room.folder / f"logind{1 + room.computers.index(computer)}"


def test_who_sits_down_gets_the_machine_and_the_job_goes_on_elsewhere(room: Room) -> None:
    """Told within two seconds, put back uncharged, and going on from its checkpoint."""
    person = Person(room)
    try:
        hosts = [f"{computer} quiet=2s" for computer in room.computers]
        person.stw("cluster", "add", "lab", *(x for host in hosts for x in ("--host", host)))
        person.task(TRAINS, "trains", "--checkpoint-grace", "10s")
        person.prints("trains", "step 5")
        first = str(person.show("trains")["runs"][-1]["nodes"][0])
        computer = next(one for one in room.computers if one.address == first)
        sat_down = time.time()
        seated(tree_of(room, computer), PERSON)
        wait_until(lambda: len(person.show("trains")["runs"]) == 2, "a second run", PATIENCE_S)
        [told] = room.folder.rglob("told")
        assert 0 < float(told.read_text()) - sat_down < 2
        second = str(person.show("trains")["runs"][-1]["nodes"][0])
        assert second != first
        wait_until(
            lambda: re.search(r"begins after [0-9]+", person.stw("logs", "trains", code=None)),
            "it goes on from its checkpoint",
            PATIENCE_S,
        )
        assert "somebody sat down at its machine" in person.stw("story", "trains")
        states = {node["name"]: node["state"] for node in person.nodes()}
        assert states == {first: "in_use", second: "ready"}
        assert "somebody sits there since" in person.stw("clusters")
        left(tree_of(room, computer))
        wait_until(
            lambda: all(node["state"] == "ready" for node in person.nodes()), "free", PATIENCE_S
        )
    finally:
        person.stw("server", "stop", code=None)
        for computer in room.computers:
            computer.end_jobs()
