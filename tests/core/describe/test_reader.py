"""A text gives values that know their places, or says why it can't; work is bounded beforehand."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.bounds import LARGEST_TEXT, MOST_VALUES
from stellwerk.core.describe.nodes import MOST_PROBLEMS, Node, Report
from stellwerk.core.describe.reader import read_documents
from stellwerk.core.model.errors import SpecError


def plain(text: str) -> object:
    """The first document as plain data; fails on any problem."""
    report = Report("f.yaml")
    documents = read_documents(text, report)
    assert not report.problems
    return documents[0].plain()


def refusal(text: str) -> tuple[str, int, int]:
    """Code and place of the first problem."""
    report = Report("f.yaml")
    read_documents(text, report)
    problem = report.problems[0]
    return (problem.code, problem.line, problem.column)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("1_000", 1000),
        ("010", 8),
        ("0x1F", 31),
        ("1:30", 90),
        ("1.5", 1.5),
        ("2e-5", "2e-5"),
        ("2024-01-01", "2024-01-01"),
        ("'3'", "3"),
        ("!!str 3", "3"),
        ("=", "="),
        ("plain text", "plain text"),
    ],
)
def test_scalars_are_those_of_yaml_1_1(written: str, value: object) -> None:
    """What PyYAML makes of them is what a task file has always meant."""
    assert plain(f"a: {written}") == {"a": value}


def test_places() -> None:
    """Every key and value has its line and column, counted from 1."""
    report = Report("f.yaml")
    (node,) = read_documents("a: 1\nb:\n  - x\n  - {c: d}\n", report)
    second = node.entries[1]
    assert (second.key_node.line, second.key_node.column) == (2, 1)
    inner = second.value.items[1].entries[0]
    assert (inner.value.line, inner.value.column) == (4, 9)


def test_several_documents() -> None:
    """An empty one counts as nothing."""
    report = Report("")
    documents = read_documents("a: 1\n---\n---\nb: 2\n", report)
    assert [node.plain() for node in documents] == [{"a": 1}, None, {"b": 2}]


def test_anchors_and_merges() -> None:
    """`<<` fills in what the map doesn't say; what stands in the map holds."""
    text = "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: {<<: [{a: 9}, *x]}"
    assert plain(text) == {"x": {"a": 1, "b": 2}, "y": {"b": 3, "a": 1}, "z": {"a": 9, "b": 2}}


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: b: c", "spec/yaml", 1, 5),
        ("run: |\n\tx\n", "spec/yaml", 2, 1),
        ("a:\n\tb: 1\n", "spec/yaml", 2, 1),
        ("a: [1, 2", "spec/yaml", 2, 1),
        ("a: 1\nb: *x", "spec/yaml", 2, 4),
        ("a: &a [*a]", "spec/alias", 1, 8),
        ("a: 1\nb: 2\na: 3", "spec/duplicate-key", 3, 1),
        ("a:\n  b: 1\n  b: 2", "spec/duplicate-key", 3, 3),
        ("a: !!python/object:os.x {}", "spec/tag", 1, 4),
        ("a: 2024-13-45", "spec/value", 1, 4),
        ("a: " + "9" * 5000, "spec/value", 1, 4),
        ("a: 1\nb: x\0y", "spec/character", 2, 5),
        ('a: "x\\0y"', "spec/character", 1, 4),
        ("a: x\x07", "spec/character", 1, 5),
        ("? [1]\n: 2", "spec/key", 1, 3),
        ("[" * 100 + "]" * 100, "spec/too-deep", 1, 65),
        ("a: {<<: 3}", "spec/merge", 1, 9),
        ("a: !!int x", "spec/value", 1, 4),
    ],
)
def test_what_cant_be_read(text: str, code: str, line: int, column: int) -> None:
    """Each fault has a code and the place where it is."""
    assert refusal(text) == (code, line, column)


def test_tabs_get_a_remedy() -> None:
    """The parser's own words wouldn't help anybody."""
    report = Report("f.yaml")
    read_documents("a:\n\tb: 1\n", report)
    assert "spaces" in report.problems[0].help


def test_duplicates_are_told_all_at_once_with_both_places() -> None:
    """The place of the second, and the line of the first in the message."""
    report = Report("f.yaml")
    read_documents("a: 1\na: 2\nb: 3\nb: 4", report)
    assert [problem.line for problem in report.problems] == [2, 4]
    assert "first in line 3" in report.problems[1].message


def laughs(levels: int, width: int) -> str:
    """Anchors that explode: every level refers to the one before, several times."""
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 20 * 1024 * 1024,
        "a: " + "é" * (LARGEST_TEXT // 2) + "\n",
        laughs(12, 9),
        "- x\n" * (MOST_VALUES + 1),
        "[" * 2_000_000,
        "{" * 1_000_000,
        "a: " + "'" * 1_999_999,
        "k: v\n" * 20_000,
    ],
    ids=["20MB", "2MiB", "laughs", "values", "brackets", "braces", "quotes", "duplicates"],
)
def test_the_largest_and_worst_is_answered_at_once(text: str) -> None:
    """A refusal costs less than half a second of work, and lists a bounded number of problems."""
    report = Report("f.yaml")
    began = time.process_time()
    read_documents(text, report)
    assert time.process_time() - began < 0.5
    assert 0 < len(report.problems) <= MOST_PROBLEMS
    assert max(len(problem.message) for problem in report.problems) < 300


def test_more_problems_than_anybody_reads_are_counted() -> None:
    """The report ends with how many more there are."""
    report = Report("f.yaml")
    for _ in range(MOST_PROBLEMS + 5):
        report.problem("spec/x", Node("scalar", 1, 1), "", "wrong")
    with pytest.raises(SpecError) as caught:
        report.finish()
    assert len(caught.value.problems) == MOST_PROBLEMS + 1
    assert "5 more" in caught.value.problems[-1].message


@given(st.text(alphabet=st.sampled_from("ab:- \n\t[]{}&*!|>'\"#%@,?<=\\0x1.~\0é"), max_size=80))
def test_no_text_raises(text: str) -> None:
    """Anything gives documents or problems."""
    report = Report("")
    for node in read_documents(text, report):
        node.plain()
