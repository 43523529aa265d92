"""submitit's own interface over a real server: jobs, arrays, failures, saving and going on."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk import Client
from stellwerk.client import UnreachableError
from stellwerk.core.model.errors import StellwerkError
from stellwerk.runtime.removing import remove_tree

submitit = pytest.importorskip("submitit", reason="submitit isn't installed")


@pytest.fixture(scope="module")
def home() -> Iterator[dict[str, str]]:
    """The variables of a user with a server of their own, for the tests of this module."""
    folder = tempfile.mkdtemp(prefix="stw-")
    names = ("HOME", "STELLWERK_HOME", "XDG_RUNTIME_DIR")
    for name in names:
        os.mkdir(f"{folder}/{name}", 0o700)
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setenv(name, f"{folder}/{name}")
        with Client() as client:
            client.server_status()
            yield {name: f"{folder}/{name}" for name in names}
            with contextlib.suppress(UnreachableError):  # it may be gone before it answers
                client.stop_server()
    remove_tree(folder)


@pytest.fixture
def executor(home: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    if "stellwerk" not in submitit.core.plugins.get_executors():
        pytest.skip("the plugin isn't registered: install this project again")
    made = submitit.AutoExecutor(tmp_path / "jobs", cluster="stellwerk")
    made.update_parameters(name="fit", cpus_per_task=1, timeout_min=5)
    return made


def test_a_job_and_its_output(executor: Any) -> None:
    """The result comes back, and both streams are where submitit looks for them."""

    def add(a: int, b: int) -> int:
        print("adding")
        return a + b

    job = executor.submit(add, 2, 3)
    assert job.result() == 5
    assert "adding" in job.stdout()
    assert "completed successfully" in job.stderr() + job.stdout()
    with Client() as client:
        assert client.get(job.job_id).name == "fit"
    assert job.watcher.get_state(job.job_id, "force") in {"COMPLETED", "RUNNING", "COMPLETING"}


def test_an_array_is_one_request(executor: Any) -> None:
    """With its limit; the elements belong together under one name."""
    executor.update_parameters(name="grid", stellwerk_array_parallelism=2)
    jobs = executor.map_array(lambda x: x * x, [1, 2, 3])
    assert [job.result() for job in jobs] == [1, 4, 9]
    with Client() as client:
        array = client.array("grid")
    assert array is not None
    assert (array.count, array.limit) == (3, 2)


def test_failures_are_told(executor: Any) -> None:
    """An exception by its traceback; a killed job by Stellwerk's reason."""

    def fails() -> None:
        raise ValueError("no such layer")

    error = executor.submit(fails).exception()
    assert "no such layer" in str(error)
    killed = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).exception()
    assert isinstance(killed, submitit.core.utils.UncompletedJobError)
    assert "error[call/killed]" in str(killed)


@pytest.mark.parametrize("told", [signal.SIGUSR2, signal.SIGTERM])
def test_a_job_saves_and_goes_on(executor: Any, tmp_path: Path, told: signal.Signals) -> None:
    """`checkpoint()` is called at submitit's signal and at a notice; then the job is put back."""
    pid = tmp_path / "pid"

    class Fit(submitit.helpers.Checkpointable):  # type: ignore[misc,name-defined]
        def __call__(self, epoch: int) -> int:
            if epoch == 0:
                pid.write_text(str(os.getpid()))
                time.sleep(60)
            return epoch

        def checkpoint(self, epoch: int) -> Any:
            return submitit.helpers.DelayedSubmission(self, epoch + 7)

    job = executor.submit(Fit(), 0)
    deadline = time.monotonic() + 30
    while not (pid.exists() and pid.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(int(pid.read_text()), told)
    assert job.result() == 7
    with Client() as client:
        assert len(client.get(job.job_id).runs) == 2


def test_a_job_is_cancelled(executor: Any) -> None:
    """By its id, as with `stw cancel`."""
    job = executor.submit(time.sleep, 600)
    job.cancel()
    with Client() as client:
        assert client.wait(job.job_id, timeout_s=30).phase == "Cancelled"


def test_what_was_cancelled_says_so(executor: Any) -> None:
    """Also where the call had begun, and submitit takes the notice for the end of its time."""
    job = executor.submit(time.sleep, 600)
    deadline = time.monotonic() + 60
    while "Starting with" not in (job.stdout() or ""):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    job.cancel()
    error = job.exception()
    assert isinstance(error, submitit.core.utils.UncompletedJobError)
    assert "cancelled" in str(error)
    assert "timed-out" not in str(error)


def test_a_number_of_gpus_is_one_of_any_kind(executor: Any) -> None:
    """As `gpus_per_node` is meant in submitit; `stellwerk_gpus` names the kind."""
    executor.update_parameters(gpus_per_node=2)
    with pytest.raises(StellwerkError, match="2 GPUs of 1\\+ GiB asked"):
        executor.submit(abs, 1)
    executor.update_parameters(stellwerk_gpus="B200:2")
    with pytest.raises(StellwerkError, match="B200"):
        executor.submit(abs, 1)


def test_several_nodes_are_refused(executor: Any) -> None:
    """In words, with what to use instead."""
    with pytest.raises(ValueError, match="from a task file with `num_nodes`"):
        executor.update_parameters(nodes=2)
