"""All that is wrong with a command line is told at once, with what is wrong in the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.cli.commands.run import command as run
from stellwerk.cli.usage import PROBLEMS
from tests.cli.conftest import Stw
from tests.cli.jobs import Job


def codes(text: str) -> list[str]:
    """The codes of the errors, in the order in which they are told."""
    return [line.split("]")[0].removeprefix("error[") for line in text.splitlines() if "[" in line]


@pytest.mark.parametrize(
    ("verb", "outcome"), [("run", "nothing was submitted"), ("plan", "nothing was planned")]
)
def test_every_wrong_flag_and_every_wrong_line_is_told(
    job: Job, stw: Stw, verb: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown options, wrong values, variables that aren't set, and the faults of the file."""
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("acelerators: 1\nresources: {memory: 64Q}\nrun: x\n")
    flags = (
        "--memry 16 --num-nodes x --priority 9999 --time-limit 90 --env NOT_SET_HERE "
        "--secret NOR_HERE --secret X=1 -l nolabel --env-file nowhere --gpu-memroy=4Gi"
    )
    result = stw(verb, "bad.yaml", *flags.split())
    assert result.code == 2
    assert codes(result.err) == [
        *["usage/option"] * 2,
        "usage/file",
        "usage/env",
        *["usage/secret"] * 2,
        "usage/label",
        *["spec/value"] * 3,
        "spec/unknown-field",
        "spec/value",
    ]
    assert result.err.splitlines()[-1] == f"12 errors, {outcome} (exit 2)"
    assert "there is no option `--memry`  help: did you mean `--memory`?" in result.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["task.yaml", "more"], ["usage/arguments"]),
        (["task.yaml", "--bogus", "more"], ["usage/option"]),
        (["task.yaml", "-o", "xml", "--quiet=1"], ["usage/value"] * 2),
        (["task.yaml", "--name"], ["usage/value"]),
        (["task.yaml", "--env", "A=1", "--env"], ["usage/value"]),
        (["-x", "--", "true"], ["usage/option"]),
        (["--detac", "task.yaml"], ["usage/option"]),
        ([], ["usage/what"]),
        (["a.py", "--detac"], ["usage/option", "usage/what"]),
        (["--cpus", "x", "--nam", "a b", "--", "true"], ["usage/option", "spec/value"]),
    ],
)
def test_one_fault_is_told_once(
    job: Job, stw: Stw, task: str, words: list[str], expected: list[str]
) -> None:
    """Without others that only follow from it."""
    result = stw("run", *words)
    assert (result.code, codes(result.err)) == (2, expected)


def test_help_is_given_whatever_else_was_typed(stw: Stw) -> None:
    """Somebody who asks for help gets it."""
    assert "Submit a task file" in stw("run", "--bogus", "--help").out


WORDS = ["--name", "-o", "json", "-q", "--env", "A=1", "x", "-dq", "--bogus", "--quiet=1", "-xq"]


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_reading_on_always_comes_to_an_end(words: list[str]) -> None:
    """Whatever the words and their order; the right ones among them count."""
    with run.make_context("run", list(words)) as context:
        problems = context.meta[PROBLEMS]
    assert len(problems) <= len(words)
    assert problems or words[:1] not in (["--bogus"], ["--quiet=1"], ["-xq"])
