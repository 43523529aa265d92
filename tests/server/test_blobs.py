"""Content by hash: what is missing, sending, fetching."""

import hashlib
import json

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
