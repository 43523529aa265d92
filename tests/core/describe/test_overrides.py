"""Flags hold before the file; a file of variables reads as shells have it."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.env_file import read_env_file, read_env_flag
from stellwerk.core.describe.overrides import Overrides
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.quantity import GIB, Amount
from stellwerk.core.model.task import Dag, Task

TEXT = """
name: a
resources:
  cpus: 2
  labels: {stellwerk/queue: slow, stellwerk/priority: high}
  any_of: [{infra: ssh/x, accelerators: L4}, {infra: ssh/y, accelerators: A10G}]
run: x
"""


def task(**flags: Any) -> Task:
    """TEXT with flags laid over it."""
    found = read_tasks(TEXT, overrides=flags)
    assert isinstance(found, Task)
    return found


def test_every_flag() -> None:
    """Each one replaces what the file says, in every entry of a choice."""
    found = task(
        name="b",
        workdir="./src",
        gpus="A100:2",
        cpus="8+",
        memory="32",
        num_nodes=2,
        infra="k8s/lab",
        priority=5,
        queue="fast",
        gpu_memory="12Gi",
        time_limit="2h",
        checkpoint_grace="90s",
        idle_limit="0",
    )
    (request,) = found.resources
    assert (found.name, found.workdir, found.num_nodes, found.choice) == ("b", "./src", 2, "one")
    assert (request.infra, request.accelerators) == ("kubernetes/lab", {"A100": 2})
    assert (request.cpus, request.memory) == (Amount(8000, True), Amount(32 * GIB))
    assert (found.priority, found.priority_class, found.queue) == (5, None, "fast")
    assert (found.gpu_memory_bytes, found.time_limit_ms) == (12 * GIB, 7_200_000)
    assert (found.checkpoint_grace_ms, found.idle_limit_ms) == (90_000, 0)


def test_without_flags_the_file_holds() -> None:
    """An empty or missing flag changes nothing."""
    assert task() == task(name=None, gpus="") == read_tasks(TEXT)
    assert read_tasks(TEXT, name="c").name == "c"
    assert read_tasks(TEXT, overrides=Overrides(cpus="4"), name="c").name == "c"


def test_several_accelerators_make_a_choice() -> None:
    """With commas between them any will do; by memory works too."""
    found = task(gpus="A100, H100:2", infra="*")
    assert [request.accelerators for request in found.resources] == [{"A100": 1}, {"H100": 2}]
    assert found.choice == "any_of"
    (first, second) = task(gpus="24GB+:2").resources
    assert first.selector is not None
    assert (first.selector.count, first.accelerators, second.infra) == (2, {}, "ssh/y")


def test_a_class_of_priority() -> None:
    """A name instead of a number puts the number out of force."""
    found = read_tasks("resources: {priority: 3}\nrun: x", overrides={"priority": "low"})
    assert isinstance(found, Task)
    assert (found.priority, found.priority_class) == (None, "low")


def test_flags_of_a_dag() -> None:
    """The name is the Dag's, the rest holds in every task."""
    text = "name: p\n---\nname: a\nrun: x\n---\nname: b\nrun: y"
    found = read_tasks(text, name="q", overrides={"cpus": "2"})
    assert isinstance(found, Dag)
    assert (found.name, [one.name for one in found.tasks]) == ("q", ["a", "b"])
    assert all(one.resources[0].cpus == Amount(2000) for one in found.tasks)


def test_wrong_flags_all_at_once() -> None:
    """A flag's place is its name."""
    with pytest.raises(SpecError) as caught:
        task(cpus="many", gpus="A100:x", infra="kubernets", time_limit="2", num_nodes="0", queu="x",
             name="../x", priority="5000", gpu_memory="1XB")  # fmt: skip
    found = {problem.path: problem for problem in caught.value.problems}
    assert sorted(found) == [
        "--cpus", "--gpu-memory", "--gpus", "--infra", "--name", "--num-nodes", "--priority",
        "--queu", "--time-limit",
    ]  # fmt: skip
    assert found["--queu"].help == "did you mean `queue`?"
    assert not any(problem.place for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=1\nB = 2\nexport C=3\n", {"A": "1", "B": "2", "C": "3"}),
        ("# comment\n\nA=x # why\nB=#none\nC=a#b\n", {"A": "x", "B": "", "C": "a#b"}),
        ("A='x # $Y \\n' # c\n", {"A": "x # $Y \\n"}),
        ('A="x\\n\\"y\\" \\$z \\q"\n', {"A": 'x\n"y" $z \\q'}),
        ('A="two\nlines"\nB=1', {"A": "two\nlines", "B": "1"}),
        ("A='two\nlines'\nB=1", {"A": "two\nlines", "B": "1"}),
        ("A=\nB=''\n", {"A": "", "B": ""}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("A=b=c", {"A": "b=c"}),
        ("A=1\nA=2", {"A": "2"}),
        ("", {}),
    ],
)
def test_files_of_variables(text: str, variables: dict[str, str]) -> None:
    """Comments, quotes, `export`, Windows line ends; later lines hold."""
    assert read_env_file(text) == variables


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\nno assignment", 2),
        ("A='open\nB=1", 1),
        ('A="x" y', 1),
        ("\n1A=x", 2),
        ("A=" + "x" * 200_000, 1),
        ("A=x\0y", 1),
        ("#" * (3 * 1024 * 1024), 1),
    ],
)
def test_lines_that_cant_be_read(text: str, line: int) -> None:
    """Each fault has its line, and no value stands in a message."""
    with pytest.raises(SpecError) as caught:
        read_env_file(text, file=".env")
    (problem,) = caught.value.problems[:1]
    assert problem.place.startswith(f".env:{line}:")
    assert len(problem.message) < 200


def test_an_open_quote_is_found_quickly() -> None:
    """A large file with a quote that never ends isn't read again for every line."""
    text = "A='\n" * 20_000
    began = time.process_time()
    read_env_file(text)
    with pytest.raises(SpecError):
        read_env_file(text + "A='x")
    with pytest.raises(SpecError):
        read_env_file('A="\\\n' * 20_000 + "x")
    assert time.process_time() - began < 0.6


@given(st.text(alphabet="AB='\"\\\n #$x\t", max_size=60))
def test_any_text_gives_variables_or_problems(text: str) -> None:
    """Never another error."""
    try:
        found = read_env_file(text)
    except SpecError:
        return
    assert all(name and "\n" not in name for name in found)


def test_a_variable_by_name() -> None:
    """`--env NAME` takes the caller's own value."""
    assert read_env_flag("A=1=2", {}) == ("A", "1=2")
    assert read_env_flag("A", {"A": "x"}) == ("A", "x")
    assert read_env_flag("A", {}) == ("A", None)


@pytest.mark.parametrize("written", ["2", "any:2"])
def test_a_number_alone_is_so_many_of_any_kind(written: str) -> None:
    """In a flag; a task file stays one that SkyPilot reads."""
    for wanted in task(gpus=written).resources:
        assert wanted.selector is not None
        assert (wanted.selector.count, wanted.selector.memory_bytes) == (2, 0)
    with pytest.raises(SpecError):
        task(gpus="any:0")
