"""Blobs: named by their content, whole or not there."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.store import BlobStore, Collected, StoreError, chunks_of

HELLO = hashlib.sha256(b"hello").hexdigest()
ABSENT = "f" * 64


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def age(path: Path, ms: int) -> None:
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def test_put_and_get(blobs: BlobStore) -> None:
    """Content comes back under the hash of it, and lies in a file that isn't written to."""
    assert blobs.put(b"hello") == HELLO
    assert blobs.put(b"hello") == HELLO
    assert blobs.get(HELLO) == blobs.get(HELLO, verify=True) == b"hello"
    path = blobs.path(HELLO)
    assert path.read_bytes() == b"hello"
    assert path.parent.name == HELLO[:2]
    assert path.stat().st_mode & 0o777 == 0o400
    assert blobs.get(blobs.put(b"")) == b""


def test_streams(blobs: BlobStore, tmp_path: Path) -> None:
    """A blob in parts has the same name as one in a piece; a file is read in parts."""
    assert blobs.put_stream([b"he", b"", b"llo"]) == HELLO
    big = tmp_path / "big"
    big.write_bytes(os.urandom(3_000_000))
    name = blobs.put_stream(chunks_of(big), hashlib.sha256(big.read_bytes()).hexdigest())
    assert blobs.get(name) == big.read_bytes()
    with blobs.incoming() as blob:
        blob.write(b"hel")
        blob.write(b"lo")
        assert blob.keep(HELLO) == HELLO


def test_a_wrong_hash_is_refused_and_leaves_nothing(blobs: BlobStore) -> None:
    """What was sent under another's name isn't kept under any."""
    with pytest.raises(StoreError) as caught:
        blobs.put_stream([b"something else"], HELLO)
    assert caught.value.code == "store/blob-damaged"
    assert list(blobs.root.iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing(blobs: BlobStore) -> None:
    """Leaving the context without keeping removes what came so far."""

    def breaks_off() -> Iterator[bytes]:
        yield b"half"
        raise LookupError

    with pytest.raises(LookupError):
        blobs.put_stream(breaks_off())
    assert list(blobs.root.iterdir()) == []


def test_the_reserve_is_left_alone(blobs: BlobStore) -> None:
    """With too little room new blobs are refused in words; what is there stays readable."""
    blobs.put(b"hello")
    blobs.reserve_bytes = 1 << 62
    with pytest.raises(StoreError) as caught:
        blobs.put(b"more")
    assert caught.value.code == "store/full"
    assert blobs.put(b"hello") == HELLO
    assert len(list(blobs.root.iterdir())) == 1


def test_changed_content_is_noticed_when_asked(blobs: BlobStore) -> None:
    """With ``verify`` a blob that was changed behind our back is an error."""
    blobs.put(b"hello")
    blobs.path(HELLO).chmod(0o600)
    blobs.path(HELLO).write_bytes(b"jello")
    assert blobs.get(HELLO) == b"jello"
    with pytest.raises(StoreError) as caught:
        blobs.get(HELLO, verify=True)
    assert caught.value.code == "store/blob-damaged"


@pytest.mark.parametrize(
    "name", ["", "abc", "../../etc/passwd", "F" * 64, HELLO + "\n", "/" + HELLO[1:], "é" * 64]
)
def test_what_is_no_hash_is_refused(blobs: BlobStore, name: str) -> None:
    """Nothing but 64 digits ever becomes a path."""
    for ask in (blobs.get, blobs.path, lambda name: blobs.missing([name])):
        with pytest.raises(StoreError) as caught:
            ask(name)
        assert caught.value.code == "store/bad-hash"


def test_an_absent_blob_is_an_error_of_its_own(blobs: BlobStore) -> None:
    """Asking for what isn't there says so."""
    with pytest.raises(StoreError) as caught:
        blobs.get(ABSENT)
    assert caught.value.code == "store/no-blob"


def test_missing_ones(blobs: BlobStore) -> None:
    """Those that must be sent, each once, in the order asked for."""
    blobs.put(b"hello")
    other = "0" * 64
    assert blobs.missing([ABSENT, HELLO, other, ABSENT]) == [ABSENT, other]
    assert blobs.missing([]) == []


def test_old_blobs_are_listed_and_removed(blobs: BlobStore) -> None:
    """By age alone, those that were named; what was removed is told with its bytes."""
    assert blobs.old(1_000) == {}
    assert blobs.measure() == (0, 0)
    old, kept, young = (blobs.put(data) for data in (b"old", b"kept", b"young"))
    for name in (old, kept):
        age(blobs.path(name), 1_000)
    age(blobs.path(young), 3_000)
    assert blobs.old(2_000) == {old: 3, kept: 4}
    assert blobs.measure() == (3, 12)
    assert blobs.drop([old, young], 2_000) == Collected((old,), 3)
    assert blobs.drop([old], 2_000) == Collected((), 0)
    assert blobs.missing([old, kept, young]) == [old]


def test_asking_for_a_blob_protects_it(blobs: BlobStore) -> None:
    """A client that was told a blob is there may rely on it until it has submitted."""
    for renew in (lambda: blobs.missing([HELLO]), lambda: blobs.put(b"hello")):
        blobs.put(b"hello")
        age(blobs.path(HELLO), 1_000)
        found = blobs.old(2_000)
        renew()
        assert blobs.drop(found, 2_000) == Collected((), 0)


def test_what_an_interrupted_put_left_is_old_too(blobs: BlobStore) -> None:
    """A temporary file of a server that was killed goes by age."""
    blobs.put(b"hello")
    left = blobs.root / ".new-xyz"
    left.write_bytes(b"half")
    age(left, 1_000)
    assert blobs.old(2_000) == {".new-xyz": 4}
    assert blobs.drop([".new-xyz"], 2_000) == Collected((".new-xyz",), 4)
    assert not left.exists()
