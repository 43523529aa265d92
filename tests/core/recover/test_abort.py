"""Abort rules: each holds for what was told and for nothing that isn't known."""

import math

import pytest

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.task import AbortRule
from stellwerk.core.model.telemetry import Metric, Telemetry
from stellwerk.core.recover.abort import should_abort

FINITE = Metric(last=0.5, at_ms=1, n=3, step=3, min=0.5, max=2.0)
BAD = Metric(last=math.nan, at_ms=1, n=3, step=5, min=0.5, max=2.0, not_finite=2, bad_step=4)
RECOVERED = Metric(last=0.4, at_ms=1, n=9, step=9, min=0.4, max=2.0, not_finite=1, bad_step=4)
ANY = AbortRule("not-finite")
STUCK = AbortRule("no-progress", for_ms=60_000)
IDLE = AbortRule("gpu-idle", for_ms=60_000)
UNUSED = AbortRule("idle", for_ms=60_000)

HOLD: list[tuple[AbortRule, Telemetry, str]] = [
    (
        ANY,
        Telemetry({"acc": FINITE, "loss": BAD}),
        "an abort rule held: loss was no longer a number (nan) at step 4",
    ),
    (
        ANY,
        Telemetry({"loss": RECOVERED}),
        "an abort rule held: loss was no longer a number at step 4",
    ),
    (
        AbortRule("not-finite", metric="loss"),
        Telemetry({"acc": BAD, "loss": Metric(last=math.inf, at_ms=1, n=1, not_finite=1)}),
        "an abort rule held: loss was no longer a number (inf)",
    ),
    (
        STUCK,
        Telemetry({"loss": FINITE}, quiet_ms=60_000),
        "an abort rule held: nothing moved for 1 min; the last step was 3",
    ),
    (STUCK, Telemetry(quiet_ms=90_000), "an abort rule held: nothing moved for 1 min"),
    (
        IDLE,
        Telemetry(gpu_idle_ms=60_000),
        "an abort rule held: none of its GPUs was busy for 1 min",
    ),
    (
        UNUSED,
        Telemetry(idle_ms=60_000),
        (
            "nobody and nothing used it for 1 min, its idle limit: no processor, no GPU, nothing "
            "typed or transferred"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "told", "sentence"), HOLD)
def test_a_rule_that_holds_says_so_with_its_numbers(
    rule: AbortRule, told: Telemetry, sentence: str
) -> None:
    """The sentence names the metric, the step or the time; there is a remedy."""
    reason = should_abort([rule], told)
    assert reason is not None
    assert render(reason).sentence == sentence
    assert render(reason).remedy


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (ANY, Telemetry()),
        (ANY, Telemetry({"loss": FINITE})),
        (AbortRule("not-finite", metric="loss"), Telemetry({"acc": BAD, "loss": FINITE})),
        (AbortRule("not-finite", metric="lost"), Telemetry({"loss": BAD})),
        (STUCK, Telemetry({"loss": FINITE}, quiet_ms=59_999)),
        (STUCK, Telemetry()),
        (IDLE, Telemetry(gpu_idle_ms=59_999)),
        (IDLE, Telemetry()),
        (UNUSED, Telemetry(idle_ms=59_999)),
        (UNUSED, Telemetry()),
    ],
)
def test_what_is_not_so_or_not_known_ends_nothing(rule: AbortRule, told: Telemetry) -> None:
    """Neither a number just below the limit nor silence where nobody could look."""
    assert should_abort([rule], told) is None


def test_the_first_of_several_rules_that_holds_is_told() -> None:
    """In the order in which they were written."""
    told = Telemetry({"loss": BAD}, quiet_ms=90_000)
    codes = [
        reason.code
        for rules in ((STUCK, ANY), (IDLE, ANY, STUCK), ())
        if (reason := should_abort(rules, told))
    ]
    assert codes == ["aborted_no_progress", "aborted_not_finite"]
