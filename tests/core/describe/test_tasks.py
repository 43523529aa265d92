"""Task files: what keys, labels, variables and secrets mean, and that no text breaks the reader."""

import time
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stellwerk.core.describe.environment import LARGEST_VALUE
from stellwerk.core.describe.resources import RESOURCE_KEYS
from stellwerk.core.describe.task import TASK_KEYS
from stellwerk.core.describe.tasks import (
    Reading,
    local_workdir,
    read,
    read_command,
    read_tasks,
    workdir_of,
)
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.task import Dag, SecretRef, Task


def task(text: str, **flags: Any) -> Task:
    """The one task of a text."""
    found = read_tasks(text, file="f.yaml", **flags)
    assert isinstance(found, Task)
    return found


def refused(text: str, **flags: Any) -> list[str]:
    """The problems of a text, as a terminal shows them."""
    with pytest.raises(SpecError) as caught:
        read(text, file="f.yaml", **flags)
    return [str(problem) for problem in caught.value.problems]


def test_extras_from_labels() -> None:
    """Labels `stellwerk/…` become fields of the task, and stay labels for `sky`."""
    found = task("""
resources:
  priority: 3
  labels:
    team: nlp
    stellwerk/priority: "-5"
    stellwerk/queue: ml
    stellwerk/gpu-memory: 18GB
    stellwerk/time-limit: 1d12h
    stellwerk/checkpoint-grace: 90s
    stellwerk/idle-limit: 1h
    stellwerk/launcher: torchrun
    stellwerk/shell: interactive
    stellwerk/placement: lab-only
    stellwerk/move-after: 10m
    stellwerk/notice: TERM, SIGUSR1@5m
    stellwerk/abort-when: not-finite loss, no-progress 30m, gpu-idle 1h
run: x
""")
    assert (found.priority, found.queue, found.gpu_memory_bytes) == (-5, "ml", 18 * GIB)
    assert (found.time_limit_ms, found.checkpoint_grace_ms) == (36 * 3_600_000, 90_000)
    assert found.idle_limit_ms == 3_600_000
    assert (found.launcher, found.shell, found.placement) == ("torchrun", "interactive", "lab-only")
    assert found.move_after_ms == 600_000
    assert [(s.signal, s.lead_ms) for s in found.notice_signals] == [("USR1", 300_000), ("TERM", 0)]
    kinds = [(rule.kind, rule.metric, rule.for_ms) for rule in found.abort_when]
    assert kinds == [
        ("not-finite", "loss", None),
        ("no-progress", None, 1_800_000),
        ("gpu-idle", None, 3_600_000),
    ]
    assert found.labels["team"] == "nlp"
    assert found.labels["stellwerk/queue"] == "ml"


def test_priority_without_a_label() -> None:
    """SkyPilot's own key gives the priority of the task."""
    assert task("resources: {any_of: [{cpus: 1}, {cpus: 2, priority: 7}]}\nrun: x").priority == 7
    assert task("resources: {priority_class: high}\nrun: x").priority_class == "high"
    by_name = task("resources: {labels: {stellwerk/priority: high}}\nrun: x")
    assert (by_name.priority, by_name.priority_class) == (None, "high")


def test_what_has_no_effect_is_named() -> None:
    """Cloud-only keys are accepted, and told with their places."""
    found = task("resources:\n  disk_tier: high\n  autostop: 5\ninputs: {s3://x: 1}\nrun: x")
    assert [(n.path, n.line) for n in found.ignored] == [
        ("inputs", 4),
        ("resources.disk_tier", 2),
        ("resources.autostop", 3),
    ]


def test_an_unknown_card_is_told() -> None:
    """It isn't an error: a cluster may have it under this very name."""
    found = task("resources: {accelerators: A10O}\nrun: x")
    assert found.resources[0].accelerators == {"A10O": 1}
    assert found.notices[0].code == "spec/unknown-accelerator"


def test_a_value_left_unfilled_is_told() -> None:
    """A slip in the name of a variable is seen before a bucket of that name is made."""
    found = task("envs: {CKPT: x}\nfile_mounts: {/a: $CKTP}\nrun: x")
    assert found.file_mounts == {"/a": "$CKTP"}
    assert (found.notices[0].code, found.notices[0].help) == (
        "spec/unfilled",
        "did you mean `CKPT`?",
    )


def test_secrets_keep_out_of_task_text_and_messages() -> None:
    """Values travel apart; the text to be stored has them blanked; names are enough."""
    text = "envs: {A: 1}\nsecrets:\n  TOKEN: tOp-SeCrEt # mine\n  OTHER: null\nrun: x\n"
    found = read(text, secrets={"OTHER": "oTh3r"})
    assert found.secrets == ({"TOKEN": "tOp-SeCrEt", "OTHER": "oTh3r"},)
    assert isinstance(found.task, Task)
    assert found.task.secrets == ("TOKEN", "OTHER")
    assert found.task.notices[0].code == "spec/secret-inline"
    assert "tOp-SeCrEt" not in found.text
    assert "TOKEN: null # mine" in found.text
    stored = msgspec.json.encode(found.task).decode() + repr(found.task)
    assert "tOp-SeCrEt" not in stored
    assert "oTh3r" not in stored


def test_secrets_behind_an_anchor_make_the_text_unfit_to_be_stored() -> None:
    """Rather no text than one with the value, or one that no longer reads."""
    found = read("secrets: {A: &x s3cret}\nenvs: {B: *x}\nrun: x")
    assert found.text == ""


def test_secrets_are_never_filled_in() -> None:
    """What is filled in gets stored and shown."""
    found = task("secrets: {T: abc}\nworkdir: {url: 'https://$T@host/r'}\nrun: x")
    assert "abc" not in repr(found)
    assert found.notices[-1].code == "spec/unfilled-secret"


def test_references_of_secrets() -> None:
    """A scope and a path at which the secret is to appear are kept."""
    found = task(
        "secrets: [secrets:personal.A]\nmanaged_secrets: [{A: {mount_path: /x}}, global.B]\nrun: x"
    )
    assert found.managed_secrets == (SecretRef("A", "personal", "/x"), SecretRef("B", "global"))


def test_which_devices_a_run_sees_is_nobodys_to_say() -> None:
    """What it was given lies over such a variable, so its author is told, with the place."""
    found = task("envs: {A: 1, CUDA_VISIBLE_DEVICES: 0}\nrun: x")
    told = [(one.code, one.path, one.line, one.column) for one in found.notices]
    assert told == [("spec/env-devices", "envs.CUDA_VISIBLE_DEVICES", 1, 14)]
    assert not task("envs: {A: 1}\nrun: x").notices


def test_an_env_value_that_no_program_can_be_given() -> None:
    """Refused with its size, without its content, from the file and from a flag alike."""
    large = "v" * LARGEST_VALUE
    (line,) = refused(f"envs: {{A: {large}}}\nrun: x")
    assert "128 KiB" in line
    assert "vvvv" not in line
    (line,) = refused("run: x", env={"A": "v" * 1_000_000})
    assert line.startswith("error[spec/env-size]  the value of `A` has 977 KiB")
    (line,) = refused("secrets: {A: null}\nrun: x", secrets={"A": large})
    assert "vvvv" not in line
    assert task("run: x", env={"A": "v" * (LARGEST_VALUE - 3)}).envs["A"]


def test_filling_in_is_bounded() -> None:
    """A large value used many times doesn't make a text that nobody can hold."""
    uses = "$A" * 10_000
    began = time.process_time()
    (line,) = refused(f"envs: {{A: {'v' * 100_000}}}\nworkdir: {uses}\nrun: x")
    assert "larger than 4 MiB" in line
    assert time.process_time() - began < 0.5


def test_keys_that_become_equal_when_filled_in() -> None:
    """Two targets that are one place are a duplicate."""
    (line,) = refused("envs: {A: x}\nfile_mounts: {/x: ./a, /$A: ./b}\nrun: x")
    assert "spec/duplicate-key" in line


def test_workdir_for_the_client() -> None:
    """Whoever packs asks for the folder alone, with its variables filled in."""
    assert workdir_of("workdir: $D/x\nenvs: {D: null}", env={"D": "here"}) == "here/x"
    assert workdir_of("workdir: {url: u}\nrun: x") is None
    assert workdir_of("run: x") is None
    assert workdir_of("a: 1\n---\nb: 2") is None
    assert workdir_of("- list") is None
    with pytest.raises(SpecError):
        workdir_of("a: b: c")
    assert local_workdir(task("workdir: .\nrun: x")) == "."
    assert local_workdir(task("workdir: {url: u}\nrun: x")) is None


def test_a_command_is_a_task() -> None:
    """Its words come through bash unchanged; flags and variables hold as in a file."""
    found = read_command(["python", "a b.py", "$X"], env={"A": "1"}, overrides={"gpus": "A100"})
    assert isinstance(found.task, Task)
    assert found.task.run == "python 'a b.py' '$X'"
    assert found.task.envs == {"A": "1"}
    assert found.task.resources[0].accelerators == {"A100": 1}
    for argv in ([], ["a\0b"]):
        with pytest.raises(SpecError):
            read_command(argv)


def test_documents() -> None:
    """A header names a pipeline; with one task behind it, it names that task."""
    found = read_tasks("name: p\n---\nname: a\nrun: x\n---\nname: b\nrun: y\n---\n")
    assert isinstance(found, Dag)
    assert (found.name, [one.name for one in found.tasks]) == ("p", ["a", "b"])
    assert task("name: p\n---\nrun: x").name == "p"
    assert task("name: alone").name == "alone"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("name: g\nexecution: parallel\nrun: x\n---\nname: a\nrun: x", "spec/unknown-field"),
        ("execution: parallel\n---\nname: a\nrun: x", "spec/group"),
        ("name: g\nexecution: parallel\n---\nname: a.b\nrun: x", "spec/group"),
        ("name: g\nexecution: parallel\n---\nname: a\n---\nname: a", "spec/group"),
        ("name: g\nprimary_tasks: [a]\n---\nname: a\nrun: x", "spec/group"),
        ("name: g\nexecution: parallel\ntermination_delay: {b: 1s}\n---\nname: a", "spec/group"),
        ("name: g\nexecution: parallel\ntermination_delay: soon\n---\nname: a", "spec/value"),
    ],
)
def test_groups_refused(text: str, code: str) -> None:
    """Each of these is one mistake in a file of several tasks."""
    (line, *others) = refused(text)
    if line.startswith("error[unsupported/"):
        line, *others = *others, line
    assert line.startswith(f"error[{code}]")
    assert all(other.startswith("error[unsupported/tasks]") for other in others)


def test_a_usual_file_is_quick() -> None:
    """Less than 3 ms of work for a file as people write it."""
    text = """
name: lora
workdir: .
resources: {accelerators: "RTX4090:1", cpus: 4+, memory: 16+}
envs: {MODEL: bert, EPOCHS: 3, LR: 2e-5}
secrets: {HF_TOKEN: null}
file_mounts: {/data: {source: "s3://x", mode: COPY}}
setup: pip install -r requirements.txt
run: python train.py
"""
    read_tasks(text)
    began = time.process_time()
    for _ in range(20):
        read_tasks(text)
    assert (time.process_time() - began) / 20 < 0.003


def check_problems(error: SpecError) -> None:
    """Every problem says something, has a code, and fits on a few lines."""
    for problem in error.problems:
        assert problem.code.startswith(("spec/", "unsupported/"))
        assert 0 < len(problem.message) < 400
        assert len(problem.help) < 400


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.text("abAB$/~:.-_0+ ", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc/~$", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
sensible = st.sampled_from(
    ["A100:2", "24GB+:2", "4+", "16GB+", "k8s/x", "s3://b", "/x", "~/x", "30m", "$A", "failover"]
)
values = json_values | sensible
resource_maps = st.dictionaries(
    st.sampled_from(RESOURCE_KEYS), values | st.lists(values, max_size=2), max_size=4
)
task_maps = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(TASK_KEYS, values),
        "resources": resource_maps | values,
        "envs": st.dictionaries(st.sampled_from(["A", "B", "1"]), values, max_size=2),
        "file_mounts": st.dictionaries(st.sampled_from(["/a", "~/b", "c"]), values, max_size=2),
        "service": st.dictionaries(
            st.sampled_from(["readiness_probe", "replica_policy", "replicas", "ports"]), values
        ),
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(task_maps | st.just({"name": "p"}), min_size=1, max_size=2))
def test_any_map_of_known_keys_gives_a_task_or_problems(documents: list[dict[str, Any]]) -> None:
    """Never another error; what is read survives the way through JSON."""
    text = yaml.safe_dump_all(documents)
    try:
        found = read(text, env={"B": "x"}, overrides={"cpus": "2"})
    except SpecError as error:
        check_problems(error)
        return
    assert isinstance(found, Reading)
    coded = msgspec.json.encode(found.task)
    assert msgspec.json.decode(coded, type=Task | Dag) == found.task


@given(st.text(max_size=200))
def test_any_text_gives_a_task_or_problems(text: str) -> None:
    """Never another error."""
    for reader in (read_tasks, workdir_of):
        try:
            reader(text)
        except SpecError as error:
            check_problems(error)
