"""An image by apptainer, where neither podman nor docker is: once per name, whole or not at all.

The tool is a stand-in that writes as apptainer does; nothing here has met the real one.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from stellwerk.runtime import images, leftovers, namespaces
from stellwerk.runtime.errands import ErrandError
from tests.runtime.little_image import NAME, apptainer_alone
from tests.runtime.rig import Rig


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found."""
    folder = tmp_path / "tools"
    apptainer_alone(folder)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fetched(tmp_path: Path, name: str = NAME) -> dict[str, object]:
    answer = tmp_path / "image.json"
    images.fetch(name, str(tmp_path / "images"), str(tmp_path / "log"), str(answer))
    found: dict[str, object] = json.loads(answer.read_text())
    return found


def opened_for_its_reader(pipe: Path) -> IO[bytes]:
    deadline = time.monotonic() + 20
    while True:
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError:
            assert time.monotonic() < deadline, "nobody reads"
            time.sleep(0.01)


def folders(tmp_path: Path) -> list[str]:
    return leftovers.names_in(tmp_path / "images")


@pytest.mark.skipif(namespaces.trouble() is not None, reason="this machine allows no namespaces")
def test_a_job_runs_in_files_of_apptainer(own_rig: Rig) -> None:
    """With the image's variables; the second run finds the files, and gc sees what is used."""
    tools = Path(own_rig.folder, "tools")
    apptainer_alone(tools)
    own_rig.start_agent(env={"PATH": str(tools)})
    for run in ("first", "second"):
        end = own_rig.finish(run, "cat /etc/in-image; echo $FROM_IMAGE $PATH", image=NAME)
        assert (end["how"], end["code"], end["message"]) == ("exited", 0, "")
        assert own_rig.log(run).splitlines() == [
            "in the image", "yes /usr/local/bin:/usr/bin:/bin",
        ]  # fmt: skip
    assert own_rig.log("first", "setup.log") == "INFO:    Starting build...\n"
    [asked] = (tools / "asked").read_text().splitlines()
    [kept] = leftovers.names_in(Path(own_rig.root, "images"))
    assert asked == f"build --sandbox {kept}.unfinished docker://{NAME}"
    assert leftovers.unused_images(Path(own_rig.root)) == []
    assert own_rig.client.ask("probe")["facts"]["image_tool"] == "apptainer"
    end = own_rig.finish("none", "echo never", image="nobody/nothing:1")
    assert end["how"] == "spawn_failed"
    assert end["message"] == (
        "`apptainer build docker://nobody/nothing:1` failed: "
        "FATAL:   While performing build: no such image"
    )


def test_a_folder_is_whole_or_not_there(tmp_path: Path, tools: Path) -> None:
    """Half of one from before is thrown away, and so is what a failed build has left."""
    whole = Path(str(fetched(tmp_path)["files"]))
    whole.rename(f"{whole}.unfinished")
    Path(f"{whole}.unfinished", "stray").touch()
    assert fetched(tmp_path)["env"] == {"PATH": "/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE": "yes"}
    assert folders(tmp_path) == [whole.name]
    assert not (whole / "stray").exists()
    with pytest.raises(ErrandError, match="no such image"):
        fetched(tmp_path, "another/image:1")
    assert folders(tmp_path) == [whole.name]
    assert len((tools / "asked").read_text().splitlines()) == 3


def test_variables_that_cannot_be_read_end_it(tmp_path: Path, tools: Path) -> None:
    """The job isn't started without them, now or the next time."""
    (tools / "env.sh").write_text('#!/bin/sh\nexport A="$(id)"\n')
    for _ in range(2):
        with pytest.raises(ErrandError, match="variables can't be read: 'A="):
            fetched(tmp_path)
    assert not (tmp_path / "image.json").exists()


def test_what_outlives_a_run_keeps_its_turn(tmp_path: Path, tools: Path) -> None:
    """Nobody writes where an orphan still does, and gc takes nothing away under it."""
    (tools / "apptainer").write_text(f"#!{sys.executable}\nopen({str(tmp_path / 'go')!r}).read()\n")
    os.mkfifo(tmp_path / "go")
    code = f"from stellwerk.runtime import images; images.fetch('a', {str(tmp_path / 'images')!r}, "
    code += f"{str(tmp_path / 'log')!r}, {str(tmp_path / 'answer')!r})"
    fetching = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    with opened_for_its_reader(tmp_path / "go"):
        fetching.kill()
        fetching.wait()
        [lock] = (tmp_path / "images").glob("*.lock")
        with lock.open("rb") as turn, pytest.raises(BlockingIOError):
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open("rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)


def test_which_tool_is_taken(tools: Path, tmp_path: Path) -> None:
    """Podman before docker before apptainer, which may go by its older name."""
    (tools / "apptainer").rename(tools / "singularity")
    assert images.find_tool() == "singularity"
    assert "FROM_IMAGE" in str(fetched(tmp_path)["env"])
    for tool in ("apptainer", "docker", "podman"):
        (tools / tool).write_text("#!/bin/sh\n")
        (tools / tool).chmod(0o755)
        assert images.find_tool() == tool
