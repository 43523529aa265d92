"""A text of many objects is divided into them, and read within bounds."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.bounds import Bounds
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.reader import each_object


def test_bounds() -> None:
    """A text of too many values is refused where it becomes too large; what came before counts."""
    report, found = Report("f"), list[Node]()
    text = "---\n".join(f"a{i}: [1, 2, 3]\n" for i in range(100))
    each_object(text, report, Bounds(values=200), found.append)
    assert [problem.code for problem in report.problems] == ["spec/too-large"]
    assert len(found) == 33
    small = Report("f")
    each_object(text, small, Bounds(text=100, what="a small file"), found.append)
    assert "a small file may have 0 MiB" in small.problems[0].message


PIECES = st.sampled_from(
    ["a: 1\n", "b: |\n  x\n  --- y\n", "# c\n", "c: '---'\n", "---\n", "--- {d: 1}\n", "...\n",
     "\n", "e: &x [1]\nf: *x\n", "g:\n- ---a\n", "--- |\n text\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=8))
def test_documents_are_divided_where_yaml_divides_them(pieces: list[str]) -> None:
    """The same documents as a YAML parser finds in a text that it can read."""
    text = "".join(pieces)
    try:
        expected = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError:
        return
    if any(text.count(f"{key}:") > 1 for key in "abcdefg"):
        return
    report, found = Report("f"), list[Node]()
    each_object(text, report, Bounds(), found.append)
    assert not report.problems
    assert [node.plain() for node in found if not node.is_null] == expected
