"""What changes would do to a workload, and why it was decided otherwise than before."""

from stellwerk.cli.render.placement import differing_lines, names
from stellwerk.cli.render.reasons import in_a_row
from stellwerk.cli.render.units import clock, plural
from stellwerk.cli.terminal import Terminal
from stellwerk.client.explains import IfAnswer, IfOutcome
from stellwerk.client.placements import Difference
from stellwerk.core.model.reasons import RenderedReason

TURNED = 20


def lines_of(found: IfAnswer, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole answer."""
    name = terminal.style(found.name, "strong")
    at = clock(found.at_ms, now_ms)
    if found.runs_on:
        head = f"{name} is on {found.runs_on}; this is as if it waited (as of {at})"
    else:
        is_held = " as if it weren't held" if found.phase == "Held" else ""
        head = f"{name} waits{is_held} (as of {at})"
    lines = [head, *(f"  if {change}" for change in found.changes)]
    lines += _labelled("now", found.before)
    if _same(found.before, found.after):
        return [*lines, "  then  the same"]
    lines += _labelled("then", found.after)
    turned = _turned(found)
    lines += ["", *(f"  {line}" for line in turned[:TURNED])] if turned else []
    more = len(turned) - TURNED
    return [*lines, f"  and {plural(more, 'cluster')} more"] if more > 0 else lines


def _same(one: IfOutcome, other: IfOutcome) -> bool:
    where = (one.cluster, one.nodes) == (other.cluster, other.nodes)
    return where and _outcome(one) == _outcome(other) and not _verdicts_differ(one, other)


def _verdicts_differ(one: IfOutcome, other: IfOutcome) -> bool:
    return _verdicts(one) != _verdicts(other)


def _labelled(label: str, one: IfOutcome) -> list[str]:
    first, *rest = _outcome(one)
    return [f"  {label:<4}  {first}", *(f"        {line}" for line in rest)]


def _outcome(one: IfOutcome) -> list[str]:
    """`it starts on lab (n1)`, or every reason that is left."""
    lines = []
    if one.cluster is not None:
        where = f" ({names(one.nodes)})" if one.nodes and one.nodes != [one.cluster] else ""
        lines.append(f"it starts on {one.cluster}{where}")
    else:
        lines.append("it waits")
        lines += [_reason(reason) for reason in one.reasons]
        if one.alone is not None:
            before = f" ({one.ahead:,} before it)" if one.ahead else ""
            lines.append(f"if nobody else waited, it would start on {one.alone}{before}")
    if one.placement is not None:
        lines.append(f"its placement chooses {names(one.placement)}")
    return lines


def _reason(reason: RenderedReason) -> str:
    told = "no cluster is left" if reason.code == "no_cluster" else in_a_row([reason])
    return f"{told}  [{reason.code}]"


def _verdicts(one: IfOutcome) -> dict[str, str]:
    """The best verdict for each cluster; the one chosen fits."""
    order = ("fits", "later", "never", "not asked")
    found: dict[str, str] = {}
    for each in one.candidates:
        verdict = "fits" if each.verdict == "chosen" else each.verdict
        if each.cluster not in found or order.index(verdict) < order.index(found[each.cluster]):
            found[each.cluster] = verdict
    return found


def _turned(found: IfAnswer) -> list[str]:
    before, after = _verdicts(found.before), _verdicts(found.after)
    return [
        f"{name}: {before.get(name, 'no candidate')} -> {after.get(name, 'no candidate')}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name) and name != "any"
    ]


def difference_lines(one: Difference) -> list[str]:
    """Why one decision about a workload isn't another."""
    lines = [f"{one.key}: {one.first} -> {one.second}"]
    if one.left and one.taken:
        lines.append(f"  {one.left[0]} -> {one.taken[0]}")
    elif one.taken:
        lines.append(f"  it waited -> it starts on {one.taken[0]}")
    elif one.left:
        lines.append(f"  it started on {one.left[0]} -> it waits")
    else:
        lines.append("  the same outcome")
    return [*lines, *differing_lines(one)]
