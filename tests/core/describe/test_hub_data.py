"""Data of the hub in task files: at a commit that somebody gave, and nothing else."""

import pytest

from stellwerk.core.data.names import is_commit, on_hub, trouble_of
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.task import Task

COMMIT = "c0ffee" * 6 + "0123"
TASK = """envs: {REVISION: null}
resources:
  labels: {stellwerk/data: "hf://datasets/lab/words@$REVISION, imgs@r3"}
run: cat
"""


def read(envs: dict[str, str]) -> Task:
    """The task with variables given."""
    task = read_tasks(TASK, env=envs)
    assert isinstance(task, Task)
    return task


def test_the_commit_is_a_variable_that_must_be_given() -> None:
    """It is filled in where the data is named, and the job finds it in its environment too."""
    task = read({"REVISION": COMMIT})
    assert task.wishes is not None
    assert task.wishes.data == (f"hf://datasets/lab/words@{COMMIT}", "imgs@r3")
    assert task.envs["REVISION"] == COMMIT


@pytest.mark.parametrize(("given", "code"), [({}, "spec/env"), ({"REVISION": "main"}, "spec/data")])
def test_no_commit_is_made_up(given: dict[str, str], code: str) -> None:
    """Without the variable, or with a branch, the task is refused in words."""
    with pytest.raises(StellwerkError) as refused:
        read(given)
    (problem,) = [one for one in refused.value.problems if one.code.startswith(code)]
    assert "REVISION" in problem.message or "`main` is no commit" in problem.message
    if given:
        assert problem.line == 3
        assert "git ls-remote https://huggingface.co/datasets/lab/words" in problem.help


def test_names_of_the_hub() -> None:
    """Models have no word before them; anything else than these two forms is said to be wrong."""
    assert [on_hub(one) for one in ("hf://a/b", "imgs")] == [True, False]
    assert [is_commit(one) for one in (COMMIT, COMMIT[:39], "main")] == [True, False, False]
    for right in (f"hf://gpt2@{COMMIT}", f"hf://datasets/a/b@{COMMIT}", "imgs@r3"):
        assert trouble_of(right) is None
    for wrong, code in (
        ("hf://datasets/a/b/c@x", "spec/data-name"),
        (f"hf://a--b/c@{COMMIT}", "spec/data-name"),
        (f"hf://../b@{COMMIT}", "spec/data-name"),
        ("hf://a/b", "spec/data-revision"),
        ("hf://a/b@v1.0", "spec/data-revision"),
    ):
        found = trouble_of(wrong)
        assert found is not None
        assert found.code == code
