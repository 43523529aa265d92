"""`stw plan --fleet`: files alone are read, all that is wrong is told, no server is asked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.cli import output
from stellwerk.cli.terminal import Terminal
from stellwerk.core.place.changes import CHANGES
from tests.cli.conftest import Stw

FLEET = """
apiVersion: stellwerk/v1
kind: Cluster
name: big
driver: ssh
cpus: 8
memory: 64Gi
gpus: A100-80GB:2
costs: {usd_per_gpu_hour: {A100-80GB: 1.0}}
---
apiVersion: stellwerk/v1
kind: Cluster
name: small
driver: ssh
cpus: 8
memory: 32Gi
gpus: T4:1
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: gpu, namespace: lab}
spec: {}
"""
TRAIN = """
name: train
run: python train.py
resources:
  accelerators: A100-80GB:2
  labels: {stellwerk/placement: gpu, stellwerk/expected-runtime: 2h}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a fleet and a task; the terminal has 100 columns."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.yaml").write_text(FLEET)
    Path("train.yaml").write_text(TRAIN)
    monkeypatch.setattr(output, "terminal_of", lambda *_, **__: Terminal(True, False, True, 100))
    return tmp_path


def plan(stw: Stw, *arguments: str) -> list[str]:
    """What is said of a plan that comes about."""
    result = stw("plan", "--fleet", "fleet.yaml", *arguments)
    assert result.code == 0, result.err
    return result.lines


def test_the_answer_is_on_one_page(stw: Stw) -> None:
    """Where it goes, what that takes, every cluster, every rule with its change."""
    assert plan(stw, "train.yaml") == [
        "train  2 A100-80GB, ~2 h",
        "  policy: gpu; best is what has the highest sum of scores",
        "  -> big (2 A100-80GB): starts now, over in 2 h, 4 USD",
        "",
        "      CLUSTER  VERDICT  Balance x1  Steady x1    =",
        "  ->  big      chosen          100          0  100",
        "  refused:",
        "    small  has 1 T4, asked is 2 A100-80GB",
        "             -> a node with 2 A100-80GB",
    ]


def test_a_command_and_flags_do_for_a_file(stw: Stw) -> None:
    """As for `run`; without a placement it may go everywhere, and is over soonest."""
    lines = plan(stw, "--gpus", "T4:1", "--", "python", "x.py")
    assert lines[0].endswith("  1 T4, of unknown length")
    assert lines[1].startswith("  policy: no placement")
    assert lines[2] == "  -> small (1 T4): starts now, 0 USD"
    assert plan(stw, "train.yaml", "--gpus", "T4:1")[2].startswith("  -> small (1 T4)")


def test_tasks_of_one_name_are_told_apart(stw: Stw) -> None:
    """And the second waits for the first."""
    lines = plan(stw, "train.yaml", "train.yaml")
    assert "  -> big (2 A100-80GB): starts in 2 h, when train is over, over in 4 h, 4 USD" in lines
    assert any(line.startswith("train-2  ") for line in lines)


def test_a_task_that_goes_nowhere_says_what_would_do(stw: Stw) -> None:
    """The clusters with the fewest changes."""
    lines = plan(stw, "train.yaml", "--if", "taint big x:NoSelect")
    assert lines[0] == "if taint big x:NoSelect:"
    assert lines[1].startswith("  train leaves big and goes nowhere because big: tainted for 0 s")
    assert "  -> nowhere" in lines
    assert "     would do: big: tolerate x:NoSelect" in lines


def test_wide_shows_scores_and_numbers(stw: Stw) -> None:
    """Both views of the same candidates."""
    header = next(line for line in plan(stw, "train.yaml", "-o", "wide") if "CLUSTER" in line)
    assert all(word in header for word in ("Balance x1", "STARTS IN", "COST"))


def test_plain_characters_are_enough(stw: Stw, monkeypatch: pytest.MonkeyPatch) -> None:
    """No arrow, where a terminal hasn't got it."""
    plain = Terminal(True, False, False, 80)
    monkeypatch.setattr(output, "terminal_of", lambda *_, **__: plain)
    lines = plan(stw, "train.yaml", "--if", "lose big")
    assert "\n".join(lines).isascii()
    assert max(map(len, lines)) <= 80


def test_everything_wrong_is_told_at_once(stw: Stw) -> None:
    """In the fleet, in each task, on the command line; nothing is planned then."""
    Path("fleet.yaml").write_text(FLEET.replace("memory: 64Gi", "memry: 64Gi"))
    Path("bad.yaml").write_text("resorces: {}\n")
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml", "bad.yaml", "none.yaml")
    lines = result.err.splitlines()
    assert (result.code, result.out) == (2, "")
    assert [line.split("]")[0] for line in lines[:-1]] == [
        "error[spec/missing",
        "error[spec/unknown-field",
        "error[spec/unknown-field",
        "error[spec/unreadable",
    ]
    assert lines[-1] == "4 errors, nothing was planned (exit 2)"


def test_what_is_wrong_may_count_as_not_there(stw: Stw) -> None:
    """With `--lenient` the rest is planned on, and what is wrong is said all the same."""
    Path("fleet.yaml").write_text(FLEET.replace("memory: 32Gi", "memory: 32Xi"))
    strict = stw("plan", "--fleet", "fleet.yaml", "train.yaml")
    lenient = stw("plan", "--fleet", "fleet.yaml", "train.yaml", "--lenient")
    assert (strict.code, strict.out, lenient.code) == (2, "", 0)
    assert "  -> big (2 A100-80GB): starts now, over in 2 h, 4 USD" in lenient.lines
    assert "small" not in lenient.out
    assert lenient.err.splitlines()[0] == strict.err.splitlines()[0]
    record = stw("plan", "--fleet", "fleet.yaml", "train.yaml", "--lenient", "-o", "json")
    assert json.loads(record.out)["problems"][0]["code"] == "spec/value"


@pytest.mark.parametrize(
    ("change", "arguments", "expected"),
    [
        (
            "gpu,",
            ["--if", "lose bgi"],
            "error[if/change]  `lose bgi`: there is no cluster `bgi`; did",
        ),
        (
            "gpu,",
            ["--only", "bgi"],
            "error[fleet/cluster]  there is no cluster `bgi`; did you mean",
        ),
        ("gpu,", ["--at", "noon"], "error[usage/value]  `noon` is no moment  help: write `2026-"),
        (
            "gpv,",
            [],
            "error[fleet/placement]  train.yaml  there is no placement `gpv` in the fleet  ",
        ),
        ("gpu, stellwerk/data: imgs,", [], "error[data/unknown]  train.yaml  no data set `imgs`"),
    ],
)
def test_what_does_not_exist_is_told_with_what_does(
    change: str, arguments: list[str], expected: str, stw: Stw
) -> None:
    """One line each, exit code 2."""
    Path("train.yaml").write_text(TRAIN.replace("gpu,", change))
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml", *arguments)
    assert result.code == 2
    assert result.err.startswith(expected)


def test_options_of_fleets_need_one(stw: Stw) -> None:
    """And several files do."""
    result = stw("plan", "train.yaml", "train.yaml", "--if", "lose x", "--lenient")
    assert result.code == 2
    assert [line.partition("  help")[0] for line in result.err.splitlines()[:3]] == [
        "error[usage/arguments]  got unexpected words (train.yaml)",
        "error[usage/option]  `--if` is about a fleet",
        "error[usage/option]  `--lenient` is about a fleet",
    ]
    assert stw("plan", "--fleet", "fleet.yaml").err.startswith("error[usage/what]  no task to plan")


def test_the_changes_are_listed(stw: Stw) -> None:
    """Each with how it is written."""
    lines = stw("plan", "--if", "help").lines
    assert [line.split()[0] for line in lines] == list(CHANGES)


def test_nothing_of_a_server_is_loaded_or_started(files: Path) -> None:
    """Neither the server's parts nor its libraries, nor a file of its own."""
    probe = (
        "import atexit, sys; sys.argv = ['stw', 'plan', '--fleet', 'fleet.yaml', 'train.yaml']\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from stellwerk.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(files), "STELLWERK_HOME": str(files / "state"), "PATH": ""},
    )
    loaded = done.stderr.split()
    heavy = ("stellwerk.server", "stellwerk.engine", "stellwerk.store", "sqlalchemy", "litestar")
    assert not [name for name in heavy if name in loaded]
    assert "train  2 A100-80GB, ~2 h" in done.stdout
    assert not (files / "state").exists()


def test_a_policy_that_makes_no_sense_is_an_error_of_the_fleet_file(stw: Stw) -> None:
    """An expression that doesn't compile, with what may stand there."""
    selector = "{celSelector: {celExpressions: ['managedCluster.']}}"
    predicates = f"spec: {{predicates: [{{requiredClusterSelector: {selector}}}]}}"
    Path("fleet.yaml").write_text(FLEET.replace("spec: {}", predicates))
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml")
    assert result.code == 2
    place = f"fleet.yaml:{FLEET.count(chr(10))}:79"
    said = "placement lab/gpu: compilation failed"
    assert result.err.startswith(f"error[placement/spec]  {place}  {said}")


def test_a_fleet_without_a_cluster_is_none(stw: Stw) -> None:
    """Nothing could be said of it."""
    Path("fleet.yaml").write_text("")
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml")
    assert result.code == 2
    assert result.err.startswith("error[fleet/empty]  fleet.yaml  the fleet has no cluster")


def test_what_cannot_be_run_yet_can_be_planned(stw: Stw) -> None:
    """Of a service only its own mistakes are told."""
    service = TRAIN + "service: {readiness_probe: /, replicas: 1}\n"
    Path("train.yaml").write_text(service)
    assert plan(stw, "train.yaml")[0] == "train  1 replica with 2 A100-80GB"
    Path("train.yaml").write_text(service + "resorces: {}\n")
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml")
    assert [line.split("]")[0] for line in result.err.splitlines()[:-1]] == [
        "error[spec/unknown-field"
    ]


def test_only_looks_closely(stw: Stw) -> None:
    """What the numbers of a cluster rest on, and nothing of the others."""
    lines = plan(stw, "train.yaml", "--only", "big")
    told = "run 2 h (as given by stellwerk/expected-runtime) and be over in 2 h"
    assert lines[-2:] == [
        f"    it would start on big now, {told}",
        "    it would cost 4 USD on big",
    ]
    assert not any("small" in line for line in lines)


LEASE = """---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: big}
spec: {hubAcceptsClient: true, leaseDurationSeconds: 60}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: managed-cluster-lease, namespace: big}
spec: {leaseDurationSeconds: 60, renewTime: "2026-12-01T10:00:00.000000Z"}
"""


def test_a_cluster_that_is_silent_for_five_leases_gets_nothing(stw: Stw) -> None:
    """It has the taint that a hub would give it, from the moment when the time is over."""
    Path("fleet.yaml").write_text(FLEET + LEASE)
    before = plan(stw, "train.yaml", "--at", "2026-12-01T10:04:59Z")
    assert any("-> big" in line for line in before)
    after = " ".join(" ".join(plan(stw, "train.yaml", "--at", "2026-12-01T10:06:00Z")).split())
    assert "-> nowhere" in after
    assert "tainted for 1 min" in after
    assert "tolerate cluster.open-cluster-management.io/unreachable:NoSelect" in after


def test_a_cluster_that_is_said_to_be_away_gets_nothing_until_it_is_tolerated(stw: Stw) -> None:
    """An administrator's word counts like that of the hub, and a change may ask without it."""
    Path("fleet.yaml").write_text(FLEET.replace("name: big", "name: big\navailable: false"))
    assert any("-> nowhere" in line for line in plan(stw, "train.yaml"))
    taint = "cluster.open-cluster-management.io/unavailable"
    for change in (f"untaint big {taint}", f"tolerate {taint}:NoSelect"):
        assert any("-> big" in line for line in plan(stw, "train.yaml", "--if", change))


RANKED = """
apiVersion: stellwerk/v1
kind: Cluster
name: told
cpus: 8
memory: 64Gi
labels: {kind: old}
claims: {owner: lab}
scores: {carbon: {clean: -50}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: told, labels: {kind: new}}
---
apiVersion: stellwerk/v1
kind: Cluster
name: silent
cpus: 8
memory: 64Gi
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: green, namespace: lab}
spec:
  prioritizerPolicy:
    mode: Exact
    configurations:
    - weight: 1
      scoreCoordinate: {type: AddOn, addOn: {resourceName: carbon, scoreName: clean}}
"""


def test_more_points_that_rest_on_less_are_told_as_what_they_are(stw: Stw) -> None:
    """One of which a score is unknown comes later however many points it has, and that is said."""
    Path("fleet.yaml").write_text(RANKED)
    Path("train.yaml").write_text("run: x\nresources: {labels: {stellwerk/placement: lab/green}}\n")
    sentence = "told before silent: AddOn/carbon/clean of silent is unknown, and what is unknown"
    lines = " ".join(" ".join(plan(stw, "train.yaml", "--only", "silent")).split())
    assert lines.count(sentence) == 2
    assert "points" not in lines.replace("sum", "")


def test_what_two_documents_say_differently_is_told_once(stw: Stw) -> None:
    """One note for one contradiction."""
    Path("fleet.yaml").write_text(RANKED)
    Path("train.yaml").write_text("run: x\n")
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml")
    notes = [line for line in (result.out + result.err).splitlines() if "labels.kind" in line]
    assert len(notes) == 1, notes
    assert "is said differently" in notes[0]


def test_placements_that_no_task_names_are_checked_too(stw: Stw) -> None:
    """Each expression that doesn't compile, with its line in the fleet file."""
    broken = """---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: other}
spec:
  predicates:
  - requiredClusterSelector:
      celSelector:
        celExpressions:
        - "true"
        - managedCluster.nonsense(
"""
    Path("fleet.yaml").write_text(FLEET + broken)
    line = FLEET.count("\n") + 11
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml")
    assert result.code == 2
    assert f"error[placement/spec]  fleet.yaml:{line}:11  placement default/other: " in result.err
    ocm = broken.replace("{name: other}", "{name: other, annotations: {stellwerk/compat: ocm}}")
    Path("fleet.yaml").write_text(FLEET + ocm)
    (note,) = json.loads("".join(plan(stw, "train.yaml", "-o", "json")))["notes"]
    assert note.startswith(f"fleet.yaml:{line}: placement default/other: compilation failed")
