"""A shell takes the place of what a task runs; all else of the task stays."""

import pytest

from stellwerk.core.describe.shells import WAIT
from stellwerk.core.describe.tasks import read, read_command
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.task import Task

FILE = """
name: train
envs: {A: b}
setup: make
resources: {cpus: 2, labels: {stellwerk/idle-limit: 2h, stellwerk/launcher: torchrun}}
run: python train.py
"""


def shell(text: str = FILE, **flags: str) -> Task:
    found = read(text, overrides={"shell": "1h", **flags}).task
    assert isinstance(found, Task)
    return found


def test_what_it_asks_for_stays() -> None:
    """Its name is its own, so that nobody takes its length for that of the task."""
    found = shell()
    assert (found.name, found.run, found.setup, found.envs) == ("shell", WAIT, "make", {"A": "b"})
    assert found.launcher is None
    assert shell(name="mine").name == "mine"


@pytest.mark.parametrize(
    ("text", "flags", "limit_ms"),
    [
        (FILE, {}, 7_200_000),
        (FILE, {"idle_limit": "0"}, 0),
        ("run: x", {}, 3_600_000),
        ("run: x", {"shell": "0"}, 0),
        ("run: x", {"idle_limit": "5m"}, 300_000),
    ],
)
def test_the_idle_limit_is_the_nearest(text: str, flags: dict[str, str], limit_ms: int) -> None:
    """The flag's, the file's, that of the settings."""
    assert shell(text, **flags).idle_limit_ms == limit_ms


def test_what_has_no_one_place_is_refused() -> None:
    """Several machines, several tasks, a setting that is no time."""
    for text, flags, said in (
        ("num_nodes: 2\nrun: x", {}, "asks for 2"),
        ("name: two\n---\nname: a\nrun: x\n---\nname: b\nrun: y", {}, "several"),
        ("run: x", {"shell": "soon"}, "interactive_idle_limit"),
    ):
        with pytest.raises(SpecError, match=said):
            shell(text, **flags)


def test_without_the_flag_nothing_changes() -> None:
    """Commands neither."""
    assert read(FILE).task.name == "train"
    command = read_command(["x"]).task
    assert isinstance(command, Task)
    assert command.idle_limit_ms is None
