"""Where data lies decides as the cases of `data_locality.yaml` say, by their rules R1 to R10.

One test for each case, called `data_locality/<id>`. STELLWERK_CASES names another folder of cases;
a file that isn't there gives no test; a key that nobody knows fails its case. Of what an
explanation must have, the numbers and names are looked for, not the words.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.core.data import (
    Grounds,
    alerts,
    course,
    estimate_all,
    estimate_ways,
    facts,
    margin,
    rank,
)
from stellwerk.core.data.course import told
from stellwerk.core.model.estimates import ClusterEstimate
from tests import yamls
from tests.conformance.locality_world import (
    GB,
    PROSE,
    Case,
    World,
    at_ms,
    clock,
    resolved,
    world,
)

FOLDER = Path(os.environ.get("STELLWERK_CASES") or Path(__file__).parent / "cases")
FILES = ("data_locality", "data_locality_more")
FILE_KEYS = {"version", "cases", "tolerance", *PROSE}
EXPECT_KEYS = {
    "ranking", "sites", "rejected", "source", "rejected_sources", "explain_has", "alerts",
    "warnings", "action", "site", "evict_gb", *PROSE,
}  # fmt: skip
TOLERANCE = 0.005
REASONS = {
    "residency": ("data_residency",),
    "no_source": ("data_no_source",),
    "egress": ("data_no_source", "data_egress_denied"),
    "disk": ("data_room",),
    "window": ("window_too_short", "window_over"),
    "deadline": ("after_deadline",),
    "incomplete": ("source_incomplete",),
}
KINDS = ("wait", "move", "run", "none")
UNITS = {
    "GB": 1e9, "MB": 1e6, "TB": 1e12, "kB": 1e3, "s": 1, "min": 60, "h": 3600, "d": 86_400,
    "USD": 1, "%": 1,
}  # fmt: skip
_NUMBER = re.compile(
    r"(?<![\w.-])([0-9][0-9,]*(?:\.[0-9]+)?)(?:\s*(GB|MB|TB|kB|min|USD|[shd%])\b)?"
)
_SPAN = re.compile(r"(?<![\w.-])([0-9]+) (h|d|min) ([0-9]+) (min|h|s)\b")


def load(folder: Path) -> Iterator[tuple[str, Case, dict[str, Case]]]:
    """The cases of the files that are there, with the ids of their tests."""
    for stem in FILES:
        path = folder / f"{stem}.yaml"
        if not path.is_file():
            continue
        file = yamls.read(path.read_text(encoding="utf-8"))
        stray = set(file) - FILE_KEYS
        cases = {case["id"]: case for case in file["cases"]}
        for case in file["cases"]:
            yield f"{stem}/{case['id']}", case | dict.fromkeys(sorted(stray), True), cases


CASES = list(load(FOLDER))

if CASES:

    @pytest.mark.parametrize(
        ("case", "cases"), [pytest.param(case, cases, id=id) for id, case, cases in CASES]
    )
    def test_case(case: Case, cases: dict[str, Case]) -> None:
        """Ranking, rejections, numbers, sources and explanation are as the case says."""
        assert not check(case, cases)


class Answer:
    """What Stellwerk says of a case; `by_name` has the clusters, or the ways to feed one."""

    def __init__(self, found: World) -> None:
        """Estimates, ranks and explains."""
        grounds = Grounds(found.fleet)
        self.world = found
        clusters = found.fleet.clusters
        if found.ways:
            self.all = estimate_ways(found.job, grounds, clusters[0], found.ways, found.now_ms)
        else:
            self.all = estimate_all(found.job, grounds, clusters, found.now_ms)
        self.ranking = rank(found.job, self.all)
        self.by_name = {one.way or one.cluster: one for one in self.all}
        told_of = [facts(found.job, one, found.now_ms) for one in self.all]
        self.sentences = [fact.sentence for each in told_of for fact in each]
        self.sentences += [
            margin(found.job, self.ranking[0], one).sentence for one in self.ranking[1:]
        ]
        self.sentences.append(told(self.ranking).sentence)
        self.alerts = [fact.sentence for fact in alerts(grounds)]


def check(case: Case, cases: dict[str, Case]) -> list[str]:
    """Every way in which a case isn't met."""
    if "same_as" in case and str(case["same_as"]) not in cases:
        return [f"it builds on case {case['same_as']}, which isn't there"]
    case = resolved(case, cases)
    found = world(case)
    expect = case.get("expect", {})
    answer = Answer(found)
    result = list(found.stray)
    result += [f"unknown key `expect.{key}`" for key in expect if key not in EXPECT_KEYS]
    if not set(expect) - set(PROSE):
        result.append("the case expects nothing")
    names = [one.way or one.cluster for one in answer.ranking]
    if "ranking" in expect and names != expect["ranking"]:
        result.append(f"ranking is {names}, not {expect['ranking']}")
    for name, code in (expect.get("rejected") or {}).items():
        result += _rejected(answer, name, code)
    for name, numbers in (expect.get("sites") or {}).items():
        result += [f"{name}: {line}" for line in _numbers(answer, name, numbers)]
    result += _sources(answer, expect)
    result += _action(answer, expect)
    known = _names(case)
    for key, pool in (("explain_has", answer.sentences), ("alerts", answer.alerts)):
        for line in expect.get(key) or ():
            result += _told(str(line), pool, known)
    said = [line for lines in found.warnings.values() for line in lines] + answer.sentences
    for line in _lines(expect.get("warnings") or {}):
        result += _told(line, said, known)
    return result


def _lines(written: dict[str, str] | list[str]) -> list[str]:
    if isinstance(written, dict):
        return [f"{name} {line}" for name, line in written.items()]
    return written


def _rejected(answer: Answer, name: str, code: str | list[str]) -> list[str]:
    one = answer.by_name.get(name)
    if one is None:
        return [f"{name} isn't there"]
    given = [reason.code for reason in one.rejections]
    codes = code if isinstance(code, list) else [code]
    return [
        f"{name} is rejected for {given}, not for {each}"
        for each in codes
        if not set(REASONS.get(each, (each,))) & set(given)
    ]


def _numbers(answer: Answer, name: str, numbers: dict[str, Any]) -> list[str]:
    one = answer.by_name.get(name)
    if one is None:
        return ["it isn't there"]
    given = _given(answer, one)
    result = []
    for key, wanted in numbers.items():
        if key in PROSE:
            continue
        if key not in given:
            result.append(f"unknown key `{key}`")
        elif key == "end":
            if given[key] != clock(at_ms(wanted)):
                result.append(f"end is {given[key]}, not {wanted}")
        elif key == "source":
            if given[key] != wanted:
                result.append(f"source is {given[key]}, not {wanted}")
        elif given[key] is None or not _near(given[key], float(wanted)):
            result.append(f"{key} is {given[key]}, not {wanted}")
    return result


def _given(answer: Answer, one: ClusterEstimate) -> dict[str, Any]:
    def scaled(value: float | None, by: float) -> float | None:
        return None if value is None else value / by

    job = answer.world.job
    end = None
    if one.finish.value is not None:
        end = clock(answer.world.now_ms + one.finish.value * 1000)
    epochs = max(1, job.epochs)
    return {
        "missing_gb": scaled(one.missing.value, GB),
        "transfer_s": one.transfer.value,
        "transfer_h": scaled(one.transfer.value, 3600),
        "start_h": scaled(one.start.value, 3600),
        "finish_h": scaled(one.finish.value, 3600),
        "total_h": scaled(one.run.value, 3600),
        "epoch_h": scaled(one.run.value, 3600 * epochs),
        "cost_usd": one.cost.value,
        "egress_usd": one.egress.value,
        "score": one.objective.value,
        "read_gb": scaled(one.read_bytes, GB),
        "evict_gb": one.evict_bytes / GB,
        "held_gb": sum(part.counted_bytes for part in one.held) / GB,
        "source": ", ".join(dict.fromkeys(move.source for move in one.moves)),
        "end": end,
    }


def _near(given: float, wanted: float) -> bool:
    return abs(given - wanted) <= max(TOLERANCE * abs(wanted), 1e-6)


def _sources(answer: Answer, expect: dict[str, Any]) -> list[str]:
    result = []
    for name, wanted in (expect.get("source") or {}).items():
        moves = {move.data: move.source for move in answer.by_name[name].moves}
        given = moves if isinstance(wanted, dict) else list(moves.values())
        if given != ([wanted] if isinstance(wanted, str) else wanted):
            result.append(f"{name} is fed by {given}, not by {wanted}")
    verdicts = [verdict for one in answer.all for verdict in one.sources]
    for name, code in _flat(expect.get("rejected_sources") or {}):
        codes = [one.reason.code for one in verdicts if one.source == name and one.reason]
        if not set(REASONS.get(code, (code,))) & set(codes):
            result.append(f"source {name} is rejected for {codes}, not for {code}")
    return result


def _flat(rejected: dict[str, Any]) -> list[tuple[str, str]]:
    """Sources with their reasons, whether or not they are listed by the cluster they'd feed."""
    found: list[tuple[str, str]] = []
    for name, code in rejected.items():
        found += code.items() if isinstance(code, dict) else [(name, code)]
    return found


def _action(answer: Answer, expect: dict[str, Any]) -> list[str]:
    result = []
    for name, wanted in (expect.get("evict_gb") or {}).items():
        given = answer.by_name[name].evict_bytes / GB
        if not _near(given, wanted):
            result.append(f"{name} would give up {given} GB, not {wanted}")
    if "action" in expect:
        kind, _, name = _words(expect["action"])
        name = str(expect.get("site", name))
        chosen = course(answer.ranking)
        if chosen.kind != kind or (name and chosen.cluster != name):
            result.append(f"the plan is {chosen}, not {expect['action']}")
    return result


def _words(action: Any) -> tuple[str, str, str]:
    """`wait`, `wait: lab-server`, or the same as a mapping, either way round."""
    if isinstance(action, dict):
        first, second = next(iter(action.items()))
        kind, name = (first, second) if first in KINDS else (second, first)
        return str(kind), ":", str(name)
    return re.sub(r"\s+(for\s+)?", ":", str(action).strip().replace(": ", ":")).partition(":")


def _names(case: Case) -> set[str]:
    """Names of clusters, links' ends, data sets, ways and regions that a sentence may have."""
    names = {one["name"] for key in ("sites", "data", "options") for one in case.get(key, [])}
    names |= {link[end] for link in case.get("links", []) for end in ("from", "to")}
    return names | {site["region"] for site in case.get("sites", []) if "region" in site}


def _told(line: str, pool: list[str], known: set[str]) -> list[str]:
    """Whether the sentences with all names of a line have all of its numbers."""
    names = {name for name in known if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line)}
    fitting = [
        sentence
        for sentence in pool
        if all(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", sentence) for name in names)
    ]
    if not fitting:
        return [f"no sentence tells `{line}`: {pool}"]
    there = [pair for sentence in fitting for pair in _amounts(sentence)]
    return [
        f"`{line}`: {value} {unit} isn't in {fitting}"
        for value, unit in _amounts(_without(line, names))
        if not any(_same(value, unit, *pair) for pair in there)
    ]


def _without(line: str, names: set[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        line = line.replace(name, "")
    return line


def _amounts(text: str) -> list[tuple[float, str]]:
    """The numbers of a text with their units; `1 h 4 min` is one number."""
    spans = [
        (int(a) * UNITS[unit] + int(b) * UNITS[small], "s")
        for a, unit, b, small in _SPAN.findall(text)
    ]
    rest = _SPAN.sub(" ", text)
    return spans + [
        _scaled(float(number.replace(",", "")), unit) for number, unit in _NUMBER.findall(rest)
    ]


def _scaled(number: float, unit: str) -> tuple[float, str]:
    if unit in {"s", "min", "h", "d"}:
        return number * UNITS[unit], "s"
    if unit in {"kB", "MB", "GB", "TB"}:
        return number * UNITS[unit] / 1e9, "GB"
    return number, unit


def _same(value: float, unit: str, other: float, other_unit: str) -> bool:
    if unit and other_unit and unit != other_unit:
        return False
    return abs(value - other) <= max(TOLERANCE * abs(value), 1e-9)
