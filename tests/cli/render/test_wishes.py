"""Wishes of a task, and what each cluster would take, on the page that explains."""

import msgspec

from stellwerk.cli.render import explain
from stellwerk.cli.terminal import Terminal
from stellwerk.client.wire import Explained

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=120)


def test_wishes_are_told_with_what_each_cluster_would_take() -> None:
    """The wishes in a line of their own; a cost, or else the price of an hour, and the end."""
    candidates = [
        {"cluster": "a", "verdict": "fits", "figures": {"cost_usd": 3.2, "finishes_s": 7800}},
        {"cluster": "b", "verdict": "fits", "figures": {"usd_per_hour": 2, "starts_s": 90}},
        {"cluster": "c", "verdict": "later", "figures": {}},
    ]
    decision = {"id": "d-1", "at_ms": NOW, "candidates": candidates}
    told = {"name": "x", "phase": "Pending", "decision": decision, "wishes": ["objective: cost"]}
    lines = explain.lines_of(msgspec.convert(told, Explained), SCREEN, NOW)
    assert lines[1] == "  its task wishes: objective: cost"
    assert [line.split()[0] for line in lines[3:]] == ["CLUSTER", "a", "b", "c"]
    assert "3.20 USD, over in 2 h 10 min" in lines[4]
    assert "2 USD an hour, starts in 1 min 30 s" in lines[5]
