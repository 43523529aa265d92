"""The plugin for submitit: `AutoExecutor(folder, cluster="stellwerk")` submits workloads.

submitit keeps calls and results in its folder, which must be on this machine; each call runs in
this folder with this environment. The job's id is the workload's. A notice (SIGTERM, or submitit's
own USR2) makes submitit save, and the job is put back with what it saved; so does the end of
`timeout_min`, as often as `max_num_timeout` allows.
"""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from submitit.core import core, job_environment, logger, utils

from stellwerk.client.api import Client
from stellwerk.client.parts import new_key
from stellwerk.client.prepare import Wish, prepare
from stellwerk.client.python.outcome import why_none
from stellwerk.core.model.errors import StellwerkError

R_co = TypeVar("R_co", covariant=True)

PUT_BACK = 85
"""The exit status of a job that saved and wants to go on later."""

NOT_PUT_BACK = "Job not requeued because"
"""What submitit says where a job was told to stop and has nothing to save, or no time left."""

ANY_GPU = "1GB+"
"""submitit's `gpus_per_node` is a number; `stellwerk_gpus` names the kind."""

SIGNAL_DELAY_S = 90.0
DEFAULT_TIMEOUT_MIN = 5
STATES = {
    "Pending": "PENDING",
    "Held": "PENDING",
    "Running": "RUNNING",
    "Stopping": "COMPLETING",
    "Succeeded": "COMPLETED",
    "Failed": "FAILED",
    "Cancelled": "CANCELLED",
}
SCRIPT = """\
out=${1//%j/$STELLWERK_WORKLOAD_ID}; err=${2//%j/$STELLWERK_WORKLOAD_ID}; setup=$3; shift 3
mkdir -p "$(dirname "$out")"
eval "$setup" || exit
if [ -n "$err" ]; then exec "$@" > >(tee -a "$out") 2> >(tee -a "$err" >&2); fi
exec "$@" > >(tee -a "$out") 2>&1
"""
"""Starts the call with its output in submitit's files as well as in `stw logs`."""


class StellwerkInfoWatcher(core.InfoWatcher):
    """Asks the server in the place of `sacct`."""

    def update(self) -> None:
        """Looks at all jobs that aren't known to be over."""
        self._num_calls += 1
        with Client() as client:
            for job in self._registered - self._finished:
                try:
                    phase = client.get(job).phase
                except StellwerkError as error:
                    logger.get_logger().warning("%s: its state isn't known: %s", job, error)
                    continue
                self._info_dict[job] = {"State": STATES.get(phase, "PENDING")}
                if phase in {"Succeeded", "Failed", "Cancelled"}:
                    self._finished.add(job)

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """In Slurm's words, which submitit knows."""
        return self.get_info(job_id, mode=mode).get("State", "UNKNOWN")


class StellwerkJob(core.Job[R_co]):
    """A workload. `job_id` is its id, by which every `stw` command knows it."""

    watcher = StellwerkInfoWatcher(delay_s=5)
    _results_timeout_s = 2

    def wait(self) -> None:
        """Returns when it is over."""
        if not self.paths.result_pickle.exists():
            with Client() as client:
                client.wait(self.job_id)

    def cancel(self, check: bool = True) -> None:
        """Ends it: with notice and grace where it runs."""
        try:
            with Client() as client:
                client.cancel(self.job_id)
        except StellwerkError:
            if check:
                raise

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        try:
            outcome, result = super()._get_outcome_and_result()
        except utils.UncompletedJobError as error:
            with Client() as client:
                show = client.get(self.job_id)
            raise utils.UncompletedJobError(f"{why_none(show)}\n{error}") from error
        if outcome == "error" and NOT_PUT_BACK in str(result):
            self._raise_if_cancelled()
        return outcome, result

    def _raise_if_cancelled(self) -> None:
        """Of one that was cancelled submitit would tell that its time was over."""
        with Client() as client:
            client.wait(self.job_id)
            show = client.get(self.job_id)
        if show.phase == "Cancelled":
            raise utils.UncompletedJobError(str(why_none(replace(show, runs=[]))))


class StellwerkJobEnvironment(job_environment.JobEnvironment):
    """What a job learns of itself, and what it does when it is told to stop."""

    _env = {  # noqa: RUF012 - submitit's own way
        "job_id": "STELLWERK_WORKLOAD_ID",
        "num_tasks": "STELLWERK_SUBMITIT_TASKS",
        "num_nodes": "SKYPILOT_NUM_NODES",
        "node": "SKYPILOT_NODE_RANK",
        "global_rank": "SKYPILOT_NODE_RANK",
        "local_rank": "STELLWERK_SUBMITIT_LOCAL_RANK",
    }

    def _handle_signals(self, paths: utils.JobPaths, submission: utils.DelayedSubmission) -> None:
        """Saves at Stellwerk's notice and before the time is over too."""
        super()._handle_signals(paths, submission)
        handler = job_environment.SignalHandler(self, paths, submission)
        signal.signal(signal.SIGTERM, handler.checkpoint_and_try_requeue)
        left_s = float(os.environ.get("STELLWERK_SUBMITIT_SAVE_AFTER_S", "0"))
        if left_s > 0:
            timer = threading.Timer(left_s, os.kill, (os.getpid(), self._usr_sig()))
            timer.daemon = True
            timer.start()

    def _requeue(self, countdown: int) -> None:
        logger.get_logger().info(f"{self.job_id} is put back ({countdown} timeouts left)")
        sys.exit(PUT_BACK)


class StellwerkExecutor(core.PicklingExecutor):
    """Submits calls as workloads. Parameters are submitit's own, and with the prefix `stellwerk_`:
    `infra`, `queue`, `priority`, `gpus`, `gpu_memory`, `env`, `labels`, `setup`,
    `signal_delay_s`, `array_parallelism`.
    """

    job_class = StellwerkJob

    def __init__(
        self,
        folder: str | Path,
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: str | None = None,
    ) -> None:
        super().__init__(folder, max_num_timeout, max_pickle_size_gb)
        self.python = shlex.quote(sys.executable) if python is None else python

    @classmethod
    def affinity(cls) -> int:
        """Only where it is asked for by name."""
        return 0

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {
            "infra", "queue", "priority", "gpus", "gpu_memory", "env", "labels", "setup",
            "signal_delay_s", "array_parallelism",
        }  # fmt: skip

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        if kwargs.get("nodes", 1) > 1 or kwargs.get("tasks_per_node", 1) > 1:
            message = (
                "a call runs as one process on one node here; start more from a task file with "
                "`num_nodes` and a launcher"
            )
            raise ValueError(message)
        super()._internal_update_parameters(**kwargs)

    def _internal_process_submissions(
        self, delayed_submissions: Sequence[utils.DelayedSubmission]
    ) -> list[core.Job[Any]]:
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        pickles: list[Path] = []
        for delayed in delayed_submissions:
            delayed.set_timeout(self._timeout_min(), self.max_num_timeout)
            pickles.append(folder / f"{new_key()}.pkl")
            delayed.dump(pickles[-1])
        jobs: list[core.Job[Any]] = []
        for id, written in zip(self._submitted(len(pickles)), pickles, strict=True):
            job: StellwerkJob[Any] = StellwerkJob(self.folder, id)
            job.paths.move_temporary_file(written, "submitted_pickle")
            jobs.append(job)
        return jobs

    def _submitted(self, count: int) -> Sequence[str]:
        """Submits so many jobs by one request; gives their ids. Each waits for its pickle."""
        with Client() as client:
            submission = prepare(self._wish(count), client.settings).submission
            return client.submit_many([submission]).ids

    def _timeout_min(self) -> int:
        return int(self.parameters.get("timeout_min", DEFAULT_TIMEOUT_MIN))

    def _wish(self, count: int) -> Wish:
        given = self.parameters
        timeout_s = self._timeout_min() * 60
        delay_s = min(float(given.get("signal_delay_s", SIGNAL_DELAY_S)), timeout_s / 5)
        overrides: dict[str, str] = {
            "name": str(given.get("name", "submitit")),
            "time_limit": f"{max(1, round(timeout_s))}s",
        }
        names = {"cpus_per_task": "cpus", "mem_gb": "memory", "gpus_per_node": "gpus"}
        names |= {key: key for key in ("infra", "queue", "priority", "gpus", "gpu_memory")}
        overrides |= {flag: str(given[key]) for key, flag in names.items() if given.get(key)}
        if overrides.get("gpus", "").isdecimal():
            overrides["gpus"] = f"{ANY_GPU}:{overrides['gpus']}"
        limit = given.get("array_parallelism")
        return Wish(
            argv=self._argv(),
            overrides=dict(overrides),
            env={
                "SUBMITIT_EXECUTOR": "stellwerk",
                "STELLWERK_SUBMITIT_SAVE_AFTER_S": f"{timeout_s - delay_s:g}",
                **dict(given.get("env") or {}),
            },
            labels=dict(given.get("labels") or {}),
            array="" if count == 1 else f"0-{count - 1}" + (f"%{limit}" if limit else ""),
        )

    def _argv(self) -> tuple[str, ...]:
        paths = utils.JobPaths(self.folder, job_id="%j", task_id=0)
        err = "" if self.parameters.get("stderr_to_stdout") else str(paths.stderr)
        setup = "\n".join(self.parameters.get("setup") or ())
        command = (*shlex.split(self.python), "-u", "-m", "submitit.core._submit", str(self.folder))
        return ("bash", "-c", SCRIPT, "submitit", str(paths.stdout), err, setup, *command)

    # submitit asks for these of an executor that writes batch scripts

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        return ""

    def _num_tasks(self) -> int:
        return 1

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        return string.decode() if isinstance(string, bytes) else string

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        return []

    @property
    def _submitit_command_str(self) -> str:
        return shlex.join(self._argv())
