"""A machine at which somebody sits: nothing comes there, and it is said why."""

import msgspec
import pytest

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Node
from stellwerk.core.model.reports import RunReport
from stellwerk.core.place.candidates import _not_ready
from stellwerk.drivers.agents.translate import report_of
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.machine import in_use, unseen
from stellwerk.testing.builders import a_cluster, a_node

TAKEN = {"taken": True, "since_ms": 1_700_000_060_000}


def test_a_taken_machine_gets_nothing_and_says_so() -> None:
    """With when it began by this clock, and what helps."""
    node = in_use(a_node("pc01"), TAKEN, 60_000)
    reason = _not_ready(a_cluster("k017", node))
    assert (node.state, reason.code) == ("in_use", "console_in_use")
    told = render(reason)
    assert "somebody sits there since 2023-11-14 22:13 UTC" in told.sentence
    assert "console=ignore" in told.remedy


@pytest.mark.parametrize("state", [{}, {"taken": False}, {"taken": "yes"}, {"taken": None}])
def test_one_that_nobody_takes_is_as_it_is(state: dict[str, object]) -> None:
    """Also where a runtime says nothing of it, or nonsense."""
    node: Node = a_node("pc01")
    assert in_use(node, state, 0) is node


def test_why_a_run_was_told_travels() -> None:
    """As a notice of its place, which the core journals."""
    said = {"run": "w-1-1", "state": "stopping", "status": {"notice": {"why": "console"}}}
    report = report_of("k017", said)
    assert (report.phase, report.why) == ("Stopping", "console")
    assert msgspec.json.decode(msgspec.json.encode(report), type=RunReport) == report


def test_a_rule_that_cannot_be_kept_is_told() -> None:
    """Where it was asked for; by default nobody waits for it."""
    asked = Host("pc01", console="notice")
    assert unseen(asked, {"seen_by": "logind"}) == []
    assert "neither a seat" in unseen(asked, {"taken": False, "seen_by": ""})[0]
    assert "too old" in unseen(asked, {})[0]
    assert unseen(Host("pc01"), {}) == []
