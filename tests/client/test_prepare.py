"""What a submission brings along: the code, the mounts, and a word about what is missing."""

from pathlib import Path

import pytest

from stellwerk.client.prepare import Prepared, Wish, prepare
from stellwerk.config import load
from stellwerk.core.model.errors import StellwerkError


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with some code and data, in which the caller is."""
    for path, text in {"code/uv.lock": "1", "code/main.py": "2", "data/x": "3", "one": "4"}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepared(text: str) -> Prepared:
    return prepare(Wish(text=f"{text}\nrun: x"), load())


def refusal(text: str) -> tuple[str, str]:
    with pytest.raises(StellwerkError) as caught:
        prepared(text)
    [problem] = caught.value.problems
    assert problem.help
    return problem.code, problem.message


def test_all_that_a_task_brings_is_packed(desk: Path) -> None:
    """Relative sources start at the caller's folder; buckets and URIs have nothing to pack."""
    found = prepared(
        "workdir: code\nfile_mounts:\n  ~/data: data\n  /etc/one: ./one\n"
        "  /b: {name: b, source: [data, one]}\n  /c: {name: c}\n  /d: s3://x/y"
    )
    paths = {target: [e.path for e in one.manifest.files] for target, one in found.mounts.items()}
    assert paths == {"~/data": ["x"], "/etc/one": ["one"], "/b": ["data/x", "one"]}
    assert found.submission.mounts == {target: one.hash for target, one in found.mounts.items()}
    assert [found.mounts[target].manifest.single for target in paths] == [False, True, False]
    assert len(found.everything) == 4


def test_a_label_of_ours_counts_like_its_flag() -> None:
    """A flag that is given too holds before it; labels of others stay labels."""
    labels = {"stellwerk/time-limit": "2h", "stellwerk/priority": "5", "team": "x"}
    for given in ({"text": "run: x"}, {"argv": ("true",)}):
        wish = Wish(labels=labels, overrides={"priority": 7}, **given)
        submission = prepare(wish, load()).submission
        assert submission.overrides == {"time_limit": "2h", "priority": 7}
        assert submission.labels == {"team": "x"}


def test_a_label_of_ours_that_would_have_no_effect_is_refused() -> None:
    """Because it belongs into the file, is misspelt, or isn't one; all of them at once."""
    names = ("abort-when", "time-limt", "zzzzzz")
    labels = {f"stellwerk/{name}": "1" for name in names}
    wish = Wish(text="run: x", labels=labels, overrides={"cpus": "z"})
    with pytest.raises(StellwerkError) as caught:
        prepare(wish, load())
    assert [problem.help for problem in caught.value.problems] == [
        "write it there, below `labels` of `resources`",
        "did you mean `stellwerk/time-limit`?",
        "labels of your own don't begin with `stellwerk/`",
        "write a number of CPUs such as `4`, `0.5` or `500m`, or `4+` for at least 4",
    ]


def test_sources_that_are_missing_are_told_together(desk: Path) -> None:
    """Each with its full path and its target."""
    with pytest.raises(StellwerkError) as caught:
        prepared("file_mounts: {~/a: ./nowhere, ~/b: data, /c: {name: c, source: gone}}")
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [
        ("mount/missing", "file_mounts.~/a"),
        ("mount/missing", "file_mounts./c"),
    ]
    assert str(desk / "nowhere") in caught.value.problems[0].message


@pytest.mark.parametrize("inputs", ["auto", "none", "uv.lock", "uv.*, main.py"])
def test_setups_inputs_that_are_there(desk: Path, inputs: str) -> None:
    """By name, by pattern; the usual ones need not be."""
    label = f"resources: {{labels: {{stellwerk/setup-cache: '{inputs}'}}}}"
    assert prepared(f"workdir: code\nsetup: x\n{label}").packed is not None


def test_a_setups_input_that_is_not_there(desk: Path) -> None:
    """A mistyped name would be a setup that is never made anew."""
    label = "resources: {labels: {stellwerk/setup-cache: uv.lok}}"
    for text in (f"workdir: code\n{label}", label):
        code, message = refusal(text)
        assert code == "spec/setup-cache"
        assert "depends on `uv.lok`, which isn't in the work directory" in message


def test_all_that_is_missing_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work directory and the sources of mounts, before anything is packed."""
    monkeypatch.chdir(tmp_path)
    text = "workdir: nowhere\nfile_mounts: {/a: ./no, /b: ./nor}\nrun: x\n"
    with pytest.raises(StellwerkError) as caught:
        prepare(Wish(text=text), load())
    assert [one.code for one in caught.value.problems] == [
        "workdir/missing",
        "mount/missing",
        "mount/missing",
    ]
