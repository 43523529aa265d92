"""The journal: unbroken, fenced, and readable as it was written."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import WorkloadId
from stellwerk.store import Batch, Store, StoreError, journal
from stellwerk.store.journal import PAGE, subject
from stellwerk.testing.builders import a_workload
from tests.store.samples import DECISION, EVENTS, SHAPE, SHAPE_ID, W1, WHY, grow, opened, records_of


def refused(store: Store, batch: Batch) -> StoreError:
    with pytest.raises(StoreError) as caught:
        store.append(batch).result()
    return caught.value


def test_the_samples_hold_every_event() -> None:
    """A new kind of event must be added here, and thereby is tried."""
    assert {type(event) for event in EVENTS} == set(get_args(ev.Event))


def test_every_event_comes_back_as_it_was(tmp_path: Path) -> None:
    """All kinds of events survive the way to the disk and back, in order, with their envelope."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        records = records_of(EVENTS, epoch=epoch)
        store.append(Batch(epoch, records)).result()
    with opened(tmp_path) as store:
        assert tuple(store.records()) == records
        assert tuple(store.records(5, 3)) == records[5:8]
        assert store.seq() == len(records)


def test_a_story_is_what_concerns_one_workload(tmp_path: Path) -> None:
    """Events that name the workload or one of its runs belong to it; others don't."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        store.append(Batch(epoch, records_of(EVENTS))).result()
        story = store.story(W1)
        others = [event for event in EVENTS if subject(event) is None]
        assert [type(event) for event in others] == [
            ev.LeaderChanged,
            ev.ClusterObserved,
            ev.ShapeWaits,
            ev.NodeQuarantined,
            ev.NodeResumed,
            ev.ClusterDrained,
            ev.ClusterResumed,
            ev.ClusterRemoved,
            ev.FleetDeclared,
            ev.PlacementApplied,
            ev.PlacementDecided,
            ev.PlacementDeleted,
            ev.OwnPlacementDecided,
            ev.QueueObjectApplied,
            ev.QueueObjectDeleted,
            ev.CalendarSet,
            ev.CalendarRemoved,
            ev.ReservationMade,
            ev.ReservationMoved,
            ev.ReservationOver,
        ]
        assert [record.event for record in story] == [
            event for event in EVENTS if event not in others
        ]
        assert store.story(WorkloadId("w-2")) == []
        assert store.records_page(3, 2, W1) == story[1:3]


def test_reading_goes_page_by_page(tmp_path: Path) -> None:
    """More records than a page holds come without a gap and without a double."""
    with opened(tmp_path) as store:
        grow(store, PAGE + 7, store.raise_epoch("1"))
        assert [record.seq for record in store.records()] == list(range(1, PAGE + 8))
        assert [record.seq for record in store.records(2, PAGE + 1)] == list(range(3, PAGE + 4))
        assert list(store.records(PAGE + 7)) == []


def test_a_long_story_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A story of several pages, told among others', has no gap and no double."""
    monkeypatch.setattr(journal, "PAGE", 4)
    with opened(tmp_path) as store:
        grow(store, 3, store.raise_epoch("1"))
        for _ in range(10):
            grow(store, 2, 1)
        story = store.story(W1)
    assert [record.seq for record in story] == [2, *range(5, 24, 2)]


def test_lines_are_records(tmp_path: Path) -> None:
    """Each exported line is one record as JSON, and reads back as the same."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        records = records_of(EVENTS)
        store.append(Batch(epoch, records)).result()
        lines = list(store.journal_lines())
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    assert tuple(msgspec.json.decode(line, type=ev.Record) for line in lines) == records


def test_an_older_epoch_is_fenced(tmp_path: Path) -> None:
    """Once another engine leads, the former one can't write anything, not even an empty batch."""
    with opened(tmp_path) as store:
        old = store.raise_epoch("1")
        grow(store, 2, old)
        new = store.raise_epoch("2")
        assert (old, new, store.epoch()) == (1, 2, 2)
        batch = Batch(old, records_of(EVENTS[:1], after=2, epoch=old), inbox_upto=9)
        assert refused(store, batch).code == "store/fenced"
        assert refused(store, Batch(old)).code == "store/fenced"
        assert refused(store, Batch(3)).code == "store/fenced"
        assert (store.seq(), store.inbox_upto()) == (2, 0)
        grow(store, 1, new)


def test_the_epoch_lasts(tmp_path: Path) -> None:
    """An epoch is never given twice, across restarts."""
    epochs = []
    for _ in range(3):
        with opened(tmp_path) as store:
            epochs.append(store.raise_epoch("1"))
    assert epochs == [1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(records_of(EVENTS[:1], after=4), id="a gap before"),
        pytest.param(records_of(EVENTS[:1], after=2), id="a number again"),
        pytest.param(records_of(EVENTS[:1], after=3, at_ms=1), id="time goes back"),
        pytest.param(records_of(EVENTS[:1], after=3, at_ms=9_000, epoch=2), id="a later epoch"),
        pytest.param(records_of(EVENTS[:1], after=3, at_ms=9_000, epoch=0), id="an older epoch"),
        pytest.param(
            records_of(EVENTS[:1], after=3) + records_of(EVENTS[:1], after=5), id="a gap inside"
        ),
    ],
)
def test_what_does_not_continue_the_journal_is_refused(
    tmp_path: Path, wrong: tuple[ev.Record, ...]
) -> None:
    """Numbers have no gaps, times and epochs never go back; nothing of such a batch is stored."""
    with opened(tmp_path) as store:
        grow(store, 3, store.raise_epoch("1"))
        batch = Batch(1, wrong, workloads=[a_workload()], inbox_upto=5)
        assert refused(store, batch).code == "store/fenced"
        assert store.seq() == 3
        assert store.counts() == {}
        assert store.inbox_upto() == 0


def test_the_last_batch_may_be_sent_again(tmp_path: Path) -> None:
    """After a commit of unknown outcome the same batch is accepted, and stored once."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        batch = Batch(epoch, records_of(EVENTS), workloads=[a_workload()])
        for _ in range(2):
            store.append(batch).result()
        assert store.seq() == len(EVENTS)
        changed = Batch(epoch, records_of(EVENTS, at_ms=1_001))
        assert refused(store, changed).code == "store/fenced"
        part = Batch(epoch, records_of(EVENTS[:-1]))
        assert refused(store, part).code == "store/fenced"


def test_a_batch_is_all_or_nothing(tmp_path: Path) -> None:
    """A wait of a shape that was never stored takes the whole batch with it."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        batch = Batch(
            epoch,
            records_of(EVENTS[:3]),
            inbox_upto=7,
            workloads=[a_workload()],
            waits=[(SHAPE_ID, DECISION, (WHY,), 5)],
        )
        assert refused(store, batch).code == "store/unknown-shape"
        assert (store.seq(), store.inbox_upto(), store.counts()) == (0, 0, {})
        whole = msgspec.structs.replace(batch, shapes={SHAPE_ID: SHAPE})
        store.append(whole).result()
        assert (store.seq(), store.inbox_upto(), store.counts()) == (3, 7, {"Pending": 1})


def test_an_unknown_event_is_named(tmp_path: Path) -> None:
    """A journal that a newer version has written isn't misread; the error says which record."""
    with opened(tmp_path) as store:
        grow(store, 2, store.raise_epoch("1"))
        store._writer.submit(
            lambda conn: conn.exec_driver_sql(
                """update journal set data = '{"type":"teleported"}' where seq = 2"""
            ).close()
        ).result()
        with pytest.raises(StoreError, match="record 2") as caught:
            list(store.records())
        assert caught.value.code == "store/newer"
