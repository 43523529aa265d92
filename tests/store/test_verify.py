"""Verification: silent on a sound store, and able to find each kind of disagreement."""

from pathlib import Path

import pytest

from stellwerk.store import Batch, Store
from stellwerk.testing.builders import a_workload
from tests.store.samples import EVENTS, a_submit, new, opened, records_of


def filled(home: Path) -> Store:
    store = opened(home)
    store.put_commands([new(a_submit())], 1).result()
    epoch = store.raise_epoch("1")
    store.append(Batch(epoch, records_of(EVENTS), 1, [a_workload()])).result()
    store.save_image(3, "h", b"image")
    return store


def test_a_sound_store_has_no_problems(tmp_path: Path) -> None:
    """Nothing is found where nothing is wrong, in an empty store and in a filled one."""
    with opened(tmp_path / "empty") as store:
        assert store.verify() == []
    with filled(tmp_path / "filled") as store:
        assert store.verify() == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("delete from journal where seq = 4", "verify/gap"),
        ("update journal set at_ms = 1 where seq = 4", "verify/time"),
        ("update journal set epoch = 9 where seq = 4", "verify/epoch"),
        ("update journal set data = '{' where seq = 4", "store/damaged"),
        ("""update journal set data = '{"type":"x"}' where seq = 4""", "store/newer"),
        ("update journal set type = 'held' where seq = 4", "verify/type"),
        ("update workloads set phase = 'Running'", "verify/workload"),
        ("update workloads set live = 0", "verify/workload"),
        ("update workloads set doc = '{}'", "verify/workload"),
        ("update workloads set seq = 99", "verify/workload"),
        ("update images set data = x'00'", "verify/image"),
        ("update images set seq = 99", "verify/image"),
        ("update meta set value = '7' where key = 'inbox_upto'", "verify/inbox"),
    ],
)
def test_each_disagreement_is_found(tmp_path: Path, change: str, code: str) -> None:
    """A change behind the store's back is found and named."""
    with filled(tmp_path) as store:
        store._writer.submit(lambda conn: conn.exec_driver_sql(change).close()).result()
        assert code in [problem.code for problem in store.verify()]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    """A thoroughly broken journal gives a bounded list."""
    with filled(tmp_path) as store:
        store.append(Batch(1, records_of(EVENTS * 3, after=store.seq()))).result()
        store._writer.submit(
            lambda conn: conn.exec_driver_sql("update journal set type = 'x'").close()
        ).result()
        problems = store.verify()
    assert [problem.code for problem in problems].count("verify/type") == 20
    assert problems[-1].message == f"and {4 * len(EVENTS) - 20} more like these"
