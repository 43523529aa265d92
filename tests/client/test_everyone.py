"""The machine's service for everyone: who may have a runtime, who has asked, when it is started."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.client.allowed import Account, Rule, read_people, why_not
from stellwerk.client.asking import ask
from stellwerk.client.everyone import Door, Everyone, Service, account_of
from stellwerk.client.everyone_unit import unit
from stellwerk.runtime import operations, ordering
from stellwerk.runtime.system import user_name

ADA = Account("ada", 1001, 1001, "/home/ada", "/bin/bash", ("ada", "lab"))
RULE = Rule(("@lab",))


@pytest.mark.parametrize(
    ("account", "rule", "words"),
    [
        (ADA, RULE, ""),
        (ADA, Rule(("ada",)), ""),
        (ADA, Rule(("@ada", "ben")), ""),
        (ADA, Rule(("lab",)), "hasn't named ada"),
        (ADA, Rule(()), "hasn't named ada"),
        (ADA._replace(uid=0), Rule(("ada",)), "ever started as root"),
        (ADA._replace(uid=0), Rule(("ada",), 0), "ever started as root"),
        (ADA._replace(uid=999), RULE, "ada (uid 999) is an account of the system"),
        (ADA._replace(uid=999), Rule(("@lab",), 500), ""),
        (ADA._replace(uid=65_534), RULE, "of the system"),
        (ADA._replace(shell="/usr/sbin/nologin"), RULE, "may not log in here"),
        (ADA._replace(shell="/bin/false"), Rule(("ada",)), "may not log in here"),
        (None, RULE, "knows no user"),
    ],
)
def test_who_may_have_one(account: Account | None, rule: Rule, words: str) -> None:
    """Who is named, and is a person who may log in; root and the system's accounts never."""
    said = why_not(account, account.uid if account else 1001, rule)
    assert (words in said) if words else said == ""


def test_names_are_read_as_people_write_them() -> None:
    """With commas, spaces, or one option each."""
    assert read_people(["ada, ben", "@lab"]) == ("ada", "ben", "@lab")


class World:
    """The service with users and a clock of the test's; children are real, and do nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = {1001: ADA, 1002: Account("cyd", 1002, 1002, "/home/cyd", "/bin/bash")}
        self.now_s = 100.0
        self.does = "exec sleep 100"
        self.started: list[str] = []
        self.said: list[str] = []
        self.children: list[subprocess.Popen[bytes]] = []
        self.everyone = self.again()

    def again(self) -> Everyone:
        """The service, as it begins after a restart."""
        self.everyone = Everyone(
            Service("", str(self.folder), "/run/s.sock", RULE),
            self.said.append,
            account=self.users.get,
            start=self._start,
            monotonic_s=lambda: self.now_s,
        )
        self.everyone.remember()
        return self.everyone

    def _start(self, account: Account, server: str) -> "subprocess.Popen[bytes]":
        self.started.append(f"{account.name} {server}")
        argv = ["/bin/sh", "-c", self.does]
        self.children.append(subprocess.Popen(argv, stderr=subprocess.PIPE))
        return self.children[-1]

    def over(self) -> None:
        """Ends all children."""
        for child in self.children:
            child.kill()
            child.communicate() if child.stderr and not child.stderr.closed else child.wait()

    def waits(self) -> None:
        """Has the child be over, as the service sees it next."""
        for kept in self.everyone.kept.values():
            assert kept.process is not None
            os.waitid(os.P_PID, kept.process.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.over()


def test_what_somebody_has_asked_for_lasts_until_they_take_it_back(world: World) -> None:
    """Through restarts of the service; a number that is somebody else's by now asks nothing."""
    assert world.everyone.answer(1001, "status")["kept"] is False
    assert world.everyone.look() is None
    told = {"kept": True, "server": "/run/s.sock", "refused": "", "failed": ""}
    assert world.everyone.answer(1001, "start") == told
    assert "hasn't named cyd" in str(world.everyone.answer(1002, "start")["refused"])
    assert world.everyone.answer(1001, "ada; reboot") == {
        "refused": "ask for start, stop or status"
    }
    assert world.everyone.look() is None, "it runs, and nothing is due"
    assert world.started == ["ada /run/s.sock"]
    world.everyone.end()
    world.again().look()
    assert world.started == ["ada /run/s.sock"] * 2
    assert world.everyone.answer(1001, "stop") == {"kept": False}
    assert os.listdir(world.folder) == []
    (world.folder / "1001").write_text("eve\n")
    world.again().look()
    assert (len(world.started), os.listdir(world.folder)) == (2, [])
    assert "isn't who has asked before" in world.said[-1]


def test_one_that_ends_is_started_ever_more_seldom(world: World) -> None:
    """And it is said why, on one line; where another one is there already it is left alone."""
    world.does = "printf 'error[x]  no\\nhome\\033[1m' >&2; exit 3"
    world.everyone.answer(1001, "start")
    waits = []
    for _ in range(4):
        world.everyone.look()
        world.waits()
        waits.append(world.everyone.look())
        world.now_s += waits[-1] or 0.0
    assert waits == [2.0, 4.0, 8.0, 16.0]
    assert (
        world.said[-1]
        == "the runtime of user 1001 ended with 3; again in 16 s; error[x] no home[1m"
    )
    told = world.everyone.answer(1001, "status")
    assert (told["kept"], told["failed"]) == (True, "error[x] no home[1m")
    world.does = "exit 0"
    world.everyone.look()
    world.waits()
    assert world.everyone.look() == 60.0
    world.users[1001] = ADA._replace(groups=("ada",))
    world.now_s += 60.0
    world.everyone.look()
    assert world.said[-1].startswith("not started for user 1001: the administrator hasn't named")
    assert len(world.started) == 5
    told = world.everyone.answer(1001, "start")
    assert told["kept"] is False, "so that who has asked starts their own"


def test_whoever_asks_is_known_by_the_kernel_and_nobody_is_waited_for(tmp_path: Path) -> None:
    """One that says nothing keeps no other from being answered."""
    asked: list[tuple[int, str]] = []

    def answer(uid: int, word: str) -> dict[str, object]:
        asked.append((uid, word))
        return {"kept": True}

    path = str(tmp_path / "ask.sock")
    door = Door(path, answer)
    with pytest.raises(FileExistsError):
        Door(path, answer)
    door.wait(0)  # the other one only looked
    silent, speaks = (socket.socket(socket.AF_UNIX) for _ in range(2))
    silent.connect(path)
    speaks.connect(path)
    speaks.sendall(b"start\n")
    while not asked or asked[-1][1] != "start":
        door.wait(1)
    assert asked[-1] == (os.getuid(), "start")
    assert json.loads(speaks.recv(100)) == {"kept": True}
    door.close()
    silent.close()
    speaks.close()
    assert ask("status", "/run/s.sock", {"STELLWERK_PEOPLE_SOCKET": str(tmp_path / "no")}) is None


def test_a_user_is_taken_as_the_machine_knows_them() -> None:
    """With all of their groups by name."""
    root = account_of(0)
    assert root is not None
    assert (root.name, "root" in root.groups) == ("root", True)
    assert account_of(2**31 - 7) is None


def test_a_unit_takes_nothing_from_the_jobs_below_it() -> None:
    """It ends its own process alone, and quotes what systemd would read otherwise."""
    text = unit(["/opt/my venv/python", "agent", "everyone", "--people=@lab", "100%"])
    assert "ExecStart='/opt/my venv/python' agent everyone --people=@lab 100%%\n" in text
    assert "KillMode=process\n" in text
    assert not any(word in text for word in ("NoNewPrivileges", "Protect", "Private", "Bounding"))


def test_a_runtime_takes_no_order_for_somebody_else() -> None:
    """Whatever was sent along the wrong way: the order names whose it is."""
    with pytest.raises(ordering.Refused) as refused:
        operations._read_start({"spec": {}, "person": "somebody"})
    own = user_name(os.getuid())
    assert (refused.value.code, refused.value.message) == (
        "not_yours",
        f"the order is for somebody, and this runtime is {own}'s",
    )
    with pytest.raises(ordering.Refused) as refused:
        operations._read_start({"spec": {}, "person": own})
    assert refused.value.code == "spec_invalid"
