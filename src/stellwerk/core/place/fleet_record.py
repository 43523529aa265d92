"""Renders the answers of a plan over a fleet as records: verdicts, numbers, reasons, in words."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stellwerk.core.data.course import told as course_told
from stellwerk.core.data.explain import NO_RUNTIME, SAY_RUNTIME, facts, margin
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.estimates import ClusterEstimate, Fact
from stellwerk.core.model.fleet_plan import (
    CandidateRecord,
    DataRecord,
    Figures,
    Given,
    GroupRecord,
    NodePart,
    Refusal,
    TaskRecord,
)
from stellwerk.core.model.placing import Change, Explained, FailedRule
from stellwerk.core.model.resources import Request
from stellwerk.core.place.amounts import amount
from stellwerk.core.place.changes import phrase_of
from stellwerk.core.place.explained import explain
from stellwerk.core.place.on_fleet import Answer
from stellwerk.core.place.options import Option, cards
from stellwerk.core.place.policies import NO_WISHES, replicas_of

MOST_TURNS = 3
DEADLINE = ("limit", "finish_by_ms")
USUAL_CPUS_MILLI = 1000


def record_of(answer: Answer, *, file: str = "", only: tuple[str, ...] = ()) -> TaskRecord:
    """The record of one answer; with ``only``, of these clusters as candidates."""
    task, choice = answer.ask.task, answer.choice
    candidates = candidates_of(answer)
    wishes = task.wishes or NO_WISHES
    service = task.service is not None
    shown = tuple(one for one in candidates if not only or one.cluster in only)
    return TaskRecord(
        name=answer.ask.name,
        file=file,
        kind="service" if service else "job",
        placement=task.placement or "",
        objective=answer.policy.objective,
        asks=tuple(asked(one.request) for one in answer.shape.alternatives),
        nodes=answer.shape.num_nodes,
        replicas=replicas_of(task),
        expected_runtime_s=None
        if service or wishes.expected_runtime_ms is None
        else wishes.expected_runtime_ms / 1000,
        data=tuple(DataRecord(one.name, one.revision, one.bytes) for one in answer.job.data),
        verdict=_verdict(answer),
        clusters=_given(answer),
        unplaced=answer.unplaced,
        missing_clusters=max(0, choice.unscheduled),
        standby=choice.standby,
        groups=tuple(GroupRecord(one.name, one.clusters) for one in choice.groups if one.clusters),
        runner_up=_runner_up(answer),
        margin=_margin(answer, candidates),
        course=_course(answer, candidates),
        candidates=shown,
        turns=() if choice.clusters else _turns(candidates),
        problems=problems_of(answer),
    )


def asked(request: Request) -> str:
    """What is asked of a node: `4 A100-80GB`, `1 L40S, 8 CPUs, 64 GiB`, `2 CPUs`."""
    parts = []
    gpu = request.gpu
    if gpu is not None:
        share = f" ({amount(gpu.share_bytes, 'bytes')} of each)" if gpu.share_bytes else ""
        if not gpu.share_bytes and gpu.shares:
            share = f" ({gpu.fraction_milli / 10:g} % of each)"
        parts.append(f"{cards(gpu)}{share}")
    if gpu is None or request.cpus_milli != USUAL_CPUS_MILLI:
        one = request.cpus_milli == USUAL_CPUS_MILLI
        parts.append(f"{amount(request.cpus_milli, 'milli')} CPU{'' if one else 's'}")
    if request.memory_bytes:
        parts.append(amount(request.memory_bytes, "bytes"))
    return ", ".join(parts)


def devices_given(option: Option) -> str:
    """The accelerators that a node of an option gets: `4 H100`."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(option.devices.items()))


def figures_of(option: Option) -> Figures:
    """The numbers of an option, rounded to thousandths."""
    one = option.estimate
    return Figures(
        starts_s=_rounded(one.start.value),
        runs_s=_rounded(one.run.value),
        finishes_s=_rounded(one.finish.value),
        waits_s=_rounded(one.wait_s) or 0.0,
        opens_s=_rounded(one.opens_in_s) or 0.0,
        cost_usd=_rounded(one.cost.value),
        usd_per_hour=_rounded(option.usd_per_hour),
        energy_kwh=_rounded(one.energy.value),
        moves=one.moves,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def candidates_of(answer: Answer) -> tuple[CandidateRecord, ...]:
    """Every cluster, those that passed by rank, then the refused, the nearest to passing first."""
    if answer.choice.explanation.shared is None:
        return ()
    told = explain(answer.policy, answer.choice, answer.columns, answer.context)
    found = [_candidate(answer, one) for one in told]
    refused = [one for one in found if one.verdict == "refused"]
    refused.sort(key=_distance)
    return (*(one for one in found if one.verdict != "refused"), *refused)


def _distance(one: CandidateRecord) -> tuple[int, int]:
    """How far a refused cluster is from passing: rules that nobody turns, and all of them."""
    hard = sum(each.rule.change is None or each.rule.change.kind == "add" for each in one.refusals)
    return hard, len(one.refusals)


def _candidate(answer: Answer, one: Explained) -> CandidateRecord:
    option = answer.options[one.cluster]
    return CandidateRecord(
        cluster=one.cluster,
        verdict=one.verdict,
        asks=asked(option.request),
        devices=devices_given(option),
        rank=one.rank,
        total=one.total,
        margin=one.margin,
        scores=one.scores,
        figures=figures_of(option),
        refusals=refusals_of(answer, one),
        facts=_facts(answer, option),
        behind=_behind(answer, one),
        note=one.note,
    )


def refusals_of(answer: Answer, one: Explained) -> tuple[Refusal, ...]:
    """Every rule that a cluster fails, of the policy and of what it would be given."""
    option = answer.options[one.cluster]
    rules = [rule for rule in one.failed if rule.filter != "Estimates"]
    if option.failed:
        # Their number isn't known only since another rule keeps it from being known.
        rules = [rule for rule in rules if not _of_length(rule)]
    rules = _deadline_once([*(_answerable(answer, rule) for rule in rules), *option.failed])
    return tuple(
        Refusal(rule, sentence_of(rule), phrase_of(one.cluster, rule.change)) for rule in rules
    )


def _deadline_once(rules: Sequence[FailedRule]) -> list[FailedRule]:
    """A deadline that is missed is a limit and a reason of the estimate: the words of this one, the
    change of that one.
    """
    changes = {one.rule: one.change for one in rules if one.change is not None}
    late = changes.get("after_deadline")
    is_limit = {rule: (one.kind, one.key) == DEADLINE for rule, one in changes.items()}
    limit = next((changes[rule] for rule, found in is_limit.items() if found), None)
    if late is None or limit is None:
        return list(rules)
    told = replace(limit, text=late.text)
    return [
        replace(one, change=told) if one.rule == "after_deadline" else one
        for one in rules
        if not is_limit.get(one.rule)
    ]


def _facts(answer: Answer, option: Option) -> tuple[Fact, ...]:
    """What the numbers rest on, without what failed rules say; of a service no word of its end."""
    told = []
    for fact in facts(answer.job, option.estimate, answer.context.now_ms):
        if any(fact.code == rule.rule for rule in option.failed):
            continue
        service = answer.ask.task.service is not None and fact.code == "start"
        sentence = fact.sentence.partition(";")[0] if service else fact.sentence
        told.append(replace(fact, sentence=sentence))
    return tuple(told)


def _behind(answer: Answer, one: Explained) -> str:
    """By how much one that passed is worse than the last that was chosen."""
    if one.verdict not in {"passed", "standby"} or not answer.choice.clusters:
        return ""
    last = answer.choice.clusters[-1]
    if answer.policy.objective == "score":
        gaps = [line.title for line in one.scores if line.value is None]
        return _by_points(last, one.cluster, answer.choice.totals[-1] - (one.total or 0), gaps)
    estimates = answer.estimates
    return margin(answer.job, estimates[last], estimates[one.cluster]).sentence


def _answerable(answer: Answer, rule: FailedRule) -> FailedRule:
    """A limit that can't be judged while nobody says how long a job runs asks for just that."""
    unknown = answer.job.runtime_s is None and answer.ask.task.service is None
    if not (unknown and _of_length(rule)):
        return rule
    return replace(rule, found=NO_RUNTIME, change=Change("tell", SAY_RUNTIME, "expected-runtime"))


def _of_length(rule: FailedRule) -> bool:
    key = rule.change.key if rule.change is not None else ""
    return rule.found == "nobody knows" and key in {"usd_max", "finish_by_ms"}


def sentence_of(rule: FailedRule) -> str:
    """A failed rule in words: what was found, and what was wanted where that doesn't say it."""
    if rule.filter in {"Demand", "Estimates", "Needs"}:
        return rule.found
    return f"{rule.found} (wanted: {rule.rule})"


def _verdict(answer: Answer) -> str:
    if answer.problems or answer.choice.status.code == "Misconfigured":
        return "broken"
    if not answer.replicas:
        return "nowhere"
    if answer.unplaced or answer.choice.unscheduled > 0:
        return "partly"
    waits = any(answer.options[name].from_s for name in answer.replicas)
    return "waits" if waits else "placed"


def _given(answer: Answer) -> tuple[Given, ...]:
    groups = {name: one.name for one in answer.choice.groups for name in one.clusters if one.name}
    nodes = {one.cluster: one.nodes for one in answer.allocations}
    found = []
    for name in answer.choice.clusters:
        option = answer.options[name]
        parts = tuple(
            NodePart(part.node, tuple(share.index for share in part.devices), part.ranks)
            for part in nodes.get(name, ())
        )
        given = Given(
            cluster=name,
            asks=asked(option.request),
            devices=devices_given(option),
            replicas=answer.replicas.get(name, 0),
            nodes=parts,
            figures=figures_of(option),
            group=groups.get(name, ""),
            after=option.after,
        )
        found.append(given)
    return tuple(found)


def _runner_up(answer: Answer) -> str:
    choice = answer.choice
    after = choice.explanation.ranked[len(choice.clusters) + len(choice.standby) :]
    return answer.columns.clusters[after[0]].name if after else ""


def _by_points(last: str, other: str, points: int, gaps: Sequence[str]) -> str:
    """Points alone don't say why one with more of them comes later: a score of it is unknown."""
    if points < 0 and gaps:
        verb = "is" if len(gaps) == 1 else "are"
        unknown = f"{' and '.join(gaps)} of {other} {verb} unknown"
        return f"{last} before {other}: {unknown}, and what is unknown comes after what is known"
    return f"{last} before {other}: {points} point{'' if points == 1 else 's'}"


def _margin(answer: Answer, candidates: tuple[CandidateRecord, ...]) -> str:
    """By how much the last chosen one beats the runner-up, in what was compared."""
    other = _runner_up(answer)
    if not other or not answer.choice.clusters:
        return ""
    last = answer.choice.clusters[-1]
    if answer.policy.objective == "score":
        points = answer.choice.explanation.margin or 0
        if not points:
            return f"{last} before {other}: the same total, so the name decides"
        scores = next(one.scores for one in candidates if one.cluster == other)
        gaps = [line.title for line in scores if line.value is None]
        return _by_points(last, other, points, gaps)
    estimates = answer.estimates
    return margin(answer.job, estimates[last], estimates[other]).sentence


def _course(answer: Answer, candidates: tuple[CandidateRecord, ...]) -> str:
    """Run where the data is, move it, or wait: for jobs that read something."""
    if not answer.job.data or not answer.choice.clusters:
        return ""
    estimates = answer.estimates
    names = [one.cluster for one in candidates if one.rank]
    chosen = list(answer.choice.clusters)
    ranked: list[ClusterEstimate] = [
        estimates[name] for name in (*chosen, *(one for one in names if one not in chosen))
    ]
    return course_told(ranked).sentence


def _turns(candidates: tuple[CandidateRecord, ...]) -> tuple[str, ...]:
    """What would have to happen for a task that goes nowhere, the fewest changes first.

    What nobody has must be added, which is told only where nothing less would do.
    """
    found: dict[bool, list[str]] = {False: [], True: []}
    for one in candidates:
        changes = [each.rule.change for each in one.refusals if each.rule.needed]
        known = [change for change in changes if change is not None]
        if known and len(known) == len(changes):
            text = f"{one.cluster}: {' and '.join(change.text for change in known)}"
            found[any(change.kind == "add" for change in known)].append(text)
    return tuple((found[False] or found[True])[:MOST_TURNS])


def problems_of(answer: Answer) -> tuple[Problem, ...]:
    """What is wrong with the data that a task names, and with the policy that it names."""
    policy = answer.ask.task.placement or "the policy"
    return answer.problems + tuple(
        Problem("fleet/placement", f"{policy}: {one.message}", one.help, path=one.path)
        for one in answer.choice.troubles
    )
