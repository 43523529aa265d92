"""Wishes are read from labels, and told back as they would be written there."""

import pytest

from stellwerk.core.describe.task_wishes import told
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.task import Task

WRITTEN = (
    ("objective", "weighted"),
    ("usd-per-hour-of-waiting", "1.5"),
    ("max-usd", "40"),
    ("max-usd-per-hour", "2.25"),
    ("finish-by", "2026-12-24T18:00:00Z"),
    ("require", "compliance in (gdpr, iso27001)"),
    ("clients", "eu-west, us-east"),
    ("max-latency", "40ms"),
    ("data", "imgs@r3, llama@v2"),
    ("prioritize", "Cost=3, Latency=1"),
    ("expected-runtime", "9h"),
)


def read(*labels: tuple[str, str]) -> Task:
    """A task with these labels."""
    texts = "".join(f"    stellwerk/{name}: '{value}'\n" for name, value in labels)
    found = read_tasks(f"run: x\nresources:\n  labels:\n{texts}    a: b\n")
    assert isinstance(found, Task)
    return found


@pytest.mark.parametrize(("name", "value"), WRITTEN)
def test_a_wish_is_told_as_it_is_written(name: str, value: str) -> None:
    """What is told reads back as the same wish."""
    wishes = read((name, value)).wishes
    [one] = told(wishes)
    key, _, text = one.partition(": ")
    assert key == name
    assert read((key, text.replace("9 h", "9h"))).wishes == wishes


def test_all_are_told_in_one_order() -> None:
    """Every wish of a job, and none where none is."""
    names = [one.partition(":")[0] for one in told(read(*reversed(WRITTEN)).wishes)]
    assert names == [name for name, _ in WRITTEN]
    assert told(read().wishes) == ()
