"""What is seen of a hub cache: whole only what is, bounded, and read anew only where it changed."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.data.hub import HubListing, revisions
from stellwerk.runtime import hub_cache
from stellwerk.runtime.hub_cache import HubCache, cache_folder, folder_of, measured, name_of
from tests.runtime.hub import COMMIT, OTHER, make_repo

FILES = {"README.md": b"# words", "data/train.parquet": b"a" * 500, "data/test.parquet": b"b" * 90}


def only(cache: Path) -> dict[str, Any]:
    """What is told of the one commit that a cache has."""
    (repo,) = HubCache().look(str(cache))["repos"]
    ((commit, told),) = repo["commits"].items()
    assert (repo["name"], commit) == ("hf://datasets/lab/words", COMMIT)
    return {**told, "partial": repo["partial_bytes"]}


def test_a_whole_commit_is_proved_by_the_list_of_its_files(tmp_path: Path) -> None:
    """Without the list its links all lead somewhere, which proves less; both know their size."""
    make_repo(tmp_path, FILES)
    told = only(tmp_path)
    assert (told["whole"], told["bytes"], told["missing_bytes"]) == ("proved", 597, 0)
    assert (told["refs"], told["lacks"], told["files"]) == (["main"], [], 3)
    make_repo(tmp_path / "b", FILES, tree=False)
    told = only(tmp_path / "b")
    assert (told["whole"], told["bytes"], told["missing_bytes"]) == ("links", 597, None)


def test_half_a_commit_says_what_lacks(tmp_path: Path) -> None:
    """A file that isn't there, one that leads nowhere, one of another size; partial ones apart."""
    top = make_repo(tmp_path, FILES, without=("data/train.parquet",))
    (top / "blobs" / "0123.incomplete").write_bytes(b"x" * 40)
    told = only(tmp_path)
    assert (told["whole"], told["bytes"], told["missing_bytes"]) == ("half", 97, 500)
    assert (told["lacks"], told["partial"]) == (["data/train.parquet"], 40)
    for blob in (top / "blobs").glob("*"):
        if blob.stat().st_size == 7:
            blob.unlink()
    told = only(tmp_path)
    assert (told["lacking"], told["lacks"]) == (2, ["README.md"])
    (top / "trees" / f"{COMMIT}.json").write_text("[]")
    assert only(tmp_path)["whole"] == "half"


def test_content_that_all_repositories_share_is_there(tmp_path: Path) -> None:
    """The library may keep a blob once for the whole cache, by another hash."""
    content = {"a": None}
    tree = {"a": {"size": 5, "blob_id": "b" * 40, "xet_hash": "ab" * 32}}
    assert measured(content, tree, {}, str(tmp_path))["missing_bytes"] == 5
    (tmp_path / "blobs" / "ab").mkdir(parents=True)
    (tmp_path / "blobs" / "ab" / ("ab" * 32)).write_bytes(b"12345")
    told = measured(content, tree, {}, str(tmp_path))
    assert (told["missing_bytes"], told["whole"]) == (0, "half")


def test_what_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the times of its directories; what is over the bounds is counted, and waits its turn."""
    top = make_repo(tmp_path, FILES)
    for path, _, _ in os.walk(top):
        os.utime(path, (1, 1))
    cache, original = HubCache(), hub_cache._read
    read: list[str] = []

    def noted(folder: str, name: str, budget: Any) -> Any:
        read.append(name)
        return original(folder, name, budget)

    monkeypatch.setattr(hub_cache, "_read", noted)
    first = cache.look(str(tmp_path))
    assert cache.look(str(tmp_path)) == first
    assert len(read) == 1
    (top / "snapshots" / COMMIT / "data" / "train.parquet").unlink()
    assert cache.look(str(tmp_path))["repos"][0]["commits"][COMMIT]["whole"] == "half"
    make_repo(tmp_path, FILES, name="models--lab--net", commit=OTHER)
    assert HubCache().look(str(tmp_path), entries=8) == {
        "folder": str(tmp_path), "repos": [], "unseen": 2
    }  # fmt: skip
    (tmp_path / "version.txt").write_text("1")
    (tmp_path / ".locks").mkdir()
    names = [one["name"] for one in cache.look(str(tmp_path))["repos"]]
    assert names == ["hf://datasets/lab/words", "hf://lab/net"]
    assert HubCache().look(str(tmp_path / "none"))["repos"] == []


def test_where_the_cache_is() -> None:
    """By the variables of the hub's library, the nearest first."""
    home = {"HOME": "/home/ada"}
    assert cache_folder(home) == "/home/ada/.cache/huggingface/hub"
    assert cache_folder({**home, "XDG_CACHE_HOME": "/c"}) == "/c/huggingface/hub"
    assert cache_folder({**home, "HF_HOME": "~/hf", "XDG_CACHE_HOME": "/c"}) == "/home/ada/hf/hub"
    assert cache_folder({**home, "HF_HOME": "/hf", "HF_HUB_CACHE": "/scratch/hub"}) == (
        "/scratch/hub"
    )


def test_names_and_folders() -> None:
    """A name leads to one folder of the cache and back; nothing else leads anywhere."""
    for folder, name in (
        ("datasets--lab--words", "hf://datasets/lab/words"),
        ("models--gpt2", "hf://gpt2"),
    ):
        assert (name_of(folder), folder_of(name)) == (name, folder)
    for name in ("hf://../x", "hf://a/b/c", "hf://a--b/c", "words", "hf://datasets/", "hf://a/.."):
        assert folder_of(name) == ""
    assert name_of("spaces--lab--demo") == name_of("models--../x") == ""


SIZES = st.one_of(st.none(), st.integers(0, 3))
PATHS = st.sampled_from(["a", "b", "c/d"])


@given(
    st.dictionaries(PATHS, SIZES),
    st.dictionaries(PATHS, st.tuples(st.integers(0, 3), st.sampled_from(["x", "y"]))),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 3)),
)
def test_the_runtime_counts_as_the_core_does(
    files: dict[str, int | None], listed: dict[str, tuple[int, str]], blobs: dict[str, int]
) -> None:
    """Bytes that are held and that are missing are those of `core.data.hub`, for any cache."""
    import json

    sizes = {blob: size for size, blob in listed.values()}
    tree = {path: {"size": sizes[blob], "blob_id": blob} for path, (_, blob) in listed.items()}
    text = json.dumps({"format_version": 1, "files": tree})
    listing = HubListing("models--n", {}, {COMMIT: files}, blobs, trees={COMMIT: text})
    (one,) = revisions(listing)
    told = measured(files, tree, blobs, "/nowhere")
    assert (told["bytes"], told["missing_bytes"]) == (one.held_bytes, one.missing_bytes)
    if told["whole"] == "proved":
        assert one.proved


def test_what_is_too_large_for_a_look_is_left_alone_for_a_while(tmp_path: Path) -> None:
    """It would be too large a minute later, too; others are seen all the same."""
    make_repo(tmp_path, {f"{n}.bin": b"%d" % n for n in range(40)}, name="datasets--lab--a-huge")
    make_repo(tmp_path, {"README.md": b"x"})
    cache = HubCache()
    assert cache.look(str(tmp_path), entries=30)["unseen"] == 2
    told = cache.look(str(tmp_path), entries=30)
    assert ([one["name"] for one in told["repos"]], told["unseen"]) == (
        ["hf://datasets/lab/words"],
        1,
    )
