"""Writes reasons: tier, sentence, remedy, and who can act, worst first as they came."""

from collections.abc import Iterable

from stellwerk.core.model.reasons import RenderedReason


def in_a_row(reasons: Iterable[RenderedReason]) -> str:
    """All reasons on one line, as in a list."""
    return " | ".join(f"{reason.tier}: {reason.sentence}" for reason in reasons)


def in_full(reasons: Iterable[RenderedReason], indent: str = "  ") -> list[str]:
    """Each reason with its remedy, two lines each."""
    lines = []
    for reason in reasons:
        tier = "" if reason.tier == "ended" else f"{reason.tier}: "
        lines.append(f"{indent}{tier}{reason.sentence}  [{reason.code}]")
        if reason.remedy:
            who = "" if reason.who == "you" else f"{reason.who}: "
            lines.append(f"{indent}  -> {who}{reason.remedy}")
    return lines
