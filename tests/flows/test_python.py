"""Python functions as workloads, through a real server."""

import concurrent.futures
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk import CallError, Client, Executor
from stellwerk.client import UnreachableError
from stellwerk.client.python.outcome import RemoteTracebackError
from stellwerk.runtime.removing import remove_tree


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of a server of its own, for the tests of this module."""
    folder = tempfile.mkdtemp(prefix="stw-")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "STELLWERK_HOME", "XDG_RUNTIME_DIR"):
            os.mkdir(f"{folder}/{name}", 0o700)
            patch.setenv(name, f"{folder}/{name}")
        with Client() as connected:
            yield connected
            with contextlib.suppress(UnreachableError):  # it may be gone before it answers
                connected.stop_server()
    remove_tree(folder)


@pytest.fixture
def executor(client: Client) -> Iterator[Executor]:
    with Executor(cpus=0.1, client=client) as made:
        yield made


def test_values_come_back_in_order(executor: Executor) -> None:
    """Of single calls and of many, which are submitted together."""
    offset = 100

    def add(x: int, y: int = 0) -> int:
        return x + y + offset

    one = executor.submit(add, 1, y=2)
    assert one.result(30) == 103
    assert list(executor.map(add, range(4), [10] * 4)) == [110, 111, 112, 113]
    assert list(executor.map(add, range(5), chunksize=2)) == [100, 101, 102, 103, 104]
    assert one.workload == "add"


def test_an_exception_has_its_traceback(executor: Executor) -> None:
    """It is raised here as it was raised there."""

    def fails() -> None:
        raise ValueError("no such layer")

    error = executor.submit(fails).exception(30)
    assert isinstance(error, ValueError)
    assert isinstance(error.__cause__, RemoteTracebackError)
    assert "in fails" in str(error.__cause__)


def test_a_killed_call_says_why(executor: Executor, client: Client) -> None:
    """In the words of `stw explain`, by the name that `stw` knows."""

    def dies() -> None:
        import os

        os.kill(os.getpid(), 9)

    future = executor.submit(dies)
    error = future.exception(30)
    assert isinstance(error, CallError)
    assert (error.workload, error.reason) == ("dies", "killed")
    reason = client.get(future.workload).reason
    assert reason is not None
    assert reason.sentence in str(error)


def test_a_running_call_is_cancelled(executor: Executor, client: Client) -> None:
    """Its workload ends as Cancelled, and others who wait for the future are told."""
    future = executor.submit(time.sleep, 600)
    deadline = time.monotonic() + 30
    while not future.running():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert future.cancel()
    done, _ = concurrent.futures.wait([future], 30)
    assert done == {future}
    assert client.wait(future.workload, timeout_s=30).phase == "Cancelled"


def test_a_packed_folder_goes_with_the_call(client: Client, tmp_path: Path) -> None:
    """The call imports from it, wherever it runs."""
    (tmp_path / "model.py").write_text("SIZE = 7\n")

    def size(factor: int) -> int:
        import model  # type: ignore[import-not-found]

        return int(model.SIZE * factor)

    with Executor("far", workdir=tmp_path, python=sys.executable, cpus=0.1, client=client) as far:
        assert list(far.map(size, [1, 2])) == [7, 14]


def test_the_documented_example_works(client: Client, tmp_path: Path) -> None:
    """As it stands, in a file of its own."""
    text = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    (tmp_path / "tune.py").write_text(example)
    settings = client.settings
    environment = {
        **os.environ,
        "STELLWERK_HOME": settings.home,
        "STELLWERK_SOCKET": settings.socket,
    }
    done = subprocess.run(
        [sys.executable, "tune.py"], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.decode().splitlines()
    assert first.startswith("tune-loss ")
    assert float(last) < 1e-20


def test_a_client_submits_arrays_and_order(client: Client) -> None:
    """By arguments; what follows the array starts when all of it has succeeded."""
    text = "name: grid\nresources: {cpus: 0.1}\nrun: test $lr = 0.1 -o $lr = 0.2\n"
    told = client.submit(text=text, sweep={"lr": ("0.1", "0.2")}, array="%1")
    assert (told.name, told.count) == ("grid", 2)
    follows = client.submit(text="name: follows\nrun: 'true'\n", after=["ok:grid"])
    assert client.wait_array("grid", 30).phases == {"Succeeded": 2}
    assert client.wait(follows.id, timeout_s=30).phase == "Succeeded"
    assert [row.name for row in client.elements("grid")] == ["grid-0", "grid-1"]
    assert [one.name for one in client.arrays(all=True)] == ["grid"]
    assert client.array("follows") is None
