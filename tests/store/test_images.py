"""State images: two are kept, and only an intact one of the right schema is used."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.store import Store, images
from tests.store.samples import grow, opened


def corrupt(store: Store, seq: int, at: int) -> None:
    """Turns one bit of a stored image."""
    stored = store._read(lambda conn: images._DATA.first(conn, seq, "h"))
    assert stored is not None
    broken = bytearray(stored[0])
    broken[at] ^= 1
    store._writer.submit(lambda conn: images.save(conn, seq, "h", bytes(broken))).result()


@given(st.binary(max_size=2_000))
def test_an_image_is_what_was_saved(data: bytes) -> None:
    """Packing and unpacking give the same bytes."""
    assert images.unpack(images.pack(data)) == data


@given(st.binary(max_size=200), st.data())
def test_a_changed_image_is_noticed(data: bytes, draws: st.DataObject) -> None:
    """Any turned bit, and any missing end, makes an image unusable."""
    packed = bytearray(images.pack(data))
    at = draws.draw(st.integers(0, len(packed) - 1))
    assert images.unpack(bytes(packed[:at])) is None
    packed[at] ^= 1 << draws.draw(st.integers(0, 7))
    assert images.unpack(bytes(packed)) is None


def test_two_images_are_kept(tmp_path: Path) -> None:
    """The newest counts; of the older ones one stays."""
    with opened(tmp_path) as store:
        assert store.load_image("h") is None
        for seq in (5, 9, 12):
            store.save_image(seq, "h", b"state at %d" % seq)
        assert store.load_image("h") == (12, b"state at 12")
        kept = store._read(lambda conn: images._NUMBERS.all(conn, "h"))
    assert [seq for (seq,) in kept] == [12, 9]
    with opened(tmp_path) as store:
        assert store.load_image("h") == (12, b"state at 12")


def test_the_same_point_may_be_saved_again(tmp_path: Path) -> None:
    """An image of the same number replaces the former one."""
    with opened(tmp_path) as store:
        store.save_image(5, "h", b"one")
        store.save_image(5, "h", b"two")
        assert store.load_image("h") == (5, b"two")


@pytest.mark.parametrize("at", [0, 31, 32, 40])
def test_a_damaged_image_is_passed_over(tmp_path: Path, at: int) -> None:
    """The older one is used then; with both damaged there is none, and no error."""
    with opened(tmp_path) as store:
        store.save_image(5, "h", b"old" * 50)
        store.save_image(9, "h", b"new" * 50)
        corrupt(store, 9, at)
        assert store.load_image("h") == (5, b"old" * 50)
        corrupt(store, 5, at)
        assert store.load_image("h") is None


def test_an_image_of_another_schema_is_not_used(tmp_path: Path) -> None:
    """After an upgrade the old image isn't read, though it is the newest."""
    with opened(tmp_path) as store:
        store.save_image(5, "h1", b"one")
        store.save_image(9, "h2", b"two")
        assert store.load_image("h1") == (5, b"one")
        assert store.load_image("h3") is None


def test_an_image_bears_the_time_of_its_record(tmp_path: Path) -> None:
    """How old an image is can be told from the journal."""
    with opened(tmp_path) as store:
        grow(store, 3, store.raise_epoch("1"))
        store.save_image(3, "h", b"")
        at_ms = store._read(
            lambda conn: conn.exec_driver_sql("select at_ms from images").scalar_one()
        )
        assert at_ms == list(store.records())[-1].at_ms
