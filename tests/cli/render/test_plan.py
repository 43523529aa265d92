"""What the answer to `stw plan` looks like, to the letter."""

from typing import Any

import msgspec

from stellwerk.cli.render import plan
from stellwerk.cli.terminal import Terminal
from stellwerk.client.ahead import Planned
from tests.client.fake_server import reason

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=100)
TURN = reason("behind", "turn", "3 ahead of it in queue gpu", "wait", "time")
FULL = reason("no_room", "capacity", "2 CPUs asked, 1 free on laptop", "ask for at most 1", "time")


def candidate(cluster: str, verdict: str, scores: dict[str, int], *why: Any) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "verdict": verdict,
        "scores": scores,
        "total": sum(scores.values()),
        "reasons": list(why),
    }


def planned(**more: Any) -> Planned:
    """An answer about a small task with these fields."""
    return msgspec.convert(
        {
            "id": "p-77777da844f56dad1c3b",
            "name": "train",
            "wants": "2 CPUs, 1 GiB",
            "queue": "default",
            "policies": {"grace_ms": 30_000, "time_limit_ms": 0, "max_restarts_on_errors": 0},
            **more,
        },
        Planned,
    )


MEANINGS = (
    "(room: percent of its CPUs that would stay free; devices: less where it would take a node "
    "with accelerators and needs none; =: the sum, the most wins)"
)


def test_what_starts_now() -> None:
    """An arrow where it goes, the scores of the others, the next best, and what would turn it."""
    answer = planned(
        starts_now=True,
        chosen="laptop",
        runner_up="rack",
        change=["rack wins if it scores 21 more"],
        candidates=[
            candidate("laptop", "chosen", {"room": 40, "devices": 0}),
            candidate("rack", "fits", {"room": 20, "devices": 0}),
            candidate("k017", "later", {}, FULL),
        ],
    )
    assert plan.lines_of(answer, SCREEN, NOW) == [
        "train  2 CPUs, 1 GiB",
        "      CLUSTER  VERDICT     room  devices   =  WHY",
        "  ->  laptop   starts now    40        0  40",
        "      rack     fits          20        0  20",
        "      k017     later                          capacity: 2 CPUs asked, 1 free on laptop",
        f"  {MEANINGS}",
        "would start now on laptop",
        "next best: rack",
        "what would change it: rack wins if it scores 21 more",
        "plan p-77777da844f56dad1c3b is valid until facts change",
    ]


def test_what_waits() -> None:
    """Its place in line, every reason with a remedy, and how it wants to be treated."""
    answer = planned(
        ahead=3,
        priority=-2,
        queue="gpu",
        policies={"grace_ms": 90_000, "time_limit_ms": 7_200_000, "max_restarts_on_errors": 1},
        reasons=[FULL, TURN],
        candidates=[candidate("laptop", "later", {}, FULL)],
        change=["starts now on laptop with CPUs: 2 -> 1"],
    )
    assert plan.lines_of(answer, SCREEN, NOW) == [
        (
            "train  2 CPUs, 1 GiB, at most 2 h 00 min, up to 1 restart after errors, "
            "1 min 30 s to save when it must stop, priority -2, queue gpu"
        ),
        "    CLUSTER  VERDICT  WHY",
        "    laptop   later    capacity: 2 CPUs asked, 1 free on laptop",
        "would wait, 3 workloads before it in line",
        "  capacity: 2 CPUs asked, 1 free on laptop  [no_room]",
        "    -> time: ask for at most 1",
        "  turn: 3 ahead of it in queue gpu  [behind]",
        "    -> time: wait",
        "what would change it: starts now on laptop with CPUs: 2 -> 1",
        "plan p-77777da844f56dad1c3b is valid until facts change",
    ]


def test_starting_before_others_is_said() -> None:
    """Work that passes a blocked head starts now all the same."""
    lines = plan.lines_of(planned(starts_now=True, chosen="laptop", ahead=1), SCREEN, NOW)
    assert "would start now on laptop, though 1 workload before it in line" in lines
