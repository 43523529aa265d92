"""The task files for data of the hub: real names, and no commit until somebody gives one."""

from pathlib import Path

import pytest

from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.task import Task

FILES = sorted((Path(__file__).resolve().parents[2] / "examples" / "hf-data").glob("*.yaml"))
COMMIT = "c0ffee" * 6 + "0123"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_commit_must_be_given(file: Path) -> None:
    """Without it the task is refused; with it that is what the script and the label name."""
    text = file.read_text()
    assert "REVISION: null" in text
    with pytest.raises(StellwerkError, match="REVISION"):
        read_tasks(text)
    task = read_tasks(text, env={"REVISION": COMMIT})
    assert isinstance(task, Task)
    assert task.wishes is not None
    (data,) = task.wishes.data
    name, _, commit = data.partition("@")
    assert (commit, task.envs["REVISION"]) == (COMMIT, COMMIT)
    assert f'"{name.removeprefix("hf://datasets/")}"' in task.run
    compile(task.run.partition("<<'END'\n")[2].partition("\nEND")[0], file.name, "exec")


def test_there_is_one_of_each_kind() -> None:
    """A text corpus, an image set, a speech set."""
    assert [file.stem for file in FILES] == ["images", "speech", "text"]
