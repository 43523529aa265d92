"""Decides whether to run where the data is, to move it, or to wait for a cluster that has it."""

from collections.abc import Sequence

from stellwerk.core.data.units import show_data, show_span
from stellwerk.core.model.estimates import ClusterEstimate, Course, Fact


def course(ranking: Sequence[ClusterEstimate]) -> Course:
    """What the best of a ranking amounts to.

    To wait is to choose a cluster that has no room yet, though another one has it sooner, because
    that other one would have to fetch more.
    """
    if not ranking:
        return Course("none")
    best = ranking[0]
    for other in ranking[1:]:
        if _until_room(other) < _until_room(best) and _missing(best) < _missing(other):
            return Course("wait", best.cluster, other.cluster)
    return Course("move" if _missing(best) > 0 else "run", best.cluster)


def told(ranking: Sequence[ClusterEstimate]) -> Fact:
    """The course in a sentence, with what it is weighed against."""
    chosen = course(ranking)
    if not ranking:
        return Fact("course_none", "", "no cluster can take it")
    best = ranking[0]
    moved, waited = show_data(_missing(best)), show_span(_until_room(best))
    numbers: dict[str, str | int | float] = {
        "missing_bytes": _missing(best),
        "until_room_s": _until_room(best),
    }
    if chosen.kind == "wait":
        other = next(one for one in ranking[1:] if one.cluster == chosen.instead)
        transfer = show_span(other.transfer.value or 0.0)
        sentence = (
            f"wait {waited} for {best.cluster} rather than move {show_data(_missing(other))} to "
            f"{other.cluster} in {transfer}"
        )
        numbers |= {"instead": other.cluster, "transfer_s": other.transfer.value or 0.0}
    elif chosen.kind == "move":
        sentence = f"move {moved} to {best.cluster}"
    else:
        sentence = f"run on {best.cluster}, where the data is" if best.held else ""
        sentence = sentence or f"run on {best.cluster}; there is no data to move"
        if best.missing.value is None:
            sentence = f"run on {best.cluster}; how much of the data it lacks isn't known"
    return Fact(f"course_{chosen.kind}", best.cluster, sentence, numbers)


def _until_room(one: ClusterEstimate) -> float:
    return one.wait_s + one.opens_in_s


def _missing(one: ClusterEstimate) -> float:
    return one.missing.value or 0.0
