"""What can be read and not be run is refused in words; what can be run isn't."""

import pytest

from stellwerk.core.describe.support import TABLE, missing_secrets, unsupported
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.task import Task


def codes(text: str) -> list[str]:
    """The codes of everything that keeps a text's task from being run."""
    return [problem.code.removeprefix("unsupported/") for problem in unsupported(read_tasks(text))]


EXAMPLES = {
    "nothing-to-run": "name: x",
    "service": "service: {readiness_probe: /}\nrun: x",
    "pool": "pool: {workers: 1}\nsetup: x",
    "git-workdir": "workdir: {url: u}\nrun: x",
    "mount-target": "file_mounts: {/a/../etc: ./a}\nrun: x",
    "volumes": "volumes: {/a: v}\nrun: x",
    "image": "resources: {image_id: ami-0123}\nrun: x",
    "image-login": (
        "resources: {image_id: 'docker:x'}\nrun: x\nenvs: {SKYPILOT_DOCKER_USERNAME: a, "
        "SKYPILOT_DOCKER_PASSWORD: b, SKYPILOT_DOCKER_SERVER: c}"
    ),
    "hooks": "config: {hooks: [{run: y}]}\nrun: x",
    "event-callback": "event_callback: y\nrun: x",
    "secret-in-text": "secrets: {A: null}\nworkdir: $A/x\nrun: x",
    "accelerator-count": "resources: {accelerators: 'A100:1.5'}\nrun: x",
    "launcher": "resources: {labels: {stellwerk/launcher: mpi}}\nrun: x",
    "placement": "resources: {labels: {stellwerk/placement: p}}\nrun: x",
    "move-after": "resources: {labels: {stellwerk/move-after: 5m}}\nrun: x",
}


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line.code)
def test_every_line_of_the_table(line: object) -> None:
    """Each is met by an example that is refused for this alone, with a way out."""
    code = str(getattr(line, "code", ""))
    assert codes(EXAMPLES[code]) == [code]
    (problem,) = unsupported(read_tasks(EXAMPLES[code]))
    assert problem.message
    assert problem.help
    assert problem.path


def test_a_plain_task_can_be_run() -> None:
    """The keys of the first landing, with extras that change nothing about it."""
    text = """
name: a
workdir: .
num_nodes: 2
file_mounts: {/a: ./a, ~/b: 's3://b/c', /d: {name: d, source: ./d, mode: COPY}}
volumes: {/e: {host_path: /tmp}}
managed_secrets: [{F: {mount_path: ~/.f}}]
resources:
  cpus: 4+
  accelerators: {A100: 0.5, L4: 1}
  ports: 80
  use_spot: true
  job_recovery: failover
  autostop: 5
  image_id: docker:ubuntu:22.04
  labels: {stellwerk/launcher: auto, stellwerk/queue: q}
envs: {A: 1}
secrets: {B: x}
setup: s
run: echo $B
"""
    assert codes(text) == []
    assert codes("setup: only this") == []


def test_several_tasks() -> None:
    """The file as a whole is refused, and each task for its own reasons."""
    hooked = "config: {hooks: [{run: z}]}"
    assert codes(f"name: p\n---\nrun: x\n---\n{hooked}\nrun: y") == ["tasks", "hooks"]
    found = unsupported(read_tasks("run: x\n---\npool: {workers: 1}\nsetup: y"))
    assert [problem.path for problem in found] == ["", "tasks[1].pool"]


def test_missing_secrets() -> None:
    """A name without a value anywhere is told before anything is queued."""
    task = read_tasks("secrets: [secrets:A, secrets:B, secrets:C]\nrun: x", secrets={"C": "x"})
    assert isinstance(task, Task)
    (problem,) = missing_secrets(task, {"B"})
    assert (problem.code, problem.help) == ("secret/missing", "give it with `--secret A`")
    assert missing_secrets(task, ["A", "B"]) == []
