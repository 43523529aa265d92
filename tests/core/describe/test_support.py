"""What can be read and not be run is refused in words; what can be run isn't."""

from typing import Any

import pytest

from stellwerk.core.describe.support import TABLE, missing_secrets, unsupported
from stellwerk.core.describe.tasks import read, read_tasks
from stellwerk.core.model.errors import SpecError
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
    "processes": (
        "resources: {labels: {stellwerk/launcher: processes}, "
        "any_of: [{accelerators: 'A100:2'}, {accelerators: 'A100:4'}]}\nrun: x"
    ),
    "wishes": "resources: {labels: {stellwerk/spread: zone}}\nrun: x",
    "prewarm": "resources: {labels: {stellwerk/prewarm: 'yes'}}\nrun: x",
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


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("workdir: {url: 1}\nrun: x", "git-workdir", (1, 1)),
        ("event_callback: [x]\nrun: x", "event-callback", (1, 1)),
        ("run: x\nconfig:\n  hooks: [{run: 1}]", "hooks", (3, 3)),
        ("run: x\nservice: {readiness_probe: health}", "service", (2, 1)),
        ("run: x\npool: {wrokers: 1}", "pool", (2, 1)),
        ("run: x\nvolumes: {/data: 1}", "volumes", (2, 1)),
        ("run: x\nresources:\n  image_id: 1", "image", (3, 3)),
        ("run: x\nresources: {labels: {stellwerk/move-after: 1}}", "move-after", (2, 22)),
    ],
)
def test_a_refusal_is_told_with_the_faults_of_what_is_refused(
    text: str, code: str, place: tuple[int, int]
) -> None:
    """Nobody has to mend first what can't be run anyway; its key is the place."""
    with pytest.raises(SpecError) as caught:
        read(text, file="f.yaml")
    [refusal] = [one for one in caught.value.problems if one.code.startswith("unsupported/")]
    assert (refusal.code, refusal.line, refusal.column) == (f"unsupported/{code}", *place)
    assert len(caught.value.problems) > 1


def test_a_refused_target_is_named() -> None:
    """Among several the one that it is about."""
    found = read("run: x\nfile_mounts: {/data: /tmp, /proc/x: /tmp, ~/../x: /tmp}").refusals
    assert [one.message for one in found] == [
        "nothing of a job's own can be put at `/proc/x`, `~/../x`"
    ]
    assert (found[0].line, found[0].column) == (2, 1)


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line.code)
def test_every_refusal_says_what_to_do_instead(line: Any) -> None:
    """In a sentence that begins with a verb, and names something to write, call or remove."""
    first = line.help.split()[0]
    assert first in {"add", "remove", "clone", "use", "give", "name", "log", "write"}
