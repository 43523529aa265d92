"""Batch scripts for Slurm: what is taken over, what is told, what is refused, and what runs."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.sbatch import read_batch, read_sbatch
from stellwerk.core.describe.sbatch_amounts import parse_slurm_time
from stellwerk.core.describe.sbatch_options import OPTIONS, SHORT
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.quantity import DAY_MS, GIB, HOUR_MS, MIB, MINUTE_MS, Amount
from stellwerk.core.model.task import Task


def script(*options: str, body: str = "python train.py") -> str:
    """A script with some options."""
    lines = [f"#SBATCH {option}" for option in options]
    return "\n".join(["#!/bin/bash", *lines, body, ""])


def task(*options: str, body: str = "python train.py") -> Task:
    """Its task."""
    return read_sbatch(script(*options, body=body), "j.sh")


def refused(*options: str, body: str = "x") -> list[tuple[str, int]]:
    """Codes and lines of what is wrong with it."""
    with pytest.raises(SpecError) as caught:
        task(*options, body=body)
    return [(problem.code, problem.line) for problem in caught.value.problems]


def test_the_usual_lines() -> None:
    """Name, CPUs, memory, accelerators, time, signal, requeue."""
    found = task(
        "-J lora -p gpu -A lab -q normal",
        "-N 1 -n 1 -c 8",
        "--mem=64G --gres=gpu:a100:2",
        "-t 1-12:00:00   # one and a half days",
        "--signal=B:USR1@300 --requeue",
        "-o %x-%j.out -e %x-%j.err",
        "--export=NONE -D /home/me/code",
    )
    (request,) = found.resources
    assert (found.name, found.num_nodes, found.workdir) == ("lora", 1, "/home/me/code")
    assert (request.cpus, request.memory) == (Amount(8000), Amount(64 * GIB))
    assert request.accelerators == {"A100": 2}
    assert found.time_limit_ms == 36 * HOUR_MS
    assert [(s.signal, s.lead_ms) for s in found.notice_signals] == [("USR1", 300_000)]
    assert found.checkpoint_grace_ms == 300_000
    assert request.job_recovery is not None
    assert (found.output, found.error_output) == ("%x-%j.out", "%x-%j.err")
    told = [notice.path for notice in found.ignored]
    assert told == ["--partition", "--account", "--qos", "--output", "--error"]
    assert [notice.line for notice in found.ignored] == [2, 2, 2, 7, 7]


def test_a_bare_script() -> None:
    """Runs where it was submitted, with no wishes."""
    found = task()
    assert (found.workdir, found.resources[0].cpus, found.run) == (".", None, "python train.py\n")


@pytest.mark.parametrize(
    ("options", "milli", "memory"),
    [
        (["-n 4"], 4000, None),
        (["-n 4 -c 2"], 8000, None),
        (["--ntasks-per-node=3 -c2"], 6000, None),
        (["-c 4 --mem-per-cpu=2G"], 4000, 8 * GIB),
        (["--mem 4000"], None, 4000 * MIB),
        (["--mem=0"], None, None),
        (["-G 2 --mem-per-gpu=16G"], None, 32 * GIB),
        (["--mem=1G", "--mem=2G"], None, 2 * GIB),
    ],
)
def test_cpus_and_memory(options: list[str], milli: int | None, memory: int | None) -> None:
    """What a node must give; of a repeated option the last holds."""
    (request,) = task(*options).resources
    assert (request.cpus and request.cpus.value, request.memory and request.memory.value) == (
        milli,
        memory,
    )


@pytest.mark.parametrize(
    ("option", "accelerators", "count"),
    [
        ("--gres=gpu:2", {}, 2),
        ("--gres=gpu", {}, 1),
        ("--gres=gpu:rtx3090", {"RTX3090": 1}, 1),
        ("--gres=gpu:nvidia_geforce_rtx_3090:2,tmp:10G", {"RTX3090": 2}, 2),
        ("-G a100:2", {"A100": 2}, 2),
        ("--gpus-per-node=h100:4", {"H100": 4}, 4),
        ("--gpus-per-task=1 --ntasks-per-node=2", {}, 2),
        ("--gres=gpu:1 -C a100", {"A100": 1}, 1),
        ("--gres=none", {}, 0),
    ],
)
def test_accelerators(option: str, accelerators: dict[str, float], count: float) -> None:
    """A kind if one is named, else any card."""
    (request,) = task(option).resources
    assert (request.accelerators, request.gpus) == (accelerators, count)


@pytest.mark.parametrize(
    ("written", "span_ms"),
    [
        ("90", 90 * MINUTE_MS),
        ("90:30", 90 * MINUTE_MS + 30_000),
        ("2:00:00", 2 * HOUR_MS),
        ("1-12", DAY_MS + 12 * HOUR_MS),
        ("1-12:30", DAY_MS + 12 * HOUR_MS + 30 * MINUTE_MS),
        ("7-00:00:00", 7 * DAY_MS),
        ("soon", None),
    ],
)
def test_times(written: str, span_ms: int | None) -> None:
    """Slurm's six ways to write one."""
    assert parse_slurm_time(written) == span_ms


def test_times_without_an_end() -> None:
    """No limit is no limit."""
    assert task("-t UNLIMITED").time_limit_ms is None


@pytest.mark.parametrize(
    "option",
    [
        "-w node3", "--exclusive", "--begin=now+1hour",
        "-H", "-L matlab:1", "--container-image=x", "hetjob",
    ],
)  # fmt: skip
def test_what_would_change_the_job_is_refused(option: str) -> None:
    """In words, at its line."""
    assert refused("-J x", option) == [("spec/sbatch-refused", 3)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["-c many"], "spec/sbatch-value"),
        (["--mem=16XB"], "spec/sbatch-value"),
        (["--gres=gpu:a:b:c:2"], None),
        (["--gpus=x:y"], "spec/sbatch-value"),
        (["--gres=gpu:1 --gpus-per-node=2"], "spec/sbatch-value"),
        (["--gres=gpu:a100:1,gpu:v100:1"], "spec/sbatch-value"),
        (["-C bigmem"], "spec/sbatch-value"),
        (["-t never"], "spec/sbatch-value"),
        (["--signal=KILL"], "spec/sbatch-value"),
        (["--job-nam=x"], "spec/sbatch-option"),
        (["-c"], "spec/sbatch-option"),
        (["stray"], "spec/sbatch-option"),
        (["-J 'open"], "spec/sbatch-line"),
        (["--export=HF_HOME"], "spec/env-missing"),
        (["-N 2"], "spec/sbatch-nodes"),
    ],
)
def test_what_is_wrong(options: list[str], code: str | None) -> None:
    """One mistake, one problem; what isn't an accelerator is told as ignored."""
    if code is None:
        assert task(*options).ignored
    else:
        assert refused(*options) == [(code, 2)]


def test_arrays_and_dependencies_are_labels() -> None:
    """With names in the place of numbers; what can't be waited for is told at its line."""
    found = task("-a 0-9%2", "-d afterok:prep:data,afternotok:x")
    assert found.labels == {
        "stellwerk/array": "0-9%2",
        "stellwerk/after": "ok:prep, ok:data, fail:x",
    }
    wrong = [(["-a 9-0"], "spec/value"), (["-d singleton"], "spec/value")]
    for options, code in [*wrong, (["-d afterok:a?afterok:b"], "spec/value")]:
        assert refused(*options) == [(code, 2)]


def test_many_faults_at_once() -> None:
    """All of them, in the order of their lines."""
    found = refused("-c x", "--exclusive", "--gpus=??")
    assert [line for _, line in found] == [2, 3, 4]


def test_variables_of_export() -> None:
    """Given ones are taken, those of the caller must come by a flag."""
    text = script("--export=ALL,A=1,B")
    found = read_batch(text, env={"B": "2"}).task
    assert isinstance(found, Task)
    assert found.envs == {"A": "1", "B": "2"}
    assert [notice.path for notice in found.ignored] == ["--export"]


def test_lines_behind_a_command_are_told() -> None:
    """As sbatch does, they are not read."""
    found = task("-J a", body="x\n#SBATCH -J b")
    assert (found.name, found.notices[0].code) == ("a", "spec/sbatch-late")


def test_names_are_made_fit() -> None:
    """Slurm allows any name."""
    found = task("-J 'my job: 1/2'")
    assert (found.name, found.notices[0].code) == ("my-job-1-2", "spec/name")


@pytest.mark.parametrize("first", ["", "#!/usr/bin/env python3", "#!/bin/zsh", "echo"])
def test_other_shells(first: str) -> None:
    """Only bash scripts can be run."""
    with pytest.raises(SpecError) as caught:
        read_sbatch(f"{first}\n#SBATCH -J x\nx")
    assert [problem.code for problem in caught.value.problems] == ["spec/sbatch-shell"]


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/usr/bin/env bash", "#! /bin/bash -l"])
def test_shells(first: str) -> None:
    """These are bash, or near enough."""
    assert read_sbatch(f"{first}\nx").run == "x"


def run(text: str) -> str:
    """What the body prints when bash runs it as the task's script."""
    found = read_sbatch(text)
    done = subprocess.run(
        ["/bin/bash", "-c", found.run], capture_output=True, text=True, check=False, timeout=20
    )
    return done.stdout + done.stderr


def test_srun_runs_its_command() -> None:
    """Options of srun are dropped, those of the command are kept."""
    body = """\
srun echo one
if srun -n 1 --gpus=2 --cpu-bind=none -u echo -n two; then echo; fi
srun -- echo three | cat
time -p srun -N1 bash -c 'echo four' 2>/dev/null
"""
    assert run(script("-c 2", body=body)).startswith("one\ntwo\nthree\nfour\n")


def test_slurm_variables_that_the_body_reads() -> None:
    """Those with a meaning here are set, the others told; none else is."""
    body = 'echo "$SLURM_CPUS_PER_TASK ${SLURM_JOB_NAME} $SLURM_NNODES ${SLURM_NTASKS:-none}"; env'
    printed = run(script("-J a -c 3", body=body))
    assert printed.startswith("3 a 1 1\n")
    assert "SLURM_PROCID" not in printed
    found = task(body="echo $SLURM_STEP_ID")
    assert found.notices[0].code == "spec/sbatch-variable"


def test_flags_of_the_shell() -> None:
    """`#!/bin/bash -e` ends at the first failure, here too."""
    assert run("#!/bin/bash -el\nfalse\necho on\n") == ""
    assert run("#!/bin/bash\nfalse\necho on\n") == "on\n"


def test_several_processes_by_srun() -> None:
    """Refused at the line of the srun; CPUs alone are fine."""
    assert refused("-n 4", body="echo\nsrun python x") == [("spec/sbatch-tasks", 4)]
    assert refused(body="exec srun x") == [("spec/sbatch-exec", 2)]
    assert task("-n 4", body="python x # srun").resources[0].cpus == Amount(4000)


def test_flags_hold_before_options() -> None:
    """As with task files."""
    found = read_batch(script("-J a -c 2"), name="b", overrides={"cpus": "8"}).task
    assert isinstance(found, Task)
    assert (found.name, found.resources[0].cpus) == ("b", Amount(8000))


def test_the_table_of_options() -> None:
    """Every short option has its long one, every option that isn't used its reason."""
    assert all(name in OPTIONS for name in SHORT.values())
    assert all(one.fate == "used" or one.reason for one in OPTIONS.values())


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*(f"--{name}" for name in OPTIONS), *(f"-{x}" for x in SHORT), "--x"]),
            st.sampled_from(["", "=", " ", "=1", " 2", "=a100:2", " x y", "='", "=gpu:2", "=1-2"]),
        ),
        max_size=4,
    ),
    st.text(max_size=20),
)
def test_any_script_gives_a_task_or_problems(options: list[tuple[str, str]], body: str) -> None:
    """Never another error."""
    lines = [f"#SBATCH {name}{value}" for name, value in options]
    messages = ["none"]
    try:
        read_sbatch("\n".join(["#!/bin/bash", *lines, body]))
    except SpecError as error:
        messages = [problem.message for problem in error.problems]
    assert all(messages)
