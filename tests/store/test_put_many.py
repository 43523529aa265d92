"""Many blobs at once: each under its hash, none doubled, nothing left over when it fails."""

import hashlib
from pathlib import Path

import pytest

from stellwerk.store import BlobStore, StoreError, together
from stellwerk.store import blobs as module


@pytest.mark.parametrize("count", [0, 1, module.FEW, module.FEW + 1, 200])
def test_each_is_there_under_its_hash(tmp_path: Path, count: int) -> None:
    """In the order given; equal contents and known ones are stored once."""
    store = BlobStore(tmp_path / "blobs")
    contents = [b"content %d" % n for n in range(count)]
    names = store.put_many([*contents, *contents[:3]])
    assert names[:count] == [hashlib.sha256(one).hexdigest() for one in contents]
    assert names[count:] == names[:3][:count]
    assert [store.get(name, verify=True) for name in names[:count]] == contents
    assert store.put_many(contents) == names[:count]
    assert not list((tmp_path / "blobs").glob(".new-*"))


def test_nothing_is_left_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that gives an error is told in words; temporary files are gone."""
    store = BlobStore(tmp_path / "blobs")

    def broken(_folder: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(together, "flush_file_system", broken)
    with pytest.raises(StoreError) as caught:
        store.put_many([b"%d" % n for n in range(50)])
    assert caught.value.code == "store/io"
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


def test_too_little_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The reserve is kept from many as from one."""
    store = BlobStore(tmp_path / "blobs", reserve_bytes=1 << 62)
    with pytest.raises(StoreError) as caught:
        store.put_many([b"%d" % n for n in range(50)])
    assert caught.value.code == "store/full"
    assert not (tmp_path / "blobs").exists()
