"""What is wrong in a task file is said at once, each fault with its place and a remedy."""

import pytest

from stellwerk.core.describe.tasks import read
from stellwerk.core.model.errors import SpecError


def refused(text: str) -> list[str]:
    """The problems of a text, as a terminal shows them."""
    with pytest.raises(SpecError) as caught:
        read(text, file="f.yaml")
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
        (
            "apiVersion: stellwerk/v1\nkind: Cluster\nname: a\ncpus: 4\n---\nkind: Model",
            ("error[spec/no-task]  f.yaml:1:1  this is no task file: objects with `apiVersion` and "
            "`kind` describe a fleet  help: `stw plan --fleet FLEET.yaml TASK.yaml` plans a task "
            "on the fleet of such a file"),
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
        "resources: {labels: {stellwerk/setup-cache: ../uv.lock}}",
        "resources: {labels: {stellwerk/setup-cache: auto uv.lock}}",
        "resources: {labels: {stellwerk/setup-cache: ' '}}",
        "resources: {labels: {stellwerk/abort-when: no-progress}}",
        "resources: {labels: {stellwerk/launcher: pbs}}",
        "resources: {labels: {stellwerk/priority: '2000'}}",
        "resources: {labels: {stellwerk/queue: '../x'}}",
        "resources: {labels: {stellwerk/time-limit: 0h}}",
        "resources: {any_of: [{labels: {stellwerk/queue: a}}, {labels: {stellwerk/queue: b}}]}",
        "resources: {any_of: [{job_recovery: failover}, {job_recovery: eager_next_region}]}",
    ],
)
def test_refused(text: str) -> None:
    """Each of these is one mistake, found at its line and said in a sentence."""
    told = refused(f"run: x\n{text}" if not text.startswith("{") else text)
    found = [line for line in told if not line.startswith("error[unsupported/")]
    assert len(found) == 1, found
    assert "f.yaml:" in found[0]
