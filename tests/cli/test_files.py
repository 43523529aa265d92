"""A job's files: listed, copied, and never anything beside them."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, run, show


@pytest.fixture
def files(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished job with files in each of its areas."""
    job = tmp_path / "job"
    for area in ("work", "outputs", "checkpoints"):
        (job / area / "sub").mkdir(parents=True)
        (job / area / "sub" / "a.txt").write_text(area)
    page = show(
        "digits",
        "Succeeded",
        work_dir=str(job / "work"),
        output_dir=str(job / "outputs"),
        checkpoint_dir=str(job / "checkpoints"),
    )
    server.on("GET", "/v1/workloads/digits", page)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return job


def test_files_are_listed(files: Path, stw: Stw) -> None:
    """In the work directory, or in an area that is named."""
    assert stw("ls", "digits", "-o", "name").lines == ["sub/"]
    assert stw("ls", "digits", "outputs:sub", "--columns", "name,size").lines == [
        "NAME\tSIZE",
        "a.txt\t7 B",
    ]


def test_a_link_shows_where_it_leads(files: Path, stw: Stw) -> None:
    """To people beside its name, to programs in a field; its name is its name."""
    (files / "work" / "sub" / "last").symlink_to("a.txt")
    assert [line.split("\t")[0] for line in stw("ls", "digits", "sub").lines] == [
        "NAME",
        "a.txt",
        "last -> a.txt",
    ]
    assert stw("ls", "digits", "sub", "-o", "name").lines == ["a.txt", "last"]
    told = json.loads(stw("ls", "digits", "sub", "-o", "json").out)
    assert [one["target"] for one in told] == ["", "a.txt"]


def test_each_listing_names_the_next_step(files: Path, stw: Stw) -> None:
    """A command that works as it stands, but for the file's name."""
    assert "stw cp digits:PATH .   or: stw ls digits outputs:" in stw("ls", "digits").err
    assert "stw cp digits:outputs:sub/PATH ." in stw("ls", "digits", "outputs:sub").err
    assert "stw cp digits:sub/a.txt ." in stw("ls", "digits", "sub/a.txt").err
    assert "help: stw ls digits outputs:" in stw("ls", "digits", "outputs").err
    assert "help: mkdir -p x/y" in stw("cp", "digits:sub/a.txt", "x/y/z").err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sub/a.txt", "work"),
        ("outputs:sub/a.txt", "outputs"),
        ("checkpoints:/sub/a.txt", "checkpoints"),
    ],
)
def test_a_file_is_copied(files: Path, stw: Stw, path: str, text: str) -> None:
    """Under its own name; what is there isn't overwritten unasked."""
    assert stw("cp", f"digits:{path}", ".").code == 0
    assert Path("a.txt").read_text() == text
    assert stw("cp", f"digits:{path}", ".").code == 1
    assert stw("cp", f"digits:{path}", ".", "--force").code == 0


def test_a_file_goes_to_standard_output(files: Path, stw: Stw) -> None:
    """By `-`, and nothing else does; a folder can't, and no file has that name then."""
    result = stw("cp", "digits:outputs:sub/a.txt", "-")
    assert (result.code, result.out, result.err) == (0, "outputs", "")
    assert stw("cp", "digits:outputs:", "-").code == 2
    assert not Path("-").exists()


def test_a_folder_is_copied_whole(files: Path, stw: Stw) -> None:
    """A whole area too, under the area's name."""
    assert "copied 1 file to ./outputs" in stw("cp", "digits:outputs:").err
    assert Path("outputs/sub/a.txt").read_text() == "outputs"


@pytest.mark.parametrize("path", ["../secret", "outputs:sub/../../work", "link"])
def test_no_path_leads_out_of_a_job(files: Path, stw: Stw, path: str) -> None:
    """Neither by dots nor through a link that a job made."""
    (files / "secret").write_text("")
    (files / "work" / "link").symlink_to("/etc")
    result = stw("ls", "digits", path)
    assert result.code == 2
    assert "leads out of" in result.err


def test_files_that_are_not_there_are_not_found(files: Path, server: FakeServer, stw: Stw) -> None:
    """A path, an area, or a job that hasn't run."""
    assert stw("ls", "digits", "nope").code == 3
    server.on("GET", "/v1/workloads/digits", show("digits", "Pending"))
    assert "hasn't run yet" in stw("ls", "digits").err
    server.on("GET", "/v1/workloads/digits", show("digits", "Failed", runs=[run(1)]))
    assert stw("ls", "digits").code == 3


def test_a_source_names_a_job(stw: Stw) -> None:
    """`NAME:PATH`, not a path alone."""
    assert stw("cp", "a.txt", ".").code == 2


def test_what_can_not_be_copied_is_named_and_the_rest_is(files: Path, stw: Stw) -> None:
    """Pipes and sockets are nothing to copy; each is told on a line of its own."""
    for name in ("one", "two"):
        os.mkfifo(files / "outputs" / "sub" / name)
    result = stw("cp", "digits:outputs:", "all")
    assert result.code == 1
    assert [line.partition(" wasn't")[0] for line in result.err.splitlines()] == [
        f"error[files/copy]  {files}/outputs/sub/{name}" for name in ("one", "two")
    ]
    assert Path("all/sub/a.txt").read_text() == "outputs"
