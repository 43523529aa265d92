"""Packing takes what git would take, names everything in the way, and reads nothing twice."""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stellwerk.client.pack import (
    Limits,
    Manifest,
    TooLargeError,
    pack,
    pack_sources,
    sha256,
)
from stellwerk.core.model.errors import StellwerkError

ALL = Limits(1000, 10**9)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def write(top: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)


def packed_paths(top: Path, cache: str) -> list[str]:
    return [entry.path for entry in pack(str(top), cache, ALL).manifest.files]


def git(top: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=top, check=True, capture_output=True)


def test_the_manifest_says_everything(top: Path, cache: str) -> None:
    """Files with mode, size and hash, links with their target, and empty folders."""
    write(top, {"b/run.sh": "#!/bin/sh\n", "a.txt": ""})
    (top / "b/run.sh").chmod(0o755)
    (top / "a.txt").chmod(0o640)
    (top / "link").symlink_to("a.txt")
    (top / "empty").mkdir()
    packed = pack(str(top), cache, ALL)
    assert msgspec.json.decode(packed.data) == {
        "v": 1,
        "commit": "",
        "dirty": False,
        "diff": "",
        "single": False,
        "files": [
            {"path": "a.txt", "mode": 0o640, "size": 0, "hash": sha256(b"")},
            {"path": "b/run.sh", "mode": 0o755, "size": 10, "hash": sha256(b"#!/bin/sh\n")},
            {"path": "empty", "dir": True},
            {"path": "link", "link": "a.txt"},
        ],
    }
    assert packed.hash == sha256(packed.data)
    assert (packed.file_count, packed.byte_count) == (2, 10)


def test_the_same_folder_gives_the_same_manifest(top: Path, cache: str) -> None:
    """The hash of the manifest names the content, not the time of packing."""
    write(top, {"a": "1", "b": "2"})
    assert pack(str(top), cache, ALL).hash == pack(str(top), cache, ALL).hash


def test_ignored_files_stay(top: Path, cache: str) -> None:
    """Patterns of every level count, the deeper one last; `.git` never comes along."""
    write(
        top,
        {
            ".git/config": "",
            ".gitignore": "*.log\n/out/\ncache/\n",
            "keep.py": "",
            "x.log": "",
            "out/big": "",
            "sub/out/small": "",
            "sub/cache/c": "",
            "sub/.gitignore": "!x.log\n*.tmp\n",
            "sub/x.log": "",
            "sub/a.tmp": "",
            "a.tmp": "",
        },
    )
    assert packed_paths(top, cache) == [
        ".gitignore",
        "a.tmp",
        "keep.py",
        "sub/.gitignore",
        "sub/out/small",
        "sub/x.log",
    ]


def test_gitignore_counts_only_inside_a_repository(top: Path, cache: str) -> None:
    """Without a repository above, the folder's own rules still hold."""
    write(top, {".gitignore": "*.log\n", "a.log": "", "b": ""})
    assert packed_paths(top, cache) == [".gitignore", "b"]


def test_skyignore_replaces_gitignore(top: Path, cache: str) -> None:
    """Where there is a `.skyignore`, only it counts."""
    write(top, {".skyignore": "data/\n", ".gitignore": "*.log\n", "a.log": "", "data/x": ""})
    assert packed_paths(top, cache) == [".gitignore", ".skyignore", "a.log"]


def test_rules_above_the_work_directory_count(top: Path, cache: str) -> None:
    """A work directory inside a repository obeys the repository."""
    git(top, "init", "-q")
    write(top, {".gitignore": "*.log\n/job/out/\n", "job/a.log": "", "job/out/x": "", "job/b": ""})
    (top / ".git/info/exclude").write_text("secret.txt\n")
    write(top, {"job/secret.txt": ""})
    assert packed_paths(top / "job", cache) == ["b"]


def test_tracked_files_come_along_whatever_the_rules_say(top: Path, cache: str) -> None:
    """As for git, a rule says nothing about a file that is tracked."""
    git(top, "init", "-q")
    write(top, {".gitignore": "data/\n", "data/small.csv": "1", "data/big.bin": "2"})
    git(top, "add", "-f", "data/small.csv", ".gitignore")
    assert packed_paths(top, cache) == [".gitignore", "data/small.csv"]


def test_commit_and_difference_are_recorded(top: Path, cache: str) -> None:
    """A clean tree has a commit, a changed one also the patch against it."""
    git(top, "init", "-q")
    write(top, {"a.py": "one\n"})
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    clean = pack(str(top), cache, ALL).manifest
    assert (len(clean.commit), clean.dirty, clean.diff) == (40, False, "")
    write(top, {"a.py": "two\n"})
    changed = pack(str(top), cache, ALL)
    patch = changed.sources[changed.manifest.diff]
    assert changed.manifest.dirty
    assert isinstance(patch, bytes)
    assert b"-one\n+two\n" in patch


def test_special_files_are_refused_by_name(top: Path, cache: str, tmp_path: Path) -> None:
    """All of them at once, each with what it is."""
    write(top, {"a": ""})
    os.mkfifo(top / "queue")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(top)
        listener.bind("door")
        with pytest.raises(StellwerkError) as caught:
            pack(str(top), cache, ALL)
    messages = [problem.message for problem in caught.value.problems]
    assert messages == [
        f"{top}/door is a socket, which can't be packed",
        f"{top}/queue is a named pipe, which can't be packed",
    ]


def test_names_that_are_no_text_are_refused(top: Path, cache: str) -> None:
    """A manifest is JSON; such a name can't stand in it."""
    with open(os.fsencode(top) + b"/bad\xff", "wb"):
        pass
    with pytest.raises(StellwerkError, match=r"bad\\\\xff has a name that isn't UTF-8|bad"):
        pack(str(top), cache, ALL)


def test_unreadable_files_are_named_all_at_once(
    top: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wants to learn of them one by one."""
    write(top, {"a": "1", "b": "2", "c": "3"})
    real = os.open

    def guarded(path: str, flags: int, *rest: int) -> int:
        if str(path).endswith(("/a", "/c")):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", guarded)
    with pytest.raises(StellwerkError) as caught:
        pack(str(top), cache, ALL)
    assert [problem.message for problem in caught.value.problems] == [
        f"{top}/a can't be read: Permission denied",
        f"{top}/c can't be read: Permission denied",
    ]


def test_many_problems_are_counted(top: Path, cache: str) -> None:
    """A thousand sockets are twenty lines and a number."""
    for number in range(30):
        os.mkfifo(top / f"p{number:02}")
    with pytest.raises(StellwerkError) as caught:
        pack(str(top), cache, ALL)
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1].message.startswith("10 more files")


@pytest.mark.parametrize("limits", [Limits(1, 10**9), Limits(10, 3)])
def test_a_large_folder_is_asked_about(top: Path, cache: str, limits: Limits) -> None:
    """Too many files or bytes stop before anything is read; without limits all is packed."""
    write(top, {"a": "12", "b": "34"})
    with pytest.raises(TooLargeError, match="--yes"):
        pack(str(top), cache, limits)
    assert pack(str(top), cache, None).file_count == 2


def test_links_that_lead_outside_are_told(top: Path, cache: str) -> None:
    """They are kept as they are, but a person should know."""
    (top / "sub").mkdir()
    (top / "up").symlink_to("../elsewhere")
    (top / "sub/near").symlink_to("../up")
    assert pack(str(top), cache, ALL).notices == (
        "up points outside the work directory, to ../elsewhere",
    )


def test_an_unchanged_file_is_not_read_again(
    top: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Size, time and inode stand for the content, but only of a file left alone for a while."""
    write(top, {"old": "1", "new": "2"})
    os.utime(top / "old", (1_000_000_000, 1_000_000_000))
    pack(str(top), cache, ALL)
    read: list[str] = []

    def noting(path: str) -> str:
        read.append(os.path.basename(path))
        return sha256(Path(path).read_bytes())

    monkeypatch.setattr("stellwerk.client.pack._hash_file", noting)
    first = pack(str(top), cache, ALL).hash
    assert read == ["new"]
    (top / "old").write_text("3")
    os.utime(top / "old", (1_000_000_001, 1_000_000_001))
    assert pack(str(top), cache, ALL).hash != first
    assert sorted(read) == ["new", "new", "old"]


def test_a_damaged_cache_is_forgotten(top: Path, cache: str) -> None:
    """The cache can be made again, so nothing in it can stop a submission."""
    write(top, {"old": "1"})
    os.utime(top / "old", (1_000_000_000, 1_000_000_000))
    before = pack(str(top), cache, ALL).hash
    for path in Path(cache, "hashes").iterdir():
        path.write_text("{not json")
    assert pack(str(top), cache, ALL).hash == before


def test_manifests_read_back(top: Path, cache: str) -> None:
    """The three kinds of entries are told apart by their fields."""
    write(top, {"a": "1"})
    packed = pack(str(top), cache, ALL)
    plain = msgspec.json.decode(packed.data)
    assert plain["files"] == [msgspec.to_builtins(entry) for entry in packed.manifest.files]
    assert isinstance(packed.manifest, Manifest)


def test_a_mount_of_a_file_is_that_file(top: Path, cache: str) -> None:
    """The manifest says that it is no folder; nothing else of the folder comes along."""
    write(top, {"a.json": "{}", "b": ""})
    packed = pack_sources([str(top / "a.json")], cache, ALL)
    assert packed.manifest.single
    assert [entry.path for entry in packed.manifest.files] == ["a.json"]
    assert packed.sources == {sha256(b"{}"): str(top / "a.json")}


def test_a_mount_of_an_ignored_folder_is_what_was_asked_for(top: Path, cache: str) -> None:
    """Rules of the repository around it don't count, its own do; and `.git` in it comes along."""
    git(top, "init", "-q")
    write(top, {".gitignore": "data/\n", "data/x": "1", "data/.gitignore": "*.tmp\n"})
    write(top, {"data/y.tmp": "", "data/.git/HEAD": ""})
    packed = pack_sources([str(top / "data")], cache, ALL)
    assert [entry.path for entry in packed.manifest.files] == [".git/HEAD", ".gitignore", "x"]
    assert not packed.manifest.single


def test_several_sources_lie_side_by_side(top: Path, cache: str) -> None:
    """Each under its own name, a link under the name that was written."""
    write(top, {"a/x": "1", "b.txt": "2", "c": ""})
    (top / "d").symlink_to("b.txt")
    packed = pack_sources([f"{top}/a/", f"{top}/b.txt", f"{top}/d"], cache, ALL)
    assert [entry.path for entry in packed.manifest.files] == ["a/x", "b.txt", "d"]


def test_one_file_does_not_cost_a_folder_its_hashes(
    top: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a packed folder is still there after a file of it was packed alone."""
    write(top, {"a": "1", "b": "2"})
    for name in ("a", "b"):
        os.utime(top / name, (1, 1))
    pack(str(top), cache, ALL)
    pack_sources([str(top / "a")], cache, ALL)
    monkeypatch.setattr("stellwerk.client.pack._hash_file", pytest.fail)
    assert packed_paths(top, cache) == ["a", "b"]


def test_lines_that_are_no_patterns_match_nothing(top: Path, cache: str) -> None:
    """As for git; the lines beside them hold."""
    write(top, {"keep.py": "", "data.bin": "", "z": ""})
    (top / ".gitignore").write_bytes(b"!\n\\\n[z-a]\n\xff\xfe\\\n***\\\n*.bin\n")
    assert packed_paths(top, cache) == [".gitignore", "keep.py", "z"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_rules_that_are_no_file_are_none(
    top: Path, cache: str, make: Callable[[Path], None]
) -> None:
    """A pipe of that name isn't waited for; it can't be packed either way."""
    write(top, {"keep.py": ""})
    make(top / ".skyignore")
    if make is os.mkfifo:
        with pytest.raises(StellwerkError, match="is a named pipe"):
            pack(str(top), cache, ALL)
    else:
        assert packed_paths(top, cache) == [".skyignore", "keep.py"]


def test_a_folder_far_too_large_is_not_looked_through(top: Path, cache: str) -> None:
    """A mistaken `workdir: /` is refused as soon as it is clear that it is too large."""
    for folder in range(10):
        write(top, {f"{folder}/{number}": "" for number in range(10)})
    with pytest.raises(TooLargeError) as caught:
        pack(str(top), cache, Limits(10, 10**9))
    assert "holds more than 30 files" in str(caught.value)
    with pytest.raises(TooLargeError) as caught:
        pack(str(top), cache, Limits(99, 10**9))
    assert "holds 100 files" in str(caught.value)
