"""A remedy that says what to write is right: written so, the error is gone and no other comes.

Every key of a task file gets values of every wrong kind, every key is mistyped, every flag
and every `#SBATCH` option gets wrong values; whatever the help then gives literally is put in its
place.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from stellwerk.core.describe.sbatch import read_batch
from stellwerk.core.describe.support import unsupported
from stellwerk.core.describe.tasks import read
from stellwerk.core.model.errors import Problem, SpecError

HOLE = "@"
TEMPLATES = (
    "name: @",
    "workdir: @",
    "workdir: {url: @}",
    "workdir: {url: https://git.example/a.git, ref: @}",
    "num_nodes: @",
    "setup: @",
    "envs: {A: @}",
    "envs: @",
    "secrets: {A: @}",
    "secrets: @",
    "file_mounts: {/data: @}",
    "file_mounts: @",
    "file_mounts: {/data: {source: @}}",
    "file_mounts: {/data: {name: @}}",
    "file_mounts: {/data: {name: lab, mode: @}}",
    "file_mounts: {/data: {name: lab, store: @}}",
    "file_mounts: {/data: {name: lab, persistent: @}}",
    "volumes: {/data: @}",
    "volumes: {/data: {host_path: @}}",
    "volumes: {/data: {name: v, size: @}}",
    "inputs: @",
    "outputs: @",
    "event_callback: @",
    "config: @",
    "config: {hooks: @}",
    "config: {hooks: [{run: @}]}",
    "config: {hooks: [{run: x, events: @}]}",
    "config: {hooks: [{run: x, events: [@]}]}",
    "config: {hooks: [{run: x, timeout: @}]}",
    "service: @",
    "service: {readiness_probe: @}",
    "service: {readiness_probe: /, replicas: @}",
    "service: {readiness_probe: {path: @}}",
    "service: {readiness_probe: {path: /, timeout_seconds: @}}",
    "service: {readiness_probe: /, replica_policy: {min_replicas: @}}",
    "service: {readiness_probe: /, replica_policy: {min_replicas: 1, max_replicas: @}}",
    "pool: @",
    "pool: {workers: @}",
    "resources: @",
    *(
        f"resources: {{{key}: @}}"
        for key in (
            "cpus", "memory", "accelerators", "gpus", "disk_size", "disk_tier", "infra", "cloud",
            "region", "zone", "use_spot", "ports", "labels", "image_id", "autostop",
            "job_recovery", "priority", "priority_class", "instance_type", "accelerator_args",
            "network_tier", "local_disk", "max_hourly_cost", "volumes", "any_of", "ordered",
        )
    ),
    "resources: {accelerators: [@]}",
    "resources: {accelerators: {A100: @}}",
    "resources: {any_of: [{cpus: @}]}",
    "resources: {any_of: [{accelerators: @}]}",
    "resources: {job_recovery: {strategy: @}}",
    "resources: {job_recovery: {max_restarts_on_errors: @}}",
    "resources: {job_recovery: {recover_on_exit_codes: @}}",
    "resources: {autostop: {idle_minutes: @}}",
    "resources: {autostop: {wait_for: @}}",
    "resources: {autostop: {down: @}}",
    "resources: {ports: [@]}",
    "resources: {image_id: {docker: @}}",
    *(
        f"resources: {{labels: {{stellwerk/{name}: @}}}}"
        for name in (
            "priority", "queue", "gpu-memory", "time-limit", "checkpoint-grace", "launcher",
            "processes-per-node", "shell", "placement", "move-after", "notice", "abort-when",
            "setup-cache",
        )
    ),
)  # fmt: skip
VALUES = (
    "1", "0", "-1", "90", "9999999", "1.5", "0.5", "yes", "no", "true", "True", "null", "~", '""',
    "' '", "x", "X!", "a b", "64Q", "64 GB", "16+", "1:00", "12:30:00", "90s", "2026-01-01", "nan",
    ".inf", "1e400", "0x10", "0o17", "1_000", "A100", "A100:x", "A100:0", "a100:2", "H10O",
    "V1OO:8", "80GB", "24gb+", "[]", "[1]", "[x]", "{}", "{a: 1}", "{A100: yes}", "local/", "lokal",
    "k8", "aws/x/y/z", "/", "../x", "~/x", "/etc", "s4://b", "s3:/b", "http:", "docker:", "ubuntu",
    "mount", "cpoy", "s3x", "none", "auto", "torchrum", "snapshoot", "interactiv", "USR9@5m",
    "USR1@5x", "no-progress", "notfinite", "gpu-idle x", "requirements.txt /x", "failover",
    "jobs_and_shh", "50x", "1/2",
)  # fmt: skip
KEYS = re.compile(r"([A-Za-z_][A-Za-z_/-]{3,})(?=: )")
FLAGS = (
    "name", "num_nodes", "cpus", "memory", "gpus", "infra", "priority", "queue", "gpu_memory",
    "time_limit", "checkpoint_grace",
)  # fmt: skip
SBATCH = (
    "--time", "--mem", "--mem-per-cpu", "--cpus-per-task", "--nodes", "--ntasks", "--gres",
    "--gpus", "--gpus-per-node", "--signal", "--job-name", "--export", "--tmp", "--constraint",
)  # fmt: skip
MISTYPED_OPTIONS = ("--tim=1:00", "--memory=4G", "--jobname=a", "--cpu-per-task=2", "--gpu=1")

Read = Callable[[str], Sequence[Problem]]


def problems_of(text: str) -> Sequence[Problem]:
    """Everything that is wrong with a task file, refusals of what can't be run included."""
    try:
        task = read(text, file="t.yaml").task
    except SpecError as error:
        return error.problems
    return unsupported(task)


def problems_of_batch(text: str) -> Sequence[Problem]:
    """Everything that is wrong with a batch script."""
    try:
        read_batch(text, file="job.sh")
    except SpecError as error:
        return error.problems
    return ()


def literal(remedy: str) -> list[str]:
    """What a remedy says to write, word by word; a part in capitals stands for something else."""
    if match := re.match(r"write it in quotes: (\".*\")$", remedy, re.DOTALL):
        return [match[1]]
    if match := re.match(r"did you mean `([^`]+)`\?", remedy):
        return [match[1]]
    if match := re.match(r"(?:write|one of) (.*)", remedy, re.DOTALL):
        words = re.findall(r"`([^`]+)`", match[1])
        return [word for word in words if not re.search(r"(?:^|/)[A-Z]{4,}/|/[A-Z]{4,}$", word)]
    return []


def known(problems: Iterable[Problem]) -> set[tuple[str, str]]:
    """Problems by what they are and where."""
    return {(one.code, one.path) for one in problems}


def applied(text: str, problem: Problem, words: str, hole: str) -> str | None:
    """The text with the words where the problem is: instead of a key, or of the whole value."""
    lines = text.split("\n")
    line = lines[problem.line - 1]
    start = problem.column - 1
    key = re.match(r"[A-Za-z_0-9/-]+(?=:)", line[start:])
    if problem.code == "spec/unknown-field" and key:
        lines[problem.line - 1] = line[:start] + words + line[start + len(key[0]) :]
        return "\n".join(lines)
    if not line[start:].startswith(hole):
        return None
    lines[problem.line - 1] = line[:start] + words + line[start + len(hole) :]
    return "\n".join(lines)


def wrong_remedies(text: str, hole: str, read: Read) -> Iterator[str]:
    """What the remedies of a text promise and don't keep."""
    problems = read(text)
    for problem in problems:
        for words in literal(problem.help):
            mended = applied(text, problem, words, hole)
            if mended is None:
                continue
            left = known(read(mended))
            if (problem.code, problem.path) in left or left - known(problems):
                yield f"{text!r}: {problem} | {words!r} gives {sorted(map(str, read(mended)))}"


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_remedy_says_to_write_is_right(template: str) -> None:
    """For every value that a key can't have."""
    wrong = [
        said
        for value in VALUES
        for said in wrong_remedies(template.replace(HOLE, value) + "\nrun: x\n", value, problems_of)
    ]
    assert wrong == []


WHOLE = """\
name: a
num_nodes: 1
workdir: .
envs: {A: x}
secrets: {S: x}
file_mounts: {/data: {name: lab, store: s3, persistent: true, mode: COPY}}
config: {kubernetes: {}}
resources:
  accelerators: A100
  memory: 16
  disk_size: 100
  image_id: docker:ubuntu:24.04
  infra: local
  job_recovery: {strategy: failover, max_restarts_on_errors: 3, recover_on_exit_codes: [3]}
  autostop: {idle_minutes: 3, wait_for: jobs}
  labels: {stellwerk/time-limit: 2h, stellwerk/queue: q, stellwerk/checkpoint-grace: 5m}
  any_of: [{cpus: 4}, {use_spot: true}]
setup: x
run: x
"""


def test_the_whole_file_is_right() -> None:
    """Else the test below would prove little."""
    assert list(problems_of(WHOLE)) == []


@pytest.mark.parametrize(
    "key", list(KEYS.finditer(WHOLE)), ids=lambda key: f"{key[1]}-{key.start()}"
)
def test_a_mistyped_key_gets_the_right_one(key: re.Match[str]) -> None:
    """A letter is left out, doubled, or changes its place with the next one."""
    name, at = key[1], key.start()
    if name in {"kubernetes", "data"}:
        return  # what `sky` is set up with, and a path, may have any name
    middle = len(name) // 2
    for typo in (
        name[:middle] + name[middle + 1 :],
        name[:middle] + name[middle] + name[middle:],
        name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :],
    ):
        text = WHOLE[:at] + typo + WHOLE[at + len(name) :]
        if typo == name:
            continue
        problems = problems_of(text)
        [helped] = [one for one in problems if typo in one.message]
        assert helped.help == f"did you mean `{name}`?", typo
        assert not list(wrong_remedies(text, typo, problems_of))


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_gets_a_value_that_it_can_have(flag: str) -> None:
    """What the help says to write instead is right."""
    wrong = []
    for value in VALUES:
        problems = flag_problems(flag, value.strip("'\""))
        for problem in problems:
            for words in literal(problem.help):
                left = flag_problems(flag, words.strip('"'))
                if known(left) - known(problems) or problem.code in {one.code for one in left}:
                    wrong.append(f"--{flag} {value}: {problem} | {words}: {left}")
    assert wrong == []


def flag_problems(flag: str, value: str) -> Sequence[Problem]:
    """What is wrong with a flag's value."""
    try:
        read("run: x\n", overrides={flag: value})
    except SpecError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("option", [f"{option}=@" for option in SBATCH] + list(MISTYPED_OPTIONS))
def test_an_option_of_sbatch_gets_what_it_can_be(option: str) -> None:
    """Options and their values alike."""
    wrong = []
    for value in VALUES if option.endswith("@") else ["1"]:
        line = option.replace(HOLE, value)
        text = f"#!/bin/bash\n#SBATCH {line}\ntrue\n"
        problems = problems_of_batch(text)
        for problem in problems:
            for words in literal(problem.help):
                name, _, given = line.partition("=")
                mended = f"{words}={given}" if words.startswith("--") else f"{name}={words}"
                left = problems_of_batch(text.replace(line, mended))
                if known(left) - known(problems) or problem in left:
                    wrong.append(f"{line}: {problem} | {mended}: {[str(one) for one in left]}")
    assert wrong == []
