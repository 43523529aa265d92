"""Removing what a job has left: however deep, however closed, and nothing beside it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from stellwerk.runtime.removing import remove_tree
from tests.runtime.rig import a_rig_of_nobody


def test_a_usual_tree_goes_and_its_neighbours_stay(tmp_path: Path) -> None:
    """Files, folders and links go; what the links point to stays."""
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "kept").write_text("kept")
    (top / "a" / "link").symlink_to(tmp_path / "beside")
    (top / "a" / "broken").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    assert remove_tree(str(top))
    assert sorted(os.listdir(tmp_path)) == ["beside"]
    assert (tmp_path / "beside" / "kept").read_text() == "kept"


def test_what_is_no_folder_and_what_is_not_there(tmp_path: Path) -> None:
    """A file or a link at the top is unlinked, and nothing is nothing to do."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("folder")
    for name in ("file", "link", "nothing"):
        assert remove_tree(str(tmp_path / name))
    assert os.listdir(tmp_path) == ["folder"]


def test_a_tree_deeper_than_calls_and_paths_can_be(tmp_path: Path) -> None:
    """A job gets so deep by `cd`, also past the 4096 bytes of a path."""
    dig = "import os\nfor _ in range(2_500): os.mkdir('d'); os.chdir('d'); os.mkfifo('f')"
    top = tmp_path / "top"
    top.mkdir()
    subprocess.run([sys.executable, "-c", dig], cwd=top, check=True)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = max(map(int, os.listdir("/proc/self/fd"))) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, files[1]))
    try:
        assert remove_tree(str(top))
        assert os.listdir(tmp_path) == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        # What is left of such a tree would break the end of each later test session.
        subprocess.run(["rm", "-rf", top], check=True)


def test_folders_that_are_closed_to_their_owner() -> None:
    """A user who is no root can't unlink in them, until they are opened again."""
    make = "mkdir -p work/a/b/c && touch work/a/b/c/f work/a/f && chmod -R a-rwx work/a; exit 0"
    with a_rig_of_nobody() as rig:
        rig.start_agent()
        assert rig.finish("closed", f"cd ..; {make}")["code"] == 0
        assert rig.client.ask("forget", run="closed")["removed"]
        trash = os.path.join(rig.root, "trash")
        rig.wait("an empty trash", lambda: not os.listdir(trash))
