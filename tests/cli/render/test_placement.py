"""How placements are written for people."""

from stellwerk.cli.render.placement import (
    applied_lines,
    history_columns,
    of_how_many,
    show_lines,
)
from stellwerk.cli.terminal import Terminal
from stellwerk.client.placements import (
    Applied,
    AppliedPlacement,
    Condition,
    DecisionRow,
    PlacementRow,
    PlacementShow,
)


def test_nothing_passes() -> None:
    """Nobody is told of all of 0; where a number is wanted, that is said."""
    empty = PlacementRow("n/p")
    assert of_how_many(empty) == "none"
    assert of_how_many(PlacementRow("n/p", wanted=2)) == "2 of 0"
    assert of_how_many(PlacementRow("n/p", candidates=3)) == "all of 3"
    lines = show_lines(
        PlacementShow(empty), Terminal(is_tty=False, colour=False, unicode=True, width=0), 0
    )
    assert "  wanted     all that pass, and none does" in lines


def test_a_decision_without_clusters_says_why() -> None:
    """Where no move says it, its condition does."""
    [why] = [one for one in history_columns(0) if one.key == "moves"]
    reason = Condition("PlacementSatisfied", "False", "NoManagedClusterSetBindings", "no binding")
    assert why.cell(DecisionRow("pd-1", conditions=[reason])) == "no binding"
    assert why.cell(DecisionRow("pd-1", clusters=["a"], conditions=[reason])) == ""


def test_a_placement_that_says_the_same_may_choose_otherwise() -> None:
    """What is written stayed as it was, what is chosen didn't: both are said."""
    stays = AppliedPlacement("n/p", "same", ["a"], ["a"])
    moves = AppliedPlacement("n/q", "same", ["a"], ["b"])
    assert applied_lines(Applied("f.yaml", placements=[stays, moves])) == [
        "n/p as it was: a",
        "n/q says the same: chooses b instead of a",
    ]
