"""A room of two machines, and somebody who runs jobs over both of them."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.environments import CACHE, TRAINER, Environment
from tests.lab.room import Room, a_room
from tests.lab.test_ssh import PATIENCE_S, Person
from tests.processes import end_all_of, wait_until

PROGRAMS = Path(__file__).with_name("programs")
INTERPRETER = Path(os.path.realpath(TRAINER.python)).parents[1]


@contextlib.contextmanager
def two_machines() -> Iterator[Room]:
    """Two that reach each other, and see the environments of frameworks."""
    with a_room(switch=True) as room:
        shows = [path for path in (CACHE, INTERPRETER) if path.exists()]
        for _ in range(2):
            room.add(shows=shows, own_tmp=True)
        room.trust(*room.computers)
        yield room


class Lab(Person):
    """Somebody who runs jobs over all of a room."""

    def gang(
        self,
        script: str,
        name: str = "job",
        launcher: str = "",
        each: int = 0,
        setup: str = "",
        cut_off_after: str = "",
        **more: str,
    ) -> None:
        """Submits a script for two machines, with the programs beside this file as its code."""
        code = self.work / "code"
        if not code.exists():
            shutil.copytree(PROGRAMS, code, ignore=shutil.ignore_patterns("__pycache__"))
        labels = {
            "launcher": launcher,
            "processes-per-node": each or "",
            "cut-off-after": cut_off_after,
        }
        written = ", ".join(f"stellwerk/{key}: '{value}'" for key, value in labels.items() if value)
        indented = "".join(f"  {line}\n" for line in script.splitlines())
        envs = {"OMP_NUM_THREADS": "1", **more}
        text = (
            f"num_nodes: 2\nresources: {{infra: ssh/lab, cpus: 0.5, labels: {{{written}}}}}\n"
            f"envs: {{{', '.join(f'{key}: {value!r}' for key, value in envs.items())}}}\n"
            f"workdir: code\nsetup: |\n  {setup}\nrun: |\n{indented}"
        )
        (self.work / f"{name}.yaml").write_text(text)
        self.stw("run", "-d", "--name", name, f"{name}.yaml")

    def over(self, name: str = "job", phase: str = "Succeeded") -> Any:
        """Waits for the end; gives what is shown then."""
        self.stw("wait", name, code=None)
        shown = self.show(name)
        assert shown["phase"] == phase, self.stw("logs", name, code=None)
        return shown

    def lines(self, name: str = "job") -> list[str]:
        """What the ranks printed, without the number before each line, in order."""
        told = self.stw("logs", name).splitlines()
        return sorted(line.partition(") ")[2] for line in told)

    def both_are(self, *states: str) -> None:
        wait_until(
            lambda: [node["state"] for node in self.nodes()] == list(states), "nodes", PATIENCE_S
        )


@contextlib.contextmanager
def a_lab(room: Room) -> Iterator[Lab]:
    """The room as a cluster, until all that was begun is ended."""
    lab = Lab(room)
    hosts = [word for computer in room.computers for word in ("--host", str(computer))]
    lab.stw("cluster", "add", "lab", *hosts)
    lab.both_are("ready", "ready")
    yield lab
    lab.stw("server", "stop", code=None)
    end_all_of(lab.state)
    for computer in room.computers:
        computer.end_jobs()


def needs(one: Environment) -> str:
    """The programs of an environment; skips where it couldn't be made."""
    if one.missing:
        pytest.skip(one.missing)
    return str(one.python.parent)


FOUR = [f"rank {rank} of 4 on node {rank // 2}: 6" for rank in range(4)]
