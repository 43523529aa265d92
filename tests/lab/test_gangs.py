"""Jobs over two machines of a room, each in a network of its own, behind real sshds."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.lab.environments import TRAINER
from tests.lab.gangs import Lab, a_lab, needs, two_machines
from tests.lab.researcher import losses
from tests.lab.room import Computer, Room, missing
from tests.lab.test_ssh import PATIENCE_S
from tests.processes import wait_gone, wait_until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with two_machines() as room:
        yield room


@pytest.fixture
def lab(room: Room) -> Iterator[Lab]:
    with a_lab(room) as lab:
        yield lab


@pytest.fixture
def one(room: Room) -> Computer:
    """The machine that is first in the order of names, which has rank 0."""
    return room.computers[0]


@pytest.fixture
def other(room: Room) -> Computer:
    return room.computers[1]


TALK = (
    'if [ "$NODE_RANK" = 0 ]; then\n'
    '  python3 -c \'import os, socket; s = socket.create_server((os.environ["MASTER_ADDR"],'
    ' int(os.environ["MASTER_PORT"]))); print(s.accept()[0].recv(99).decode())\'\n'
    'else\n  sleep 0.5; echo hello from $NODE_RANK > "/dev/tcp/$MASTER_ADDR/$MASTER_PORT"\nfi\n'
)


def test_machines_meet_where_they_reach_each_other(lab: Lab, room: Room) -> None:
    """Not at the address by which the control plane knows them, which leads nowhere from there."""
    hosts = [word for each in room.computers for word in ("--host", f"ada@{each.beside} switch=s1")]
    lab.stw("cluster", "rm", "lab")
    lab.stw("cluster", "add", "lab", *hosts)
    lab.both_are("ready", "ready")
    lab.gang(f"{TALK}echo $MASTER_ADDR; head -n1 <<< $SKYPILOT_NODE_IPS", launcher="node")
    lab.over()
    said = lab.lines()
    assert said.count("hello from 1") == 1
    met = [line for line in said if line in {each.address for each in room.computers}]
    assert (len(met), len(set(met))) == (4, 1)
    assert "it is on one switch, s1" in lab.stw("explain", "job", "--run", "1")


def test_plain_scripts_find_each_other(lab: Lab, one: Computer, other: Computer) -> None:
    """Each machine has its code and its folders; they speak over the network that they share."""
    talk = TALK + (
        "ls psum.py; echo $SKYPILOT_NODE_IPS $SKYPILOT_NUM_NODES\n"
        'test -d "$STELLWERK_CHECKPOINT_DIR" && echo $GLOO_SOCKET_IFNAME; hostname > "$PWD/here"\n'
    )
    lab.gang(talk, launcher="node")
    lab.over()
    said = lab.lines()
    assert said.count("hello from 1") == 1
    ways = (f"{a.address} {b.address} 2" for a, b in ((one, other), (other, one)))
    assert sorted(said.count(way) for way in ways) == [0, 2]
    assert said.count("psum.py") == 2
    assert len([line for line in said if line.startswith("stw")]) == 2
    assert "docker0" not in said


WAIT = "echo up\nwhile [ ! -e ~/go ]; do sleep 0.1; done\necho down"


def go(*computers: Computer) -> None:
    """Lets the scripts above end."""
    for computer in computers:
        (computer.home / "go").touch()


@pytest.fixture(autouse=True)
def no_word_yet(room: Room) -> None:
    for computer in room.computers:
        (computer.home / "go").unlink(missing_ok=True)


def both_up(lab: Lab) -> None:
    wait_until(
        lambda: lab.stw("logs", "job", code=None).count("up") == 2, "both are up", PATIENCE_S
    )


def test_a_killed_server_adopts_a_run_over_both(lab: Lab, one: Computer, other: Computer) -> None:
    """Commands inside of it reach the machine of their rank, and a notice reaches both."""
    lab.gang(WAIT, launcher="node")
    both_up(lab)
    pid = lab.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    lab.reaches("job", "Running")
    where = [
        lab.stw("exec", "job", "--rank", str(rank), "--", "sh", "-c", "echo $HOME").strip()
        for rank in range(2)
    ]
    assert sorted(where) == [str(one.home), str(other.home)]
    go(one, other)
    shown = lab.over()
    assert len(shown["runs"]) == 1
    assert lab.lines() == ["down", "down", "up", "up"]


def test_a_server_killed_before_the_word_gives_it_later(
    lab: Lab, one: Computer, other: Computer
) -> None:
    """The setup of one machine takes its time; no script begins before it, and each once."""
    setup = f'test "$HOME" != {other.home} || while [ ! -e ~/go ]; do sleep 0.1; done'
    lab.gang("echo up", launcher="node", setup=setup)
    claims = [computer.home.glob(CLAIMS) for computer in (one, other)]
    wait_until(lambda: all(any(found) for found in claims), "claims", PATIENCE_S)
    pid = lab.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    lab.both_are("ready", "ready")
    assert lab.show("job")["phase"] == "Starting"
    go(other)
    assert len(lab.over()["runs"]) == 1
    assert lab.lines() == ["up", "up"]


def test_a_cut_cable_ends_nothing(lab: Lab, one: Computer, other: Computer) -> None:
    """The run as a whole is unreachable since then, and goes on."""
    lab.gang(WAIT, launcher="node")
    both_up(lab)
    other.restart_sshd()
    other.cut()
    try:
        lab.both_are("ready", "unreachable")
        wait_until(lambda: not lab.show("job")["runs"][0]["reachable"], "unreachable", PATIENCE_S)
        go(one, other)
        assert lab.show("job")["phase"] == "Running"
    finally:
        other.mend()
    assert len(lab.over()["runs"]) == 1
    assert lab.lines() == ["down", "down", "up", "up"]


def test_a_restarted_machine_ends_the_part_of_the_other(
    lab: Lab, one: Computer, other: Computer
) -> None:
    """It is put back, and named as the reason."""
    lab.gang(WAIT, launcher="node")
    both_up(lab)
    other.cut()
    other.end_jobs()
    for started in other.home.glob(CLAIMS):
        said = json.loads(started.read_text())
        started.write_text(json.dumps({**said, "boot_id": "another"}))
    other.restart_sshd()
    other.mend()
    wait_until(lambda: len(lab.show("job")["runs"]) == 2, "the next run", PATIENCE_S)
    first = lab.show("job")["runs"][0]
    assert first["end"]["how"] == "reboot"
    assert lab.show("job")["runs"][1]["nodes"] == first["nodes"]
    assert other.address in str(first["reason"])
    go(one, other)
    lab.over()


def test_a_machine_that_is_gone_while_it_starts_takes_the_run_back(
    lab: Lab, one: Computer, other: Computer
) -> None:
    """Nothing begins on the other one, and the run is over with that reason."""
    setup = f'test "$HOME" != {other.home} || while [ ! -e ~/go ]; do sleep 0.1; done'
    lab.gang("echo up", launcher="node", setup=setup)
    wait_until(lambda: any(other.home.glob(CLAIMS)), "a claim", PATIENCE_S)
    other.restart_sshd()
    other.cut()
    try:
        wait_until(lambda: lab.show("job")["runs"][0].get("end"), "taken back", PATIENCE_S)
        end = lab.show("job")["runs"][0]["end"]
        assert end["how"] == "start_refused"
        assert "gang/unreachable" in end["message"]
        lab.stw("cancel", "job")
    finally:
        go(other)
        other.mend()
    lab.both_are("ready", "ready")
    wait_until(lambda: ended(one) and ended(other), "both parts are over", PATIENCE_S)
    assert "up" not in lab.stw("logs", "job", code=None)


CLAIMS = ".local/state/stellwerk/*/*/runtime/runs/*/started.json"


def ended(computer: Computer) -> bool:
    """Whether all that was begun there has an end."""
    return all((one.parent / "ended.json").exists() for one in computer.home.glob(CLAIMS))


def test_a_notice_has_all_machines_save_and_the_job_goes_on_from_there(lab: Lab) -> None:
    """Under torchrun, whose workers get it on both; the next run begins where they stopped. They
    save in a folder that both see, since all ranks load what the first has saved.
    """
    shared = lab.room.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    launch = f"STELLWERK_CHECKPOINT_DIR={shared} {needs(TRAINER)}/torchrun ranks.py"
    lab.gang(launch, each=2, STEP_S="0.2")
    wait_until(lambda: "step 3 " in lab.stw("logs", "job", code=None), "step 3", PATIENCE_S)
    lab.stw("cluster", "drain", "lab", "--now")
    wait_until(lambda: lab.show("job")["runs"][0].get("end"), "the end of the first", PATIENCE_S)
    end = lab.show("job")["runs"][0]["end"]
    assert end["put_back"], end
    lab.stw("cluster", "resume", "lab")
    lab.over()
    first, second = (
        losses(lab.stw("logs", "job", "--rank", "0", "--run", str(number))) for number in (1, 2)
    )
    assert min(second) == max(first) + 1


def test_who_is_cut_off_is_told_to_the_others_and_the_job_goes_on_when_it_is_back(
    lab: Lab, one: Computer, other: Computer
) -> None:
    """They are asked, since only the way to the control plane might be cut; they end with notice,
    and that machine's name is the reason. Nothing is started in its place meanwhile.
    """
    lab.gang(WAIT, launcher="node", cut_off_after="2s")
    both_up(lab)
    other.restart_sshd()
    other.cut()
    try:
        wait_until(lambda: lab.show("job")["runs"][0]["notice"], "a notice", PATIENCE_S)
        told = lab.stw("show", "job")
        assert f"{other.address} was cut off from its other machines for 2 s" in told
        assert ended(one)
        assert len(lab.show("job")["runs"]) == 1
        assert not ended(other)
    finally:
        other.mend()
    wait_until(lambda: len(lab.show("job")["runs"]) == 2, "the next run", PATIENCE_S)
    go(one, other)
    assert lab.over()["runs"][0]["end"]["put_back"]
