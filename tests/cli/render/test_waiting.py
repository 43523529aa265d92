"""What somebody who waits is told beyond the reasons: who is before them, and what to type."""

import msgspec

from stellwerk.cli.render import explain, reasons
from stellwerk.cli.terminal import Terminal
from stellwerk.client import wire
from stellwerk.core.model.reasons import RenderedReason

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=100)


def test_who_holds_what_is_waited_for_is_told() -> None:
    """For how long already, and when it is free again as far as somebody knows."""
    hour = 3_600_000
    holder = {"id": "w-9", "owner": "ada", "cluster": "k017", "since_ms": NOW - 2 * hour}
    explained = msgspec.convert(
        {
            "name": "x",
            "phase": "Pending",
            "holders": [
                {**holder, "name": "fit", "holds": "4 CPUs", "likely_ms": NOW, "latest_ms": NOW},
                {**holder, "name": "eval", "holds": "1 CPU"},
            ],
            "more_holders": 3,
        },
        wire.Explained,
    )
    [_, _, head, fit, other, more] = explain.lines_of(explained, SCREEN, NOW)
    assert head.split() == "HELD BY OWNER CLUSTER HOLDS FOR FREE AGAIN".split()
    assert fit.split()[:6] == ["fit", "ada", "k017", "4", "CPUs", "2"]
    assert "at the latest" in fit
    assert other.endswith("not known: no time limit, no earlier run of it")
    assert more == "  and 3 more hold less"


def test_numbers_are_those_of_now_and_passing_has_an_end() -> None:
    """What would be decided now stands before what was decided once, and says as of when."""
    holder = {"id": "w-9", "name": "later", "owner": "ada", "cluster": "lab", "holds": "1 CPU"}
    candidate = {"cluster": "lab", "verdict": "later"}
    told = {"id": "d-old", "at_ms": NOW - 600_000, "candidates": [{**candidate, "wants": "old"}]}
    fields = {
        "name": "x",
        "phase": "Pending",
        "decision": told,
        "current": {
            "id": "d-new",
            "at_ms": NOW,
            "candidates": [{**candidate, "shortfalls": [{"resource": "CPUs", "text": "1 free"}]}],
        },
        "holders": [{**holder, "since_ms": NOW, "passed": True}],
        "passed_until_ms": NOW + 60_000,
    }
    lines = explain.lines_of(msgspec.convert(fields, wire.Explained), SCREEN, NOW)
    assert lines[0].startswith("x waits (as of ")
    assert any("1 free" in line for line in lines)
    assert "  later came later and passed it, into room that it couldn't use" in lines
    assert any(line.startswith("  smaller work may pass it until ") for line in lines)
    fields["passed_until_ms"] = NOW - 1
    lines = explain.lines_of(msgspec.convert(fields, wire.Explained), SCREEN, NOW)
    assert any("what it needs is kept for it, where it is nearest" in line for line in lines)


def test_a_remedy_names_the_workload() -> None:
    """What stands for a name in the catalogue is the name on the screen."""
    remedy = "`stw rerun NAME --resume` goes on"
    rendered = RenderedReason("time_limit", "ended", "you", "it ran too long", remedy, {})
    told = reasons.in_full([rendered], name="fit")
    assert told[1] == "    -> `stw rerun fit --resume` goes on"
