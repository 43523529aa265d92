"""What a run finds before it starts: mounts in and beside its work directory, and setup's key."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.drivers.agents import layout
from stellwerk.drivers.agents.layout import setup_key
from stellwerk.drivers.base import DriverError, MountOrder, StartOrder
from stellwerk.drivers.local.layout import Laid, lay_out, remove_layout
from stellwerk.drivers.local.workdir import merge_into
from stellwerk.testing.builders import an_order
from tests.drivers.machine import Blobs


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    found = Blobs(tmp_path / "blobs")
    for name in ("one", "two"):
        found.put(name, name.encode())
    return found


def manifest(blobs: Blobs, name: str, paths: dict[str, str], *, single: bool = False) -> str:
    """A manifest of files whose content is `one` or `two`."""
    files = [{"path": path, "size": 3, "hash": content} for path, content in paths.items()]
    blobs.put(name, json.dumps({"v": 1, "files": files, "single": single}).encode())
    return name


def an_order_with(*mounts: MountOrder, **fields: object) -> StartOrder:
    """An order of run `w-1-1` in generation 1."""
    return replace(an_order(), mounts=mounts, **fields)


def laid(order: StartOrder, tmp_path: Path, blobs: Blobs) -> Laid:
    return lay_out(order, tmp_path / "root", blobs)


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_mounts_in_the_work_directory_lie_over_the_code(tmp_path: Path, blobs: Blobs) -> None:
    """A file or folder of a mount replaces what the code has at that place; the rest stays."""
    code = manifest(blobs, "code", {"a.txt": "one", "conf/x": "one", "conf/y": "one"})
    folder = manifest(blobs, "folder", {"y": "two", "z": "two"})
    file = manifest(blobs, "file", {"settings.json": "two"}, single=True)
    order = an_order_with(
        MountOrder("~/sky_workdir/conf", snapshot=folder),
        MountOrder("~/sky_workdir/a.txt", snapshot=file),
        snapshot=code,
    )
    found = laid(order, tmp_path, blobs)
    work = Path(found.spec["cwd"])
    assert files_in(work) == {"a.txt": "two", "conf/x": "one", "conf/y": "two", "conf/z": "two"}
    assert "mounts" not in found.spec
    assert found.made == [str(work)]
    assert laid(order, tmp_path, blobs).made == []


def test_other_mounts_lie_beside_it(tmp_path: Path, blobs: Blobs) -> None:
    """Content is made for this run; folders of the machine and secrets are only named."""
    folder = manifest(blobs, "folder", {"y": "two"})
    file = manifest(blobs, "file", {"s.json": "one"}, single=True)
    order = an_order_with(
        MountOrder("~/data", snapshot=folder),
        MountOrder("/etc/app/settings", snapshot=file),
        MountOrder("/ckpt", folder="/bucket", read_only=True),
        MountOrder("~/copy", folder="/bucket", copy=True),
        MountOrder("~/.key", secret="KEY"),
        sky_workdir=True,
    )
    found = laid(order, tmp_path, blobs)
    mounts = tmp_path / "root" / "mounts" / "w-1-1.1"
    assert found.spec["mounts"] == [
        {"target": "~/data", "source": str(mounts / "0")},
        {"target": "/etc/app/settings", "source": str(mounts / "1" / "s.json")},
        {"target": "/ckpt", "source": "/bucket", "read_only": True},
        {"target": "~/copy", "source": "/bucket", "copy": True},
        {"target": "~/.key", "secret": "KEY"},
    ]
    assert found.spec["sky_workdir"] is True
    assert "cwd" not in found.spec
    assert files_in(mounts) == {"0/y": "two", "1/s.json": "one"}
    remove_layout(tmp_path / "root", "w-1-1")
    assert os.listdir(tmp_path / "root" / "mounts") == []


def test_what_was_made_is_taken_back_when_something_is_missing(
    tmp_path: Path, blobs: Blobs
) -> None:
    """No half of a run's files stays behind."""
    code = manifest(blobs, "code", {"a": "one"})
    order = an_order_with(MountOrder("~/data", snapshot="nowhere"), snapshot=code)
    with pytest.raises(DriverError, match="isn't in the blob store"):
        lay_out(order, tmp_path / "root", blobs)
    assert list(tmp_path.glob("root/work/*")) == []


@pytest.mark.parametrize("fault", [RecursionError("too deep"), MemoryError(), OSError(24, "files")])
def test_a_fault_while_laying_out_is_a_final_refusal(
    tmp_path: Path, blobs: Blobs, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was started, so it can be said for sure; what was made before is taken back."""

    def break_down(*_: object) -> str:
        raise fault

    monkeypatch.setattr(layout, "setup_key", break_down)
    code = manifest(blobs, "code", {"a": "one"})
    order = replace(an_order_with(snapshot=code), setup="make", setup_inputs=())
    with pytest.raises(DriverError) as caught:
        lay_out(order, tmp_path / "root", blobs)
    assert (caught.value.code, caught.value.final) == ("driver/fault", True)
    assert type(fault).__name__ in caught.value.message
    assert list(tmp_path.glob("root/work/*")) == []


@pytest.mark.parametrize("target", ["~/sky_workdir", "~/sky_workdir/a/b"])
def test_what_stands_in_the_way_is_named(tmp_path: Path, blobs: Blobs, target: str) -> None:
    """A file can't be the work directory, and nothing lies below a file."""
    code = manifest(blobs, "code", {"a": "one"})
    file = manifest(blobs, "file", {"x": "one"}, single=True)
    order = an_order_with(MountOrder(target, snapshot=file), snapshot=code)
    with pytest.raises(DriverError, match=r"can't be"):
        lay_out(order, tmp_path / "root", blobs)


def test_a_setups_key_says_what_it_depends_on(tmp_path: Path, blobs: Blobs) -> None:
    """Its text, the named files, the variables it speaks of and the mounts; nothing else."""
    files = {"uv.lock": "one", "train.py": "one"}
    order = replace(
        an_order(setup="uv sync --index $INDEX", env={"INDEX": "a", "LR": "1"}),
        snapshot=manifest(blobs, "code", files),
        setup_inputs=("uv.lock",),
    )
    key = setup_key(order, blobs)

    def other(**fields: object) -> bool:
        return setup_key(replace(order, **fields), blobs) != key

    assert not other(env={"INDEX": "a", "LR": "2"})
    assert not other(snapshot=manifest(blobs, "edited", {**files, "train.py": "two"}))
    assert not other(run=an_order("w-2-1").run)
    assert other(env={"INDEX": "b", "LR": "1"})
    assert other(snapshot=manifest(blobs, "locked", {**files, "uv.lock": "two"}))
    assert other(snapshot=manifest(blobs, "without", {"train.py": "one"}))
    assert other(setup="uv sync --all-groups --index $INDEX")
    assert other(mounts=(MountOrder("/wheels", snapshot="folder"),))
    assert other(setup_inputs=("uv.lock", "train.py"))
    assert "setup_key" not in laid(replace(order, setup_inputs=None), tmp_path, blobs).spec
    assert laid(order, tmp_path, blobs).spec["setup_key"] == key


def test_content_is_put_into_a_bucket_that_has_its_own(tmp_path: Path, blobs: Blobs) -> None:
    """Files of others stay, changed ones are replaced, equal ones aren't touched."""
    digest = hashlib.sha256(b"new").hexdigest()
    blobs.put(digest, b"new")
    content = manifest(blobs, "content", {"a": digest, "sub/b": digest})
    bucket = tmp_path / "bucket"
    (bucket / "sub").mkdir(parents=True)
    (bucket / "a").write_text("old")
    (bucket / "sub" / "b").write_text("new")
    (bucket / "sub" / "others").write_text("x")
    before = (bucket / "sub" / "b").stat().st_mtime_ns
    merge_into(str(bucket), content, blobs)
    assert files_in(bucket) == {"a": "new", "sub/b": "new", "sub/others": "x"}
    assert (bucket / "sub" / "b").stat().st_mtime_ns == before


def test_no_content_leaves_a_bucket_through_a_link(tmp_path: Path, blobs: Blobs) -> None:
    """A job that puts a link into its bucket gets nobody's files written elsewhere."""
    content = manifest(blobs, "content", {"link/x": "one"})
    outside, bucket = tmp_path / "outside", tmp_path / "bucket"
    for folder in (outside, bucket):
        folder.mkdir()
    (bucket / "link").symlink_to(outside)
    with pytest.raises(DriverError, match="through a link"):
        merge_into(str(bucket), content, blobs)
    assert os.listdir(outside) == []
