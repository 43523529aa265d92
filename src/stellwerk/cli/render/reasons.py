"""Writes reasons: tier, sentence, remedy, and who can act, worst first as they came."""

from collections.abc import Iterable

from stellwerk.core.model.reasons import RenderedReason


def in_a_row(reasons: Iterable[RenderedReason]) -> str:
    """All reasons on one line, as in a list."""
    return " | ".join(in_short(reason) for reason in reasons)


def in_short(reason: RenderedReason) -> str:
    """A reason with its tier, unless the sentence begins with it or it tells of an end."""
    told = reason.tier == "ended" or reason.sentence.startswith(f"{reason.tier} ")
    return reason.sentence if told else f"{reason.tier}: {reason.sentence}"


def in_full(reasons: Iterable[RenderedReason], indent: str = "  ", *, name: str = "") -> list[str]:
    """Each reason with its remedy, two lines each; `NAME` in it stands for the workload."""
    lines = []
    for reason in reasons:
        lines.append(f"{indent}{in_short(reason)}  [{reason.code}]")
        if reason.remedy:
            who = "" if reason.who == "you" else f"{reason.who}: "
            remedy = reason.remedy.replace(" NAME", f" {name}") if name else reason.remedy
            lines.append(f"{indent}  -> {who}{remedy}")
    return lines
