"""Task files: what each key means, what is wrong with it and where, all of it at once."""

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


def test_all_problems_at_once() -> None:
    """Five faults in one file are five lines, in the order of the file."""
    text = """\
name: ../x
resources:
  acelerators: A100
  memory: 16XB
  cpus: many
envs: {1A: x}
run: [a]
"""
    assert [line.split("  ")[:2] for line in refused(text)] == [
        ["error[spec/name]", "f.yaml:1:7"],
        ["error[spec/unknown-field]", "f.yaml:3:3"],
        ["error[spec/value]", "f.yaml:4:11"],
        ["error[spec/value]", "f.yaml:5:9"],
        ["error[spec/env-name]", "f.yaml:6:8"],
        ["error[spec/type]", "f.yaml:7:6"],
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "resources: {acelerators: A100}\nrun: x",
            ("error[spec/unknown-field]  f.yaml:1:13  unknown field `acelerators`"
            "  help: did you mean `accelerators`?"),
        ),
        (
            "accelerators: A100\nrun: x",
            ("error[spec/unknown-field]  f.yaml:1:1  unknown field `accelerators`"
            "  help: `accelerators` stands under `resources`"),
        ),
        (
            "command: x",
            ("error[spec/unknown-field]  f.yaml:1:1  unknown field `command`"
            "  help: did you mean `run`?"),
        ),
        (
            "name: 12\nrun: x",
            ("error[spec/type]  f.yaml:1:7  `name` takes text, not `12`"
            '  help: write it in quotes: "12"'),
        ),
        (
            "resources: {infra: aws, cloud: aws, region: x}\nrun: x",
            ("error[spec/infra]  f.yaml:1:13  `infra` and `cloud` can't be given together"
            "  help: keep `infra`: it says all of `cloud`, `region`"),
        ),
        (
            "resources: {infra: kubernets}\nrun: x",
            ("error[spec/infra]  f.yaml:1:20  `kubernets` is no kind of infrastructure"
            "  help: did you mean `kubernetes`?"),
        ),
        (
            "envs: {A: null}\nrun: x",
            ("error[spec/env-missing]  f.yaml:1:8  the variable `A` has no value"
            '  help: give it with `--env A=VALUE`, or write `A: ""` for an empty one'),
        ),
        (
            "file_mounts: {data: ./data}\nrun: x",
            ("error[spec/mount]  f.yaml:1:15  the target `data` is neither absolute nor below `~`"
            "  help: write `~/data` or an absolute path"),
        ),
        (
            "resources: {labels: {stellwerk/time-limit: '2'}}\nrun: x",
            ("error[spec/value]  f.yaml:1:44  `resources.labels.stellwerk/time-limit: 2` "
            "has no unit  help: write `2m` for minutes, `2h` for hours"),
        ),
        (
            "resources: {labels: {stellwerk/gpu-memry: 2GB}}\nrun: x",
            ("error[spec/unknown-field]  f.yaml:1:22  unknown field `stellwerk/gpu-memry`"
            "  help: did you mean `stellwerk/gpu-memory`?"),
        ),
        ("", "error[spec/empty]  f.yaml:1:1  the file holds no task  help: add `run:`"),
        ("- a", "error[spec/type]  f.yaml:1:1  this takes a map of keys and values"),
        ("just text", "error[spec/type]  f.yaml:1:1  this takes a map of keys and values"),
    ],
)  # fmt: skip
def test_messages(text: str, line: str) -> None:
    """Code, place, what, remedy: word for word."""
    assert refused(text) == [line]


@pytest.mark.parametrize(
    "text",
    [
        "num_nodes: -1",
        "num_nodes: 1.5",
        "num_nodes: '2'",
        "resources: {cpus: true}",
        "resources: {cpus: [4]}",
        "resources: {use_spot: 'yes'}",
        "resources: {ports: [80, [81]]}",
        "resources: {ports: 90-80}",
        "resources: {labels: {a: 1}}",
        "resources: {accelerators: 5}",
        "resources: {accelerators: {}}",
        "resources: {accelerators: {A100: true}}",
        "resources: {autostop: {idle: 5}}",
        "resources: {autostop: 2x}",
        "resources: {job_recovery: {strategi: failover}}",
        "resources: {job_recovery: {recover_on_exit_codes: [1, 1]}}",
        "resources: {disk_size: 1.5}",
        "resources: {any_of: [{any_of: []}]}",
        "resources: {any_of: {cpus: 4}}",
        "resources: {local_disk: floppy}",
        "resources: {max_hourly_cost: .nan}",
        "resources: [cpus]",
        "envs: [A]",
        "secrets: text",
        "managed_secrets: {A: null}",
        "managed_secrets: [[A]]",
        "secrets: {my-token: x}",
        "workdir: {ref: main}",
        "workdir: ''",
        "file_mounts: {/a: 5}",
        "file_mounts: {/a: 'ftp://x/y'}",
        "file_mounts: {'s3://a': /b}",
        "file_mounts: {/a: {name: '../x'}}",
        "file_mounts: {/a: {name: s3://x}}",
        "file_mounts: {/a: {name: b, source: []}}",
        "file_mounts: {/a: {name: b, source: [x/y, z/y]}}",
        "file_mounts: {/a: {name: b, config: {mount_cached: {transfers: 0}}}}",
        "{workdir: ., file_mounts: {~/sky_workdir: x}}",
        "volumes: {data: v}",
        "volumes: {/data: {}}",
        "volumes: {/data: {name: v, size: 1Gi}}",
        "volumes: {/data: {name: v, sub_path: ../x}}",
        "volumes: {/data: {host_path: /}}",
        "config: {hooks: [{events: [stop]}]}",
        "config: {hooks: [{run: x, events: [start]}]}",
        "config: {hooks: [{run: x, events: []}]}",
        "config: {kubernets: {}}",
        "event_callback: [x]",
        "inputs: {a: 1, b: 2}",
        "service: {}\npool: {workers: 1}",
        "service: {readiness_probe: health}",
        "service: {readiness_probe: {timeout_seconds: 1}}",
        "service: {readiness_probe: {path: /, post_data: '{'}}",
        "service: {replicas: 1, replica_policy: {min_replicas: 1}}",
        "service: {replica_policy: {max_replicas: 2}}",
        "service: {replica_policy: {min_replicas: 3, max_replicas: 2}}",
        "service: {tls: {keyfile: x}}",
        "service: {pool: {workers: 1}}",
        "service: {load_balancing_policy: instance_aware_least_load}",
        "pool: {workers: -1}",
        "pool: {min_workers: 3, max_workers: 2}",
        "pool: {}",
        "execution: parallel",
        "resources: {labels: {stellwerk/notice: KILL}}",
        "resources: {labels: {stellwerk/abort-when: sometimes}}",
        "resources: {labels: {stellwerk/abort-when: no-progress}}",
        "resources: {labels: {stellwerk/launcher: slurm}}",
        "resources: {labels: {stellwerk/priority: '2000'}}",
        "resources: {labels: {stellwerk/queue: '../x'}}",
        "resources: {labels: {stellwerk/time-limit: 0h}}",
        "resources: {any_of: [{labels: {stellwerk/queue: a}}, {labels: {stellwerk/queue: b}}]}",
        "resources: {any_of: [{job_recovery: failover}, {job_recovery: eager_next_region}]}",
    ],
)
def test_refused(text: str) -> None:
    """Each of these is one mistake, found at its line and said in a sentence."""
    found = refused(f"run: x\n{text}" if not text.startswith("{") else text)
    assert len(found) == 1, found
    assert "f.yaml:" in found[0]


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
    (line,) = refused(text)
    assert line.startswith(f"error[{code}]")


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
        assert problem.code.startswith(("spec/", "sbatch/"))
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
