"""One candidate, what if, and why it was decided otherwise: to the letter."""

from typing import Any

import msgspec
import pytest

from stellwerk.cli.render import explain, explain_cluster, explain_if
from stellwerk.cli.terminal import Terminal
from stellwerk.client.explains import IfAnswer, OnCluster
from stellwerk.client.placements import Difference
from tests.client.fake_server import reason

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=100)
NO_ROOM = reason(
    "no_room", "capacity", "4 A100 asked, 2 free on rack", "wait until running work ends", "time"
)
MEANT = "; ".join(f"{name}: {explain.MEANINGS[name]}" for name in ("room", "preference"))
NOT_CHOSEN = reason("not_chosen", "blocked", "not chosen", "see the placement", "queue owner")


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()


def on_cluster(**fields: Any) -> list[str]:
    """The lines about one candidate."""
    told = {"name": "train", "cluster": "rack", "at_ms": NOW, **fields}
    return explain_cluster.lines_of(msgspec.convert(told, OnCluster), SCREEN, NOW)


def test_a_candidate_that_lacks_room() -> None:
    """The reason, both ways in as they can be asked about, and the nodes."""
    one = {
        "verdict": "later",
        "reasons": [NO_ROOM],
        "shortfalls": [{"resource": "A100", "text": "A100: 4 wanted, 2 free, 8 at most"}],
        "ways": [
            [{"text": "ask for A100: 4 -> 2", "change_if": "ask gpus=2"}],
            [{"text": "4 accelerators of rack free", "change_if": "free rack gpus=4"}],
        ],
        "nodes": [
            {"node": "n1", "why": "A100: 4 wanted, 2 free, 8 at most"},
            {"node": "n10", "why": "unreachable"},
        ],
        "more_nodes": 3,
    }
    assert on_cluster(alternatives=[one]) == [
        "train on rack: later (as of 22:14:20)",
        "  capacity: 4 A100 asked, 2 free on rack  [no_room]",
        "    -> time: wait until running work ends",
        "  it could start there if",
        "    ask for A100: 4 -> 2  (--if 'ask gpus=2')",
        "  or if",
        "    4 accelerators of rack free  (--if 'free rack gpus=4')",
        "  node n1   A100: 4 wanted, 2 free, 8 at most",
        "  node n10  unreachable",
        "  and 3 nodes more",
    ]


def test_one_that_fits_and_one_that_was_taken() -> None:
    """Its scores, and by how much it is behind; each alternative by itself."""
    chosen = {"verdict": "chosen", "wants": "1xA100", "scores": {"room": 60}, "total": 60}
    fits = {
        "verdict": "fits",
        "wants": "1xL4",
        "scores": {"room": 50, "preference": -1000},
        "total": -950,
        "behind": 1010,
        "nodes": [{"node": "n1", "fits": 2}],
    }
    lines = on_cluster(decision="d-1", run=2, chosen="rack", alternatives=[chosen, fits])
    assert lines == [
        "train on rack: chosen, fits (run 2, decision d-1, made 22:14:20, 0 s ago)",
        "  for 1xA100: chosen",
        "    scores room 60 = 60  (room: percent of its CPUs that would stay free)",
        "  for 1xL4: fits",
        f"    scores room 50, preference -1000 = -950, 1010 less than rack  ({MEANT})",
        "    node n1  fits 2 times",
    ]


def test_one_that_fits_and_waits_for_something_else() -> None:
    """Quota, say: that is told beside the cluster's own verdict; and what it would take there."""
    fits = {"verdict": "fits", "scores": {"room": 5}, "total": 5, "figures": {"cost_usd": 2.5}}
    quota = reason("queue_full", "capacity", "team has 4 of 4 GPUs in use", "wait", "time")
    assert on_cluster(alternatives=[fits], reasons=[quota]) == [
        "train on rack: fits (as of 22:14:20)",
        "  scores room 5 = 5  (room: percent of its CPUs that would stay free)",
        "  it would take: 2.50 USD",
        "  it waits all the same",
        "    capacity: team has 4 of 4 GPUs in use  [queue_full]",
        "      -> time: wait",
    ]


def test_one_that_its_placement_refuses() -> None:
    """The rules with their numbers, what turns each, and the scores of one that passes."""
    failed = {
        "filter": "Taints",
        "rule": "no taint that isn't tolerated",
        "found": "it has lectures:NoSelect",
        "change": {"kind": "tolerate", "text": "tolerate lectures:NoSelect"},
    }
    placement = {
        "placement": "default/gold",
        "decision": "pd-1",
        "at_ms": NOW - 120_000,
        "clusters": ["lab"],
        "candidate": {"cluster": "rack", "verdict": "refused", "failed": [failed]},
        "changes": ["tolerate lectures:NoSelect"],
    }
    one = {"verdict": "never", "reasons": [NOT_CHOSEN], "ways": [[{"text": "more room"}]]}
    assert on_cluster(alternatives=[one], placement=placement) == [
        "train on rack: never (as of 22:14:20)",
        "  it would have room there if",
        "    more room",
        "  placement default/gold chose lab (decision pd-1, 2 min ago)",
        "    rack refused",
        "      fails Taints: no taint that isn't tolerated, and it has lectures:NoSelect",
        "        -> tolerate lectures:NoSelect  (--if 'tolerate lectures:NoSelect')",
    ]
    score = {"title": "Cost", "weight": 3, "value": 80, "contribution": 240, "raw": 2.5}
    told = {"cluster": "rack", "verdict": "passed", "rank": 2, "total": 240, "margin": -60}
    passed = {**placement, "candidate": {**told, "scores": [{**score, "unit": "usd"}]}}
    assert on_cluster(placement=passed)[-2:] == [
        "    rack passed, place 2, total 240 (-60)",
        "      Cost: 80 of 2.5 usd x 3 = 240",
    ]
    gone = on_cluster(placement={**placement, "candidate": None})
    assert gone[:2] == [
        "train on rack: no candidate here (as of 22:14:20)",
        "  it isn't among the clusters that a driver here reaches",
    ]
    assert gone[-1] == "    rack wasn't in the fleet then"


def answer(**fields: Any) -> list[str]:
    """The lines about a change."""
    told = {"name": "train", "phase": "Pending", "at_ms": NOW, "changes": ["free rack"], **fields}
    return explain_if.lines_of(msgspec.convert(told, IfAnswer), SCREEN, NOW)


def test_what_a_change_would_do() -> None:
    """Before and after with the reasons that are left, and the clusters that turn."""
    later = {"cluster": "rack", "verdict": "later"}
    waits = {"reasons": [NO_ROOM], "alone": "lab", "ahead": 2, "candidates": [later]}
    starts = {
        "cluster": "rack",
        "nodes": ["n1", "n2"],
        "candidates": [{**later, "verdict": "chosen"}],
        "placement": ["rack", "lab"],
    }
    assert answer(before=waits, after=starts) == [
        "train waits (as of 22:14:20)",
        "  if free rack",
        "  now   it waits",
        "        capacity: 4 A100 asked, 2 free on rack  [no_room]",
        "        if nobody else waited, it would start on lab (2 before it)",
        "  then  it starts on rack (n1, n2)",
        "        its placement chooses rack, lab",
        "",
        "  rack: later -> fits",
    ]
    assert answer(before=waits, after=waits)[-1] == "  then  the same"
    assert answer(before=starts, after=waits, runs_on="rack")[0] == (
        "train is on rack; this is as if it waited (as of 22:14:20)"
    )
    assert answer(before=waits, after=waits, phase="Held")[0] == (
        "train waits as if it weren't held (as of 22:14:20)"
    )


@pytest.mark.parametrize(
    ("left", "taken", "line"),
    [
        ([], ["lab"], "  it waited -> it starts on lab"),
        (["lab"], [], "  it started on lab -> it waits"),
        (["lab"], ["rack"], "  lab -> rack"),
        ([], [], "  the same outcome"),
    ],
)
def test_why_it_was_decided_otherwise(left: list[str], taken: list[str], line: str) -> None:
    """What became of it, the inputs that differ, and each cluster with what turned there."""
    told = {
        "first": "d-1",
        "second": "now",
        "key": "train",
        "inputs": ["1 cluster, or what runs hold there"],
        "left": left,
        "taken": taken,
        "clusters": [
            {"cluster": "lab", "verdict": ["later -> fits"], "facts": ["left: a (1 CPU)"]}
        ],
    }
    assert explain_if.difference_lines(msgspec.convert(told, Difference)) == [
        "train: d-1 -> now",
        line,
        "  what it was made of differs in",
        "    1 cluster, or what runs hold there",
        "",
        "  lab",
        "    later -> fits",
        "    left: a (1 CPU)",
    ]
