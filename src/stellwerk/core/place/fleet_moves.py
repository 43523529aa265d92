"""Says what a change does to a plan: who moves from where to where, why, and what that means."""

from __future__ import annotations

from stellwerk.core.data.units import show_span, show_usd
from stellwerk.core.model.fleet_plan import (
    CandidateRecord,
    ChangeRecord,
    Figures,
    Given,
    TaskRecord,
)
from stellwerk.core.model.placing import Move
from stellwerk.core.model.reasons import Reason
from stellwerk.core.place.on_fleet import Answer

LITTLE_S = 1.0
LITTLE_USD = 0.005
BETTER = {
    "finish": "it is over sooner there",
    "start": "it starts sooner there",
    "cost": "it costs less there",
    "weighted": "money and time until the end are less there together",
}
UNKNOWN = Figures(None, None, None, 0.0, 0.0, None, None, None)


def differences(
    before: tuple[TaskRecord, ...], after: tuple[TaskRecord, ...], answers: tuple[Answer, ...]
) -> tuple[ChangeRecord, ...]:
    """All that differs, task by task; ``answers`` are those after the change."""
    found: list[ChangeRecord] = []
    for old, new, answer in zip(before, after, answers, strict=True):
        found += _of_task(old, new, answer)
    return tuple(found)


def _of_task(old: TaskRecord, new: TaskRecord, answer: Answer) -> list[ChangeRecord]:
    was = {one.cluster: one for one in old.clusters}
    now = {one.cluster: one for one in new.clusters}
    found = []
    moved: dict[str, bool] = {}
    for move in _moves(was, now, answer):
        left, taken = was.get(move.left), now.get(move.taken)
        moved.update({move.left: True, move.taken: True})
        found.append(_moved(new, left, taken, _why(move, new)))
    if not was and now:
        found += [_moved(new, None, one, ("it found no cluster before",)) for one in now.values()]
        return found
    for name, one in now.items():
        if name in was and name not in moved and _changed(was[name], one):
            found.append(_stays(new, was[name], one))
    if not found and old.verdict != new.verdict:
        sentence = f"{new.name}: {old.verdict} before, {new.verdict} now"
        found.append(ChangeRecord(new.name, "", "", sentence))
    return found


def _moves(was: dict[str, Given], now: dict[str, Given], answer: Answer) -> list[Move]:
    """The moves of the choice; where the policy itself broke, all that it had is left."""
    known = [one for one in answer.choice.moves if one.left in was or one.taken in now]
    if known or not was:
        return known if was else []
    return [Move(name, "", Reason("no_longer_passes")) for name in was if name not in now]


def _why(move: Move, new: TaskRecord) -> tuple[str, ...]:
    """Why a cluster was left or taken: its failed rules with numbers, or what is gained."""
    params = move.reason.params
    match move.reason.code:
        case "cluster_gone":
            return (f"{move.left} isn't in the fleet any more",)
        case "not_in_sets" | "no_binding" | "not_in_bound_sets" | "no_longer_passes":
            refused = next((one for one in new.candidates if one.cluster == move.left), None)
            rules = _rules(refused) if refused else ()
            return rules or (f"{move.left} no longer passes {params.get('filter', '')}".rstrip(),)
        case "better_cluster":
            return (_better(new, move.left, move.taken, params.get("gain", 0)),)
        case "more_wanted":
            return ("one more was wanted, and now there is one",)
        case _:
            return (f"{move.left} isn't needed any more",)


def _rules(one: CandidateRecord) -> tuple[str, ...]:
    return tuple(
        each.sentence if one.cluster in each.sentence else f"{one.cluster}: {each.sentence}"
        for each in one.refusals
    )


def _better(new: TaskRecord, left: str, taken: str, gain: str | float) -> str:
    if new.objective == "score":
        return f"{taken} is better than {left} by {gain:g} points" if gain else f"{taken} is better"
    return BETTER.get(new.objective, f"{taken} is better")


def _moved(
    new: TaskRecord, left: Given | None, taken: Given | None, why: tuple[str, ...]
) -> ChangeRecord:
    parts = _effects(left.figures, taken.figures) if left and taken else []
    if taken and not parts:
        parts = _plain(taken.figures)
    tail = f"; {', '.join(parts)}" if parts else ""
    sentence = f"{_went(new, left, taken)} because {' and '.join(why)}{tail}"
    return _record(new, left, taken, sentence, why)


def _went(new: TaskRecord, left: Given | None, taken: Given | None) -> str:
    """`train: atlas → k017`; of a service with other clusters also that it leaves or takes one."""
    if left is None and taken is not None:
        return f"{new.name} goes to {taken.cluster}"
    if taken is None and left is not None:
        nowhere = "" if new.clusters else " and goes nowhere"
        return f"{new.name} leaves {left.cluster}{nowhere}"
    return f"{new.name}: {left.cluster if left else ''} → {taken.cluster if taken else ''}"


def _stays(new: TaskRecord, old: Given, one: Given) -> ChangeRecord:
    parts = _effects(old.figures, one.figures)
    if old.replicas != one.replicas:
        noun = "replica" if one.replicas == 1 else "replicas"
        parts.insert(0, f"{one.replicas} {noun} in place of {old.replicas}")
    if old.asks != one.asks:
        parts.insert(0, f"on {one.asks} in place of {old.asks}")
    sources = {move.data: move.source for move in old.figures.moves}
    for move in one.figures.moves:
        if sources.get(move.data, "") != move.source:
            instead = sources.get(move.data)
            before = f" in place of {instead}" if instead else ""
            parts.insert(0, f"{move.data} comes from {move.source}{before}")
    sentence = f"{new.name} stays on {one.cluster}; {', '.join(parts)}"
    return _record(new, old, one, sentence, ())


def _record(
    new: TaskRecord,
    left: Given | None,
    taken: Given | None,
    sentence: str,
    why: tuple[str, ...],
) -> ChangeRecord:
    old = left.figures if left and taken else UNKNOWN
    now = taken.figures if left and taken else UNKNOWN
    return ChangeRecord(
        task=new.name,
        left=left.cluster if left else "",
        taken=taken.cluster if taken else "",
        sentence=sentence,
        why=why,
        starts_s=_less(now.starts_s, old.starts_s),
        finishes_s=_less(now.finishes_s, old.finishes_s),
        cost_usd=_less(now.cost_usd, old.cost_usd),
    )


def _changed(old: Given, new: Given) -> bool:
    return (
        old.replicas != new.replicas
        or old.asks != new.asks
        or bool(_effects(old.figures, new.figures))
    )


def _less(new: float | None, old: float | None) -> float | None:
    return None if new is None or old is None else round(new - old, 3)


def _effects(old: Figures, new: Figures) -> list[str]:
    """What is later, sooner, dearer or cheaper, beyond a second and a cent."""
    parts = []
    for verb, late in (
        ("starts", _less(new.starts_s, old.starts_s)),
        ("over", _less(new.finishes_s, old.finishes_s)),
    ):
        if late is not None and abs(late) >= LITTLE_S:
            parts.append(f"{verb} {show_span(abs(late))} {'later' if late > 0 else 'sooner'}")
    more = _less(new.cost_usd, old.cost_usd)
    unit = "costs {} {}"
    if new.cost_usd is None or old.cost_usd is None:
        more, unit = _less(new.usd_per_hour, old.usd_per_hour), "costs {} an hour {}"
    if more is not None and abs(more) >= LITTLE_USD:
        parts.append(unit.format(show_usd(abs(more)), "more" if more > 0 else "less"))
    return parts


def _plain(one: Figures) -> list[str]:
    if one.starts_s is None:
        return []
    return [f"starts {'in ' + show_span(one.starts_s) if one.starts_s else 'now'}"]
