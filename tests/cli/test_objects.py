"""`stw apply`, `get`, `diff`, `delete`, `quota`, `queues`: what people read of objects."""

import json
from pathlib import Path

import pytest

from stellwerk.cli.kinds import ALIASES, kinds_of, named, wanted_of
from stellwerk.cli.render.objects import change_lines, consequence_lines
from stellwerk.cli.render.quota import quota_lines
from stellwerk.cli.terminal import Terminal
from stellwerk.client.queueing import (
    Consequences,
    FieldOf,
    Moved,
    ObjectChange,
    OverQuota,
    PairOf,
    QuotaRow,
)
from stellwerk.core.describe.applied import OBJECT_KINDS
from stellwerk.core.model.errors import StellwerkError
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer

VISION = {"kind": "ClusterQueue", "name": "vision", "change": "configured"}
WHOLE = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
SCREEN = Terminal(is_tty=True, colour=False, unicode=True, width=100)


def applied(*objects: dict[str, object]) -> dict[str, object]:
    """The server's answer to a file of queues."""
    return {"name": "q.yaml", "objects": list(objects)}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file; the fake server doesn't read it."""
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("kind: ClusterQueue\n")
    return "q.yaml"


def test_kinds_have_the_names_that_people_use() -> None:
    """As with kubectl: short, plural, in any case, with a group behind."""
    told = {word: kinds_of(word) for word in ("cq", "Flavors", "lq", "cohorts.kueue.x-k8s.io")}
    assert [kinds[0] for kinds in told.values()] == [
        "ClusterQueue", "ResourceFlavor", "LocalQueue", "Cohort",
    ]  # fmt: skip
    assert kinds_of("priorityclass") == ["WorkloadPriorityClass", "PriorityClass"]
    assert set(OBJECT_KINDS) < set(ALIASES) == set(kinds_of("all"))
    with pytest.raises(StellwerkError, match="did you mean `topology`"):
        kinds_of("topolgy")
    with pytest.raises(StellwerkError, match="stw ps"):
        kinds_of("pods")
    assert wanted_of(("cq/a", "cq/b")) == (["ClusterQueue"], ["a", "b"])
    assert wanted_of(("cq,lq",)) == (["ClusterQueue", "LocalQueue"], [])
    with pytest.raises(StellwerkError):
        wanted_of(("cq/a", "lq/b"))
    assert named("LocalQueue", "cv/main", "").path == "cv/main"
    assert named("LocalQueue", "main", "cv").path == "cv/main"
    assert named("Cohort", "lab", "cv").path == "lab"


def test_changes_are_told_as_kubectl_tells_them() -> None:
    """With the fields that change; many that stay as they are are counted."""
    fields = [FieldOf("spec.a", "4", "8"), FieldOf("spec.b", "", "1"), FieldOf("spec.c", "2", "")]
    changed = ObjectChange("ClusterQueue", "vision", change="configured", fields=fields)
    same = [ObjectChange("LocalQueue", str(n), "cv", "unchanged") for n in range(30)]
    assert change_lines([changed, *same], dry_run=False) == [
        "clusterqueue/vision configured",
        "  spec.a: 4 -> 8",
        "  spec.b: 1 (new)",
        "  spec.c: 2 (removed)",
        "30 objects unchanged",
    ]
    assert change_lines(same[:1], dry_run=True) == ["localqueue/cv/0 would be unchanged"]
    many = [ObjectChange("Cohort", str(n), change="created") for n in range(105)]
    assert change_lines(many, dry_run=True)[-1] == "and 5 objects more would be created"


def test_consequences_are_told_with_names_and_numbers() -> None:
    """Who starts or waits otherwise, and what is over quota then; or that nothing follows."""
    moved = Moved("train", "vision", "waits", "starts now", "", "too little", others=2)
    over = OverQuota("lab", "cohort", "a100", "cpu", "3", "2")
    assert consequence_lines(Consequences([moved], 4, [over])) == [
        "live work for which this matters at once:",
        "  train in vision and 2 more like it: waits (too little) -> starts now",
        "  and 4 workloads more",
        "over quota; what runs goes on, and nothing more starts until it is within:",
        "  cohort lab: uses 3 cpu in a100, could have 2",
    ]
    assert len(consequence_lines(Consequences())) == 1


def test_the_quota_tree_is_drawn() -> None:
    """Branches on a terminal, and each line whole where it is read by a program."""
    cpu = PairOf("a100", "cpu", "2", "2", "3", "1", "0", "1", "", 1.5)
    gpu = PairOf("a100", "gpu", "4", "4", "1", "0", "3", "", "2", 0.25)
    rows = [
        QuotaRow("lab", "cohort", 0),
        QuotaRow("deep", "cohort", 1, "lab", pairs=[gpu]),
        QuotaRow("cv", "queue", 2, "deep", pairs=[cpu, gpu]),
        QuotaRow("nlp", "queue", 1, "lab", pairs=[gpu]),
    ]
    assert quota_lines(rows, SCREEN) == [
        "COHORT / QUEUE  FLAVOR  RESOURCE  USED                NOMINAL  BORROWS  LENDS    CAN GET",
        "lab/            -       -         -                         -  -        -              -",
        "├─ deep/        a100    gpu       [███·········] 1/4        4  -        up to 2        3",
        "│  └─ cv        a100    cpu       [████████████] 3/2        2  1 of 1   -              0",
        "│               a100    gpu       [███·········] 1/4        4  -        up to 2        3",
        "└─ nlp          a100    gpu       [███·········] 1/4        4  -        up to 2        3",
    ]
    piped = quota_lines(rows, SCREEN._replace(is_tty=False))
    assert piped[4] == "    cv\ta100\tgpu\t1/4\t4\t-\tup to 2\t3"
    gpu.derived = True
    assert " 4 derived  -" in quota_lines(rows, SCREEN)[2]


def test_apply_says_what_became_of_a_file(stw: Stw, server: FakeServer, file: str) -> None:
    """The command before and after is named; a refusal says that nothing was changed."""
    server.on("POST", "/v1/apply", applied({**VISION, "change": "created"}))
    result = stw("apply", "-f", file)
    assert (result.code, result.lines) == (0, ["clusterqueue/vision created"])
    assert result.err.splitlines() == ["next: stw quota, or: stw queues"]
    assert stw("apply", "-f", file, "--dry-run").err.splitlines() == ["next: stw apply -f q.yaml"]
    assert stw("apply", "-f", file, "-f", file).code == 0
    dry = [body["dry_run"] for body in server.bodies("POST", "/v1/apply")]
    assert dry == [False, True, True, True, False, False], "several are looked at first"
    assert stw("apply", "-f", "nowhere.yaml").code == 2


def test_diff_ends_with_1_where_something_differs(stw: Stw, server: FakeServer, file: str) -> None:
    """As a diff of YAML; 0 and nothing where all is the same."""
    before, after = ({**WHOLE, "spec": {"cohortName": name}} for name in ("lab", "all"))
    server.on("POST", "/v1/apply", applied({**VISION, "before": before, "after": after}))
    result = stw("diff", "-f", file)
    assert result.code == 1
    assert result.lines[:2] == ["--- live/clusterqueue/vision", "+++ file/clusterqueue/vision"]
    assert result.lines[-2:] == ["-  cohortName: lab", "+  cohortName: all"]
    server.on("POST", "/v1/apply", applied({**VISION, "change": "unchanged"}))
    result = stw("diff", "-f", file)
    assert (result.code, result.out) == (0, "")


def test_get_gives_objects_to_be_applied_again(stw: Stw, server: FakeServer) -> None:
    """One that is named by itself, several as a list; tables and names for people."""
    item = {"kind": "ClusterQueue", "name": "vision", "object": WHOLE, "about": "cohort lab"}
    server.on("GET", "/v1/queueing/objects", {"items": [item], "counts": {"ClusterQueue": 1}})
    server.on("GET", "/v1/placements", {"items": []})
    assert json.loads(stw("get", "cq", "vision", "-o", "json").out) == WHOLE
    listed = json.loads(stw("get", "cq", "-o", "json").out)
    assert (listed["kind"], listed["items"]) == ("List", [WHOLE])
    assert stw("get", "cq").lines[1].split("\t")[:2] == ["vision", "cohort lab"]
    assert stw("get", "clusterqueue/vision", "-o", "name").out == "clusterqueue/vision\n"
    assert stw("get").lines == ["ClusterQueue\t1"]


def test_delete_names_who_needs_it(stw: Stw, server: FakeServer) -> None:
    """And asks for exactly what was named."""
    use = {"kind": "ClusterQueue", "name": "vision", "objects": ["LocalQueue cv/main"]}
    gone = {**VISION, "change": "deleted"}
    answer = {"dry_run": True, "objects": [gone], "uses": [use]}
    server.on("POST", "/v1/queueing/objects/delete", answer)
    result = stw("delete", "cq", "vision", "--dry-run")
    assert result.lines == ["clusterqueue/vision would be deleted"]
    assert "note: clusterqueue/vision is in use by LocalQueue cv/main" in result.err
    [body] = server.bodies("POST", "/v1/queueing/objects/delete")
    assert body["objects"] == [{"kind": "ClusterQueue", "namespace": "", "name": "vision"}]
    assert stw("delete").code == stw("delete", "cq").code == 2


def test_queues_are_listed_in_a_line_each(stw: Stw, server: FakeServer) -> None:
    """What waits and runs, what is used, and why one takes nothing in."""
    used = [{"flavor": "a100", "resource": "nvidia.com/gpu", "used": "3", "quota": "8"}]
    row = {"name": "vision", "pending": 2, "reserving": 3, "admitted": 3, "used": used}
    stopped = {**row, "name": "old", "status": "Stopped", "about": "Hold"}
    ready = {**row, "cohort": "lab", "status": "Ready"}
    server.on("GET", "/v1/queueing/queues", {"items": [ready, stopped]})
    lines = stw("queues").lines
    assert lines[1].split("\t") == ["vision", "lab", "2", "3", "a100 gpu 3/8", "Ready"]
    assert lines[2].split("\t")[-1] == "Stopped (Hold)"
    assert "LOCAL QUEUES" in stw("queues", "-o", "wide").lines[0]
