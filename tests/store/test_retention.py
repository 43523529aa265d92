"""What is old in the database, and that only what ended or was replaced can be removed."""

from pathlib import Path

from stellwerk.core.model import events as ev
from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.ids import BlobHash, DecisionId, ShapeId, WorkloadId, digest
from stellwerk.core.model.workload import Phase, Workload
from stellwerk.store import Batch, Store, WorkloadFilter
from stellwerk.testing.builders import a_shape
from tests.store.samples import SHAPE_ID, a_submit, new, opened

TASK = BlobHash("a" * 64)


def workload(number: int, phase: Phase = "Succeeded", ended_ms: int = 10) -> Workload:
    """A workload as the engine writes it."""
    return Workload(
        id=WorkloadId(f"w-{number}"),
        name=f"job-{number}",
        project="default",
        owner="ada",
        shape=ShapeId(digest(a_shape())),
        task=TASK,
        submitted_ms=1,
        order=number,
        phase=phase,
        labels={"team": "a"},
        version=2,
        ended_ms=ended_ms if phase == "Succeeded" else 0,
    )


def write(store: Store, *workloads: Workload) -> None:
    """Stores workloads as one step of an engine."""
    epoch = store.epoch() or store.raise_epoch("1")
    record = ev.Record(store.seq() + 1, 100, epoch, "engine", "", ev.LeaderChanged(epoch, "1"))
    store.append(Batch(epoch, records=(record,), workloads=workloads)).result()


def names(store: Store) -> list[str]:
    return [row.workload.name for row in store.workloads(WorkloadFilter(live=False))]


def test_ended_workloads_leave_the_lists(tmp_path: Path) -> None:
    """The oldest first, up to a limit; one that lives is never removed, nor are its labels."""
    with opened(tmp_path) as store:
        write(store, workload(1, ended_ms=30), workload(2, ended_ms=10), workload(3, "Running"))
        kept = store.retention
        assert kept.ended_before(30, 9) == ["w-2"]
        assert kept.ended_before(99, 9) == ["w-2", "w-1"]
        assert kept.ended_before(99, 1) == ["w-2"]
        assert kept.drop_workloads([WorkloadId("w-2"), WorkloadId("w-3")]) == 1
        assert names(store) == ["job-1", "job-3"]
        labelled = store.workloads(WorkloadFilter(live=False, labels={"team": "a"}))
        assert [row.workload.name for row in labelled] == ["job-1", "job-3"]
        assert store.verify() == []
        assert kept.counts()["workloads"] == 2


def test_every_text_that_may_refer_is_read(tmp_path: Path) -> None:
    """Commands, rows and the reasons of shapes; rows that are to go are left out."""
    with opened(tmp_path) as store:
        store.put_commands([new(a_submit("w-9"))], 1).result()
        write(store, workload(1), workload(2))
        told = list(store.retention.texts())
        assert [b"w-9" in text for text in told] == [True, False, False]
        assert all(TASK.encode() in text for text in told[1:])
        rest = list(store.retention.texts(frozenset({WorkloadId("w-1")})))
        assert len(rest) == 2
        assert list(store.retention.commands_after(1)) == []


def test_decisions_go_by_age(tmp_path: Path) -> None:
    """Listed with their sizes, removed by id."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        inputs = Inputs(SHAPE_ID, {"lab": "f1"}, 5, 0, "1")
        made = [(Decision(DecisionId(f"d-{n}"), inputs, ()), n * 10) for n in range(3)]
        store.append(Batch(epoch, decisions=made)).result()
        old = store.retention.decisions(20)
        assert sorted(old) == ["d-0", "d-1"]
        assert min(old.values()) > 20
        assert store.retention.drop_decisions(["d-0", "d-7"]) == 1
        assert store.decision(DecisionId("d-0")) is None
        assert store.decision(DecisionId("d-1")) is not None


def test_sealed_values_go_named_secrets_stay(tmp_path: Path) -> None:
    """Only what a submission brought is looked at, for all owners."""
    with opened(tmp_path) as store:
        for owner, name in (("ada", "sealed/1"), ("bob", "sealed/1"), ("ada", "sealedx")):
            store.secrets.put("default", owner, name, "x", 5)
        store.secrets.put("default", "ada", "sealed/2", "x", 50)
        assert list(store.retention.sealed(10)) == ["sealed/1"]
        assert store.retention.drop_sealed(["sealed/1"]) == 2
        left = [info.name for info in store.secrets.list("default", "ada")]
        assert left == ["sealed/2", "sealedx"]


def test_commands_are_counted_as_they_are_forgotten(tmp_path: Path) -> None:
    """Done ones only, and never the newest."""
    with opened(tmp_path) as store:
        for number in range(4):
            store.put_commands([new(a_submit(f"w-{number}"))], number * 10).result()
        store.append(Batch(store.raise_epoch("1"), inbox_upto=3)).result()
        count, size = store.retention.old_commands(15)
        assert count == 2
        assert size > 100
        assert store.retention.forget_commands(15) == 2
        assert store.retention.old_commands(15) == (0, 0)


def test_the_last_sweep_is_remembered(tmp_path: Path) -> None:
    """So that servers that come and go don't sweep each time."""
    with opened(tmp_path) as store:
        assert store.retention.swept_ms() == 0
        store.retention.note_sweep(77)
    with opened(tmp_path) as store:
        assert store.retention.swept_ms() == 77
