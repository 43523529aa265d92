"""Sending what was packed: asked for once, in few requests, told as it goes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from stellwerk.client import Client
from stellwerk.client import upload as module
from stellwerk.client.pack import Packed, pack, sha256
from stellwerk.client.upload import Content, Sent, upload
from stellwerk.core.model.errors import StellwerkError
from tests.client.fake_server import Asked, FakeServer, Says, refuses


class Shelf:
    """Takes content in, and notes how it came."""

    def __init__(self) -> None:
        self.has: dict[str, bytes] = {}
        self.requests: list[list[str]] = []
        self.asked = 0

    def missing_blobs(self, hashes: Sequence[str]) -> list[str]:
        self.asked += 1
        return [one for one in hashes if one not in self.has]

    def put_blob(self, digest: str, data: bytes) -> None:
        self.put_blobs([(digest, data)])

    def put_blobs(self, contents: Sequence[Content]) -> None:
        self.requests.append([digest for digest, _ in contents])
        self.has.update(contents)


def packed_of(top: Path, files: dict[str, bytes]) -> Packed:
    for name, content in files.items():
        (top / name).write_bytes(content)
    return pack(str(top), str(top.parent / "cache"), None)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


def test_small_files_go_together_and_the_manifest_last(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither more files nor more bytes in a request than allowed; a large one goes alone."""
    monkeypatch.setattr(module, "TOGETHER", 4)
    monkeypatch.setattr(module, "TOGETHER_BYTES", 30)
    monkeypatch.setattr(module, "SMALL_BYTES", 20)
    files = {f"f{n}": b"%d" % n for n in range(10)}
    files |= {"large": b"x" * 25, "m1": b"a" * 15, "m2": b"b" * 15, "m3": b"c" * 15}
    packed, shelf = packed_of(top, files), Shelf()
    told: list[Sent] = []
    sent = upload(packed, shelf, told.append)
    assert shelf.has == {sha256(one): one for one in files.values()} | {packed.hash: packed.data}
    assert shelf.requests[-1] == [packed.hash]
    assert [sha256(files["large"])] in shelf.requests
    assert shelf.asked == 2
    for request in shelf.requests[:-1]:
        assert len(request) == 1 or len(request) <= 4
        assert len(request) == 1 or sum(len(shelf.has[one]) for one in request) <= 30
    bytes = sum(map(len, files.values()))
    assert told[-1] == Sent(14, 14, bytes, bytes)
    assert sent == bytes + len(packed.data)


def test_what_arrived_before_a_break_is_not_sent_again(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that was cut off goes on where it was; a whole one sends nothing."""
    monkeypatch.setattr(module, "TOGETHER", 2)
    packed, shelf = packed_of(top, {f"f{n}": b"%d" % n for n in range(6)}), Shelf()

    class Cut(Exception):
        pass

    def cut(sent: Sent) -> None:
        if sent.files == 4:
            raise Cut

    with pytest.raises(Cut):
        upload(packed, shelf, cut)
    before = len(shelf.requests)
    assert upload(packed, shelf) == 2 + len(packed.data)
    assert [len(one) for one in shelf.requests[before:]] == [2, 1]
    assert upload(packed, shelf) == 0


def test_a_file_that_changes_while_it_is_sent_is_named(top: Path) -> None:
    """What was promised in the manifest is what is sent, or nothing is."""
    packed, shelf = packed_of(top, {"a": b"1"}), Shelf()
    (top / "a").write_bytes(b"2")
    with pytest.raises(StellwerkError, match="changed while"):
        upload(packed, shelf)
    assert shelf.has == {}


def test_many_contents_are_one_request(server: FakeServer, client: Client) -> None:
    """A line with hash and length before each, also for empty content."""
    server.on("POST", "/v1/blobs/batch", {"count": 2, "new": 2})
    client.put_blobs([(sha256(b"a\nb"), b"a\nb"), (sha256(b""), b"")])
    [asked] = [one for one in server.asked if one.path == "/v1/blobs/batch"]
    assert asked.body == b"%b 3\na\nb%b 0\n" % (sha256(b"a\nb").encode(), sha256(b"").encode())


def test_an_older_server_gets_them_one_by_one(server: FakeServer, client: Client) -> None:
    """A server of the version before goes on after an upgrade of the client."""
    server.on("POST", "/v1/blobs/batch", lambda _: refuses("request/method", "no", 405))
    server.on("PUT", "/v1/blobs/.*", lambda _: Says(b"", 204))
    client.put_blobs([(sha256(b"a"), b"a"), (sha256(b"b"), b"b")])
    put: list[Asked] = [one for one in server.asked if one.method == "PUT"]
    assert [one.body for one in put] == [b"a", b"b"]
