"""Content by hash: what is missing, sending, fetching."""

import hashlib
import json
import socket
from collections.abc import Callable

import pytest

from tests.server.stage import Stage


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_only_what_is_missing_is_sent(stage: Stage) -> None:
    """Large content comes in pieces, and empty content is content too."""
    contents = [b"print('hi')\n", bytes(range(256)) * 20_000, b""]
    hashes = [sha(one) for one in contents]
    assert stage.post("/v1/blobs/missing", {"hashes": hashes}).json == {"missing": hashes}
    for one in contents:
        assert stage.ask("PUT", f"/v1/blobs/{sha(one)}", one).status == 204
    assert stage.post("/v1/blobs/missing", {"hashes": hashes}).json == {"missing": []}
    for one in contents:
        assert stage.get(f"/v1/blobs/{sha(one)}").body == one


def test_content_with_another_hash_is_refused_and_not_kept(stage: Stage) -> None:
    """Neither under its name nor under the one that was claimed."""
    answer = stage.ask("PUT", f"/v1/blobs/{sha(b'this')}", b"that")
    assert (answer.status, answer.json["code"]) == (422, "store/blob-damaged")
    missing = stage.post("/v1/blobs/missing", {"hashes": [sha(b"this"), sha(b"that")]})
    assert len(missing.json["missing"]) == 2


def test_a_submission_may_refer_to_what_was_sent(stage: Stage) -> None:
    """The manifest's numbers are shown."""
    files = [{"path": "a", "mode": 420, "size": 7, "hash": "x"}, {"path": "d", "dir": True}]
    manifest = json.dumps({"v": 1, "files": files, "commit": "abc", "dirty": True}).encode()
    stage.ask("PUT", f"/v1/blobs/{sha(manifest)}", manifest)
    told = stage.submit(snapshot=sha(manifest), held=True)
    show = stage.get(f"/v1/workloads/{told['id']}").json
    assert show["snapshot"] == {
        "hash": sha(manifest),
        "files": 1,
        "bytes": 7,
        "commit": "abc",
        "dirty": True,
    }


def batch_of(*contents: bytes) -> bytes:
    return b"".join(b"%b %d\n%b" % (sha(one).encode(), len(one), one) for one in contents)


def missing(stage: Stage, *contents: bytes) -> int:
    hashes = [sha(one) for one in contents]
    return len(stage.post("/v1/blobs/missing", {"hashes": hashes}).json["missing"])


def test_many_contents_come_in_one_request(stage: Stage) -> None:
    """Known and doubled ones are stored once; empty content and large content are content too."""
    contents = [b"%d" % n for n in range(300)] + [b"", bytes(range(256)) * 9_000, b"7"]
    stage.ask("PUT", f"/v1/blobs/{sha(b'3')}", b"3")
    answer = stage.ask("POST", "/v1/blobs/batch", batch_of(*contents))
    assert (answer.status, answer.json) == (200, {"count": 303, "new": 301})
    assert missing(stage, *contents) == 0
    assert stage.get(f"/v1/blobs/{sha(contents[-2])}").body == contents[-2]
    assert stage.ask("POST", "/v1/blobs/batch", b"").json == {"count": 0, "new": 0}


@pytest.mark.parametrize(
    ("spoil", "status", "code"),
    [
        (lambda body: body[:-1], 400, "request/cut-off"),
        (lambda body: body[:-1] + b"?", 422, "store/blob-damaged"),
        (lambda body: body + b"rubbish" * 20, 400, "request/invalid"),
        (lambda body: body + b"%b 99999999\n" % (b"a" * 64), 413, "request/too-large"),
        (lambda body: body + b"%b 1\nx" % (b"Z" * 64), 422, "store/bad-hash"),
    ],
)
def test_of_a_spoilt_batch_nothing_is_kept(
    stage: Stage, spoil: Callable[[bytes], bytes], status: int, code: str
) -> None:
    """Not even what came whole before the mistake; the refusal says what is wrong."""
    contents = [b"%d" % n for n in range(50)]
    answer = stage.ask("POST", "/v1/blobs/batch", spoil(batch_of(*contents)))
    assert (answer.status, answer.json["code"]) == (status, code)
    assert missing(stage, *contents) == 50
    assert [one for one in stage.store.blobs.root.rglob("*") if one.name.startswith(".new-")] == []


def test_a_batch_whose_sender_goes_away_leaves_nothing(stage: Stage) -> None:
    """The connection breaks in the middle: what came is removed, and the server goes on."""
    contents = [b"%d" % n for n in range(2_000)]
    body = batch_of(*contents, b"x" * 2_000_000)
    head = f"POST /v1/blobs/batch HTTP/1.1\r\nHost: s\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as sender:
        sender.connect(stage.socket)
        sender.sendall(head.encode() + body[:-500_000])
        stage.until(lambda: list(stage.store.blobs.root.glob(".new-*")), "the first arrived")
    stage.until(lambda: not list(stage.store.blobs.root.glob(".new-*")), "they are removed")
    assert missing(stage, *contents) == 2_000
