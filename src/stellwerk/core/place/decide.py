"""The decision for one shape: candidates ranked, one chosen or none, and what would change it."""

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.catalogue import worst_first
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Candidate, Decision, Inputs
from stellwerk.core.model.ids import DecisionId, digest
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.place.candidates import Found, amount, candidates
from stellwerk.core.place.room import Room


class Decided(Struct, frozen=True):
    """A decision, with what the chosen candidate would hold."""

    decision: Decision
    allocation: Allocation | None


def decide(shape: Shape, rooms: list[Room], kept: dict[str, str], inputs: Inputs) -> Decided:
    """Ranks the candidates: highest total, then the earlier alternative, then the name."""
    found = candidates(shape, rooms, kept)
    ranked = sorted(
        (index for index, one in enumerate(found) if one.candidate.verdict == "fits"),
        key=lambda i: (-found[i].candidate.total, found[i].candidate.alternative,
                       found[i].candidate.cluster))
    all_candidates = tuple(one.candidate for one in found)
    if not ranked:
        return Decided(_with_id(_waiting(inputs, all_candidates)), None)
    best = ranked[0]
    all_candidates = tuple(
        replace(one, verdict="chosen") if index == best else one
        for index, one in enumerate(all_candidates))
    runner_up = ranked[1] if len(ranked) > 1 else -1
    decision = Decision(
        id=DecisionId(""), inputs=inputs, candidates=all_candidates, chosen=best,
        runner_up=runner_up, change=_would_move(found, best, runner_up))
    chosen = found[best]
    allocation = Allocation(
        chosen.candidate.cluster, chosen.nodes, chosen.candidate.alternative)
    return Decided(_with_id(decision), allocation)


def _with_id(decision: Decision) -> Decision:
    return replace(decision, id=DecisionId(f"d-{digest(decision)}"))


def _waiting(inputs: Inputs, found: tuple[Candidate, ...]) -> Decision:
    hopeful = [one for one in found if one.verdict != "never"]
    shown = hopeful or found
    reasons: list[Reason] = []
    for one in shown:
        reasons.extend(reason for reason in one.reasons if reason not in reasons)
    return Decision(
        id=DecisionId(""), inputs=inputs, candidates=found,
        reasons=worst_first(tuple(reasons)), change=_would_start(shown))


def _would_start(found: list[Candidate] | tuple[Candidate, ...]) -> tuple[str, ...]:
    """The smallest set of changes for each candidate; the one with fewest comes first."""
    sets = []
    for one in found:
        parts = [
            f"{short.resource}: {amount(short.wanted, short.unit)} -> "
            f"{amount(short.free, short.unit)}"
            for short in one.shortfalls if short.free > 0]
        if parts and len(parts) == len(one.shortfalls):
            sets.append((len(parts), f"starts now on {one.cluster} with " + ", ".join(parts)))
    return tuple(text for _, text in sorted(sets))


def _would_move(found: list[Found], best: int, runner_up: int) -> tuple[str, ...]:
    if runner_up < 0:
        return ()
    first, second = found[best].candidate, found[runner_up].candidate
    gap = first.total - second.total
    return (f"{second.cluster} wins if it scores {gap + 1} more",)


def never_fits(shape: Shape, clusters: list[Cluster]) -> tuple[Reason, ...]:
    """Gives the reasons why no cluster could ever hold this shape; empty if one could.

    Where nothing is known yet, nothing is refused.
    """
    if not clusters:
        return ()
    found = candidates(shape, [Room(cluster, ()) for cluster in clusters], {})
    if any(one.candidate.verdict != "never" for one in found):
        return ()
    reasons: list[Reason] = []
    for one in found:
        reasons.extend(r for r in one.candidate.reasons if r not in reasons)
    return tuple(r for r in reasons if r.code != "no_room")
