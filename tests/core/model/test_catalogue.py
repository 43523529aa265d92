"""The catalogue: every code somebody gives is in it, reads whole, and has a remedy that works."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from stellwerk.cli.main import TABLE
from stellwerk.core.model.catalogue import (
    CATALOGUE,
    WHY_STOPPED,
    render,
    tier_of,
    worst_first,
)
from stellwerk.core.model.endings import ENDED
from stellwerk.core.model.reasons import TIERS, Reason

SOURCE = Path(__file__).resolve().parents[3] / "src" / "stellwerk"
FIELD = re.compile(r"\{(\w+)\}")
OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
READ_LATER = {"behind": {"ahead", "queue"}}
"""Reasons that whoever reads a place in the queue adds, with what belongs to them."""

SAMPLE: dict[str, str | int] = {
    "actor": "ada",
    "ahead": 3,
    "allowed": "EU",
    "array": "sweep",
    "check": "budget",
    "controller": "example.com/budget",
    "asked_bytes": 16 << 30,
    "attempt": 1,
    "left_bytes": 3 << 30,
    "left_ms": 1_200_000,
    "other": "llm-eval",
    "other_bytes": 12 << 30,
    "used_bytes": 21 << 30,
    "to": "k017/pc03",
    "closes": "2026-12-01 18:00 UTC",
    "cluster": "atlas",
    "command": "nvcc",
    "data": "imgs",
    "delay_ms": 20_000,
    "longest_ms": 14_400_000,
    "lasts_ms": 7_200_000,
    "level": "rack",
    "within_ms": 300_000,
    "needed_ms": 2_400_000,
    "unknown": "eval",
    "ended": "failed",
    "enough": "5 min",
    "moved": "its data",
    "evictable": "40 GB",
    "exit_code": 3,
    "failure": "exit_code",
    "file": "data/train.csv",
    "filter": "TaintToleration",
    "flavor": "h100",
    "for_ms": 120_000,
    "after_ms": 540_000,
    "free": "2",
    "gain": 12,
    "held": "300 GB",
    "idle_ms": 3_600_000,
    "infra": "ssh/k017",
    "placement": "vision/training",
    "rule": "claims compliance in (gdpr)",
    "sets": "gpu, lab",
    "found": "it has none",
    "most": 2000,
    "period": "month",
    "holder": "queue exam",
    "until": "2027-01-01",
    "used": 2000,
    "change": "allow 6 usd by `stellwerk/max-usd`",
    "opens": "2026-12-24 18:00:00 UTC",
    "better": "cheap",
    "problem": "no data set `imgz`",
    "help": "did you mean `imgs`?",
    "instead": "2",
    "largest": "8",
    "left": "hera",
    "late": "4 min",
    "library": "libmpi.so.40",
    "limit": 3,
    "limit_ms": 3_600_000,
    "line": "CUDA out of memory",
    "fault": "its driver asks for a reset",
    "gpu": 0,
    "place": "room/pc07",
    "message": "the disk is full",
    "metric": "loss",
    "module": "torch",
    "missing": "120 GB",
    "more_bytes": 24 << 30,
    "name": "llm-ft",
    "names": "data and fit",
    "node": "k017",
    "note": "no route to host",
    "others": 4,
    "peak_bytes": 15 << 30,
    "owner": "ben",
    "person": "ada",
    "running": 4,
    "runs": "w-1-1, w-2-1",
    "who": "ada",
    "phase": "Running",
    "pinned": "90 GB",
    "queue": "default",
    "quiet_ms": 1_800_000,
    "quick_ms": 60_000,
    "resource": "CPUs",
    "short": "20 GB",
    "signal": 11,
    "signal_name": "SIGSEGV",
    "size": "450 GB",
    "source": "s3-us",
    "state": "unreachable",
    "step": 120,
    "times": 3,
    "value": "nan",
    "waits_for": "the end of data and fit",
    "wanted": "16",
    "where": "in US",
    "why": "preempt",
}


def fields(template: str, *, optional: bool) -> set[str]:
    """The parameters of a text: those it needs, or all."""
    return set(FIELD.findall(template if optional else OPTIONAL.sub("", template)))


MAKERS = ("Reason", "_with_line", "_with_file", "_named", "_refused")


class Read(NamedTuple):
    """What one module of the project says: its literal texts, and the reasons that it makes."""

    path: str
    texts: set[str]
    made: list[tuple[str, ast.Call]]


@cache
def modules() -> tuple[Read, ...]:
    """Every module of the project. Trees aren't kept: they are more than all else together."""
    return tuple(
        _read(str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    )


def _read(path: str, tree: ast.Module) -> Read:
    read = Read(path, set(), [])
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                read.texts.add(text)
            case ast.Call(func=ast.Name(id=name), args=[code, *_]) if name in MAKERS:
                read.made.extend(
                    (part.value, node)
                    for part in ast.walk(code)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
    return read


def made() -> Iterator[tuple[str, str, ast.Call]]:
    """Every place in the sources that makes a reason with a code written out there."""
    for module in modules():
        for code, call in module.made:
            yield code, module.path, call


def test_every_reason_that_is_made_is_in_the_catalogue() -> None:
    """No code is invented where it is used."""
    unknown = {
        f"{place}: {code}"
        for code, place, call in made()
        if code not in CATALOGUE
        and isinstance(call.func, ast.Name)
        and call.func.id == "Reason"
        and isinstance(call.args[0], ast.Constant)
    }
    assert unknown == set()


def test_every_code_has_somebody_who_gives_it() -> None:
    """A reason that nobody gives is a promise that nobody keeps."""
    texts: set[str] = set()
    for module in modules():
        if not module.path.endswith(("catalogue.py", "endings.py")):
            texts |= module.texts
    assert set(CATALOGUE) - texts - set(READ_LATER) == set()


def test_reasons_are_made_with_all_that_their_texts_need() -> None:
    """Where the parameters are written out beside the code, none is missing."""
    missing = []
    for code, place, call in made():
        entry = CATALOGUE.get(code)
        given = call.args[1] if len(call.args) > 1 else None
        if entry is None or not isinstance(call.func, ast.Name) or call.func.id != "Reason":
            continue
        if given is not None and not isinstance(given, ast.Dict):
            continue
        keys = given.keys if given is not None else []
        if None in keys:
            continue
        named = {key.value for key in keys if isinstance(key, ast.Constant)}
        needed = fields(entry.sentence, optional=False) | fields(entry.remedy, optional=False)
        if needed - named:
            missing.append(f"{place}: {code} lacks {sorted(needed - named)}")
    assert missing == []


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_a_text_reads_whole(code: str) -> None:
    """With all that may be recorded and with only what must be: one plain sentence, one remedy."""
    entry = CATALOGUE[code]
    needed = fields(entry.sentence, optional=False) | fields(entry.remedy, optional=False)
    for names in (needed, fields(entry.sentence + entry.remedy, optional=True)):
        told = render(Reason(code, {name: SAMPLE[name] for name in sorted(names)}))
        assert told.tier in TIERS
        for text in (told.sentence, told.remedy):
            assert re.fullmatch(r"[^\s\[\]{}](?:.*[^\s\[\]{}.,;:])?", text), text
            assert "not recorded" not in text
            assert "  " not in text
            assert " ," not in text


def test_every_verb_in_a_remedy_is_a_verb() -> None:
    """Whoever follows a remedy finds the command."""
    texts = [entry.remedy for entry in CATALOGUE.values()]
    verbs = {verb for text in texts for verb in re.findall(r"`stw (\w+)", text)}
    assert verbs
    assert verbs - set(TABLE) == set()


def test_what_has_ended_is_told_as_ended() -> None:
    """And nothing that still waits is."""
    assert all(entry.tier == "ended" for entry in ENDED.values())
    waiting = [entry for code, entry in CATALOGUE.items() if code.startswith("held")]
    assert {entry.tier for entry in waiting} == {"held"}


def test_worst_first_keeps_the_order_inside_a_tier() -> None:
    """Blocked before held before capacity before turn."""
    reasons = tuple(map(Reason, ("behind", "no_room", "room_kept", "held", "never_fits", "odd")))
    assert [reason.code for reason in worst_first(reasons)] == [
        "never_fits",
        "held",
        "no_room",
        "behind",
        "room_kept",
        "odd",
    ]
    assert tier_of(Reason("odd")) == "unknown"


def test_amounts_and_spans_are_told_for_people() -> None:
    """Parameters that end in `_bytes` and `_ms`."""
    told = render(Reason("out_of_memory", {"peak_bytes": 15 << 30, "asked_bytes": 1 << 34}))
    assert told.sentence == "it ran out of memory, having used up to 15 GiB of 16 GiB asked for"
    assert told.params == {"peak_bytes": 15 << 30, "asked_bytes": 1 << 34}


def test_an_older_record_is_still_readable() -> None:
    """A parameter that wasn't recorded then is named, not an error."""
    told = render(Reason("no_such_infra"))
    assert told.sentence == "no cluster answers to infra `(infra not recorded)`"


def test_a_reason_of_a_newer_version_is_told_as_such() -> None:
    """Its code says something at least."""
    told = render(Reason("too_cold", {"degrees": 4}))
    assert told.sentence == "too_cold (a reason this version does not know)"
    assert told.remedy


def test_braces_and_brackets_in_values_are_values() -> None:
    """What a program printed is never taken for a template."""
    line = "KeyError: {weights[0]} [x]"
    assert render(Reason("uncaught_error", {"line": line})).sentence == (
        f"the program stopped with {line}"
    )
    told = render(
        Reason("retrying", {"attempt": 1, "limit": 2, "failure": "uncaught_error", "line": line})
    )
    assert told.sentence == f"try 1 of 2 failed: the program stopped with {line}"


@pytest.mark.parametrize("why", sorted(WHY_STOPPED))
def test_a_stop_is_told_with_its_cause(why: str) -> None:
    """In words, not by the word of the protocol."""
    told = render(Reason("preempted", {"why": why}))
    assert told.sentence == f"it was stopped because {WHY_STOPPED[why]}"


@pytest.mark.parametrize("parts", [["data", "runs", "of-a-very-long-name"] * 5, ["x" * 130]])
def test_a_long_path_keeps_its_beginning_and_its_end(parts: list[str]) -> None:
    """On the screen; whole in the parameters."""
    path = f"/home/ada/{'/'.join(parts)}/model.pt"
    told = render(Reason("missing_file", {"file": path}))
    [_, shown, _] = told.sentence.split("`")
    assert len(shown) <= 60
    assert (shown[:6], shown[-9:], shown.count("...")) == ("/home/", "/model.pt", 1)
    assert told.params["file"] == path
    short = render(Reason("missing_file", {"file": "data.csv"}))
    assert "`data.csv`" in short.sentence
