"""A text of many objects is divided into them, and read within bounds."""

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe import fleet_gather, fleet_nodes
from stellwerk.core.describe.bounds import Bounds
from stellwerk.core.describe.fleet import read_fleet
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


def test_very_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few words can mean very many machines: the count is bounded in a cluster and in a file."""
    head = "{apiVersion: stellwerk/v1, kind: Cluster, name: c%d, nodes: [%s]}\n"
    entry = "{names: '%s[001-%d]', cpus: 1, memory: 1}"
    monkeypatch.setattr(fleet_nodes, "MOST_NODES", 50)
    (problem,) = read_fleet(
        head % (0, ", ".join(entry % (f"n{i}-", 20) for i in range(9)))
    ).problems
    assert problem.code == "spec/too-large"
    assert "50 nodes" in problem.message
    monkeypatch.setattr(fleet_gather, "MOST_NODES", 90)
    found = read_fleet("---\n".join(head % (i, entry % ("n", 20)) for i in range(30)))
    assert [problem.code for problem in found.problems] == ["spec/too-large"]
    assert "90 nodes" in found.problems[0].message
    assert len(found.fleet.clusters) == 5


def test_many_slips_cost_little() -> None:
    """When enough is told, nobody looks for what may have been meant."""
    began = time.process_time()
    slip = "{apiVersion: stellwerk/v1, kind: Cluster, name: c%d, speeed: 1, holds: [x%d@y]}\n"
    found = read_fleet("---\n".join(slip % (i, i) for i in range(5000)))
    assert len(found.problems) == 101
    assert found.problems[-1].message.startswith("and 4900 more")
    assert time.process_time() - began < 5


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
