"""What is told of two verdicts on one cluster: what fails now, otherwise, or no more."""

from stellwerk.core.model.placing import Explained, FailedRule
from stellwerk.server.placement_differences import verdict_changes


def refused(*failed: tuple[str, str, str]) -> Explained:
    """A cluster that fails these rules, with what was found."""
    return Explained("a", "refused", tuple(FailedRule(*one) for one in failed))


def test_a_rule_that_still_fails_is_told_once_and_time_alone_is_no_difference() -> None:
    """Other numbers behind a rule are news; how long a window stays closed isn't."""
    room = "room for what is asked"
    before = refused(("Demand", room, "2 free"), ("Window", "open now", "opens in 18 h"))
    later = refused(("Demand", room, "1 free"), ("Window", "open now", "opens in 17 h"))
    assert verdict_changes(before, later)[0] == [f"fails as before: {room}, and now 1 free"]
    open_now = refused(("Demand", room, "2 free"), ("Predicate", "label b", "no b"))
    assert verdict_changes(before, open_now)[0] == [
        "fails now: label b, and no b",
        "fails no more: open now",
    ]
