"""Questions to the read models."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.ids import DecisionId, ShapeId, WorkloadId
from stellwerk.core.model.workload import Phase, Workload
from stellwerk.store import Batch, Position, Store, StoreError, WorkloadFilter, views
from stellwerk.store.statements import Prepared
from stellwerk.testing.builders import a_cluster, a_run, a_workload
from tests.store.samples import DECISION, SHAPE, SHAPE_ID, WHY, opened


def keep(store: Store, *workloads: Workload) -> None:
    """Writes workloads as the engine does."""
    epoch = store.epoch() or store.raise_epoch("1")
    store.append(Batch(epoch, workloads=workloads)).result()


def ids(store: Store, **wanted: object) -> list[str]:
    rows = store.workloads(msgspec.convert(wanted, WorkloadFilter))
    return [row.workload.id for row in rows]


def test_a_workload_comes_back_whole(tmp_path: Path) -> None:
    """The document is the workload itself, and the row says as of which record."""
    one = a_workload("w-1", runs=(a_run(),), labels={"team": "nlp"})
    with opened(tmp_path) as store:
        keep(store, one)
        row = store.workload("w-1", "default")
        assert row is not None
        assert (row.workload, row.seq) == (one, 0)


def test_a_change_replaces_the_row(tmp_path: Path) -> None:
    """There is one row per workload, as it is now."""
    with opened(tmp_path) as store:
        keep(store, a_workload("w-1"))
        keep(store, a_workload("w-1", phase="Running"))
        row = store.workload("w-1", "default")
        assert row is not None
        assert row.workload.phase == "Running"
        assert store.counts() == {"Running": 1}


def test_finding_by_name_id_or_beginning(tmp_path: Path) -> None:
    """A name counts in its project, before ids; a beginning of an id must be the only one."""
    with opened(tmp_path) as store:
        keep(
            store,
            a_workload("w-0a11", name="digits"),
            a_workload("w-0a22", name="train"),
            a_workload("w-0b33", name="w-0a"),
        )

        def found(ref: str, project: str = "default") -> str | None:
            row = store.workload(ref, project)
            return row.workload.id if row else None

        assert found("digits") == "w-0a11"
        assert found("digits", "other") is None
        assert found("w-0a22", "other") == "w-0a22"
        assert found("w-0a1") == "w-0a11"
        assert found("w-0a") == "w-0b33"
        assert found("w-0b") == "w-0b33"
        assert found("w-0c") is None
        assert found("w-") is None
        assert found("") is None
        with pytest.raises(StoreError) as caught:
            found("w-0a", "other")
        assert caught.value.code == "store/ambiguous"
        assert "w-0a11 (digits), w-0a22 (train)" in caught.value.message
        with pytest.raises(StoreError, match="w-0b33"):
            found("w-0")


def test_filters(tmp_path: Path) -> None:
    """Each field narrows the list, all together hold, and a page goes on where the last ended."""
    with opened(tmp_path) as store:
        keep(
            store,
            a_workload("w-1", name="sweep-1", order=1, labels={"team": "nlp", "x": "1"}),
            a_workload("w-2", name="sweep-2", order=2, labels={"team": "vision"}),
            a_workload("w-3", name="Sweep-3", order=3, phase="Running", labels={"team": "nlp"}),
            a_workload("w-4", name="s.weep", order=4, phase="Failed", labels={"team": "nlp"}),
        )
        assert ids(store) == ["w-1", "w-2", "w-3"]
        assert ids(store, live=False) == ["w-1", "w-2", "w-3", "w-4"]
        assert ids(store, live=False, sort="newest", limit=2) == ["w-4", "w-3"]
        assert ids(store, live=False, sort="newest", limit=2, after=3) == ["w-2", "w-1"]
        assert ids(store, limit=1, after=1) == ["w-2"]
        assert ids(store, phases=["Running", "Held"]) == ["w-3"]
        assert ids(store, live=False, phases=["Failed"]) == ["w-4"]
        assert ids(store, name="sweep-*") == ["w-1", "w-2"]
        assert ids(store, name="?weep-3") == ["w-3"]
        assert ids(store, name="s.weep", live=False) == ["w-4"]
        assert ids(store, name="s.*", live=False) == ["w-4"]
        assert ids(store, name="weep*") == []
        assert ids(store, labels={"team": "nlp"}) == ["w-1", "w-3"]
        assert ids(store, labels={"team": "nlp", "x": "1"}) == ["w-1"]
        assert ids(store, labels={"team": "nlp"}, phases=["Running"]) == ["w-3"]
        assert ids(store, owner="ada", project="default", queue="default", kind="job") == [
            "w-1",
            "w-2",
            "w-3",
        ]
        assert ids(store, owner="bob") == []
        assert ids(store, queue="night") == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.b*", ["a.b", "a.b-2"]),
        ("a?b", ["a-b", "a.b", "a_b"]),
        ("**A*?", ["A.b"]),
        ("a[.-]b*", []),
        ("*%*", []),
        ("*_b", ["a_b"]),
        ("*\0", []),
        ("*\0*", []),
        ("*a" * 12 + "*b*z", []),
        ("?*" * 40_000, []),
        ("*" * 100_000, ["A.b", "a-b", "a.b", "a.b-2", "a" * 190 + "b", "a_b"]),
    ],
)
def test_patterns_are_read_alike_and_at_once(
    tmp_path: Path, pattern: str, found: list[str]
) -> None:
    """`*` and `?` mean something, everything else itself; none is so odd that it takes long."""
    with opened(tmp_path) as store:
        names = ("A.b", "a-b", "a.b", "a.b-2", "a" * 190 + "b", "a_b")
        keep(store, *(a_workload(f"w-{n}", name=name) for n, name in enumerate(names)))
        began = time.process_time()
        rows = store.workloads(WorkloadFilter(name=pattern))
        assert sorted(row.workload.name for row in rows) == sorted(found)
        assert time.process_time() - began < 2


def test_labels_follow_the_workload(tmp_path: Path) -> None:
    """A label that was changed or taken away is no longer found."""
    with opened(tmp_path) as store:
        before = a_workload("w-1", labels={"team": "nlp", "x": "1"})
        keep(store, before)
        keep(store, msgspec.structs.replace(before, labels={"team": "vision"}, version=2))
        assert ids(store, labels={"team": "vision"}) == ["w-1"]
        assert ids(store, labels={"team": "nlp"}) == ids(store, labels={"x": "1"}) == []
        keep(store, msgspec.structs.replace(before, labels={}, version=3))
        assert ids(store, labels={"team": "vision"}) == []


PHASES: tuple[Phase, ...] = ("Pending", "Held", "Running", "Failed")


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(PHASES), st.integers(-1, 1), st.sampled_from("ab")), max_size=12
    )
)
def test_position_is_the_place_in_the_order(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Phase, int, str]]
) -> None:
    """Position counts who is served before: higher priority, or the same and submitted earlier."""
    workloads = [
        msgspec.structs.replace(
            a_workload(f"w-{order}", order=order, phase=phase, priority=priority), queue=queue
        )
        for order, (phase, priority, queue) in enumerate(rows, 1)
    ]
    with opened(tmp_path_factory.mktemp("home")) as store:
        keep(store, *workloads)
        for queue in "ab":
            waiting = sorted(
                (one for one in workloads if (one.phase, one.queue) == ("Pending", queue)),
                key=lambda one: (-one.priority, one.order),
            )
            assert [row.workload for row in store.queue(queue)] == waiting
            for ahead, one in enumerate(waiting):
                assert store.position(one.id) == Position(ahead + 1, ahead)
        for one in workloads:
            if one.phase != "Pending":
                assert store.position(one.id) is None
        assert store.position(WorkloadId("w-none")) is None


def test_counts_by_phase(tmp_path: Path) -> None:
    """Every phase that occurs is counted, ended ones too."""
    with opened(tmp_path) as store:
        assert store.counts() == {}
        for number, phase in enumerate([*PHASES, "Failed"]):
            keep(store, a_workload(f"w-{number}", phase=phase))
        assert store.counts() == {"Failed": 2, "Held": 1, "Pending": 1, "Running": 1}


def plan_of(store: Store, statement: sa.Select[Any] | Prepared) -> str:
    """How the database would answer, in its own words."""

    def ask(conn: sa.Connection) -> str:
        if isinstance(statement, Prepared):
            text = statement.text(conn.dialect)
        else:
            text = str(statement.compile(conn, compile_kwargs={"literal_binds": True}))
        rows = conn.exec_driver_sql(f"explain query plan {text}", (1,) * text.count("?"))
        return "; ".join(row[3] for row in rows)

    return store._read(ask)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (WorkloadFilter(limit=50), "workloads_live"),
        (WorkloadFilter(live=False, limit=50), "workloads_order"),
        (WorkloadFilter(phases=("Running",)), "workloads_live"),
        (WorkloadFilter(live=False, phases=("Failed",)), "workloads_ended"),
        (WorkloadFilter(project="lab", phases=("Running",)), "workloads_project_live"),
        (WorkloadFilter(project="lab", live=False, limit=50), "workloads_project (project=?)"),
    ],
)
def test_lists_come_in_the_order_of_an_index(
    tmp_path: Path, wanted: WorkloadFilter, index: str
) -> None:
    """A page of a list reads that page, not everything that ever was, and sorts nothing."""
    query = sa.select(*views._ROW).where(*views._conditions(wanted)).order_by(views._w.order)
    with opened(tmp_path) as store:
        plan = plan_of(store, query)
    assert index in plan
    assert "TEMP B-TREE" not in plan


def test_the_queue_is_answered_from_its_index(tmp_path: Path) -> None:
    """Position, order and counts don't read the rows of ended workloads, nor sort."""
    with opened(tmp_path) as store:
        assert "COVERING INDEX workloads_waiting" in plan_of(store, views._AHEAD)
        assert plan_of(store, views._QUEUE).endswith("workloads_waiting (queue=?)")
        assert plan_of(store, views._COUNTS).count("COVERING INDEX") == 2
        assert "workloads_1 (id>? AND id<?)" in plan_of(store, views._BY_PREFIX)
        assert "labels_value" in plan_of(
            store, sa.select(views._w.id).where(views._labelled("team", "nlp"))
        )


def test_shapes_and_their_waits(tmp_path: Path) -> None:
    """A shape waits for the reasons said last; before that nothing is known of its waiting."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        store.append(Batch(epoch, shapes={SHAPE_ID: SHAPE})).result()
        assert store.shape(SHAPE_ID) == SHAPE
        assert store.waits(SHAPE_ID) is None
        store.append(Batch(epoch, waits=[(SHAPE_ID, DECISION, (WHY,), 5)])).result()
        store.append(Batch(epoch, shapes={SHAPE_ID: SHAPE})).result()
        wait = store.waits(SHAPE_ID)
        assert wait is not None
        assert (wait.decision, wait.reasons, wait.at_ms) == (DECISION, (WHY,), 5)
        assert store.shape(ShapeId("none")) is None
        assert store.waits(ShapeId("none")) is None


def test_decisions_and_clusters(tmp_path: Path) -> None:
    """A decision is kept as it was made first; a cluster as it was observed last."""
    decision = Decision(DECISION, Inputs(SHAPE_ID, {"lab": "f1"}, 5, 0, "1"), (), reasons=(WHY,))
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        for at_ms in (5, 6):
            store.append(
                Batch(
                    epoch,
                    decisions=[(decision, at_ms)],
                    clusters=[(a_cluster("b"), at_ms), (a_cluster("a"), at_ms + 10)],
                )
            ).result()
        assert store.decision(DECISION) == (decision, 5)
        assert store.decision(DecisionId("none")) is None
        assert store.clusters() == [(a_cluster("a"), 16), (a_cluster("b"), 6)]
