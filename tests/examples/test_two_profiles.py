"""The worked case in `examples/two-profiles`: its page says word for word what the commands say."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stellwerk.cli import output
from stellwerk.cli.terminal import Terminal
from tests.cli.conftest import Stw, stw

__all__ = ["stw"]

FOLDER = Path(__file__).parents[2] / "examples/two-profiles"
PAGE = FOLDER / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SKIP = "…"


@pytest.fixture(autouse=True)
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder, at a terminal of 100 columns without colour."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(output, "terminal_of", lambda *_, **__: Terminal(True, False, True, 100))


def commands() -> list[tuple[str, list[str]]]:
    """Every command of the page, with the lines that it shows."""
    found: list[tuple[str, list[str]]] = []
    for kind, block in BLOCK.findall(PAGE.read_text()):
        for line in block.splitlines() if kind == "console" else ():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def matches(shown: list[str], said: list[str]) -> bool:
    """Whether the lines are those shown, where a line `…` stands for any number of them."""
    if not shown:
        return not said
    if shown[0].strip() == SKIP:
        return any(matches(shown[1:], said[at:]) for at in range(len(said) + 1))
    return bool(said) and shown[0] == said[0] and matches(shown[1:], said[1:])


def words(command: str) -> list[str]:
    """The arguments after `stw`."""
    first, *rest = shlex.split(command)
    assert first == "stw"
    return rest


@pytest.mark.parametrize(("command", "shown"), commands())
def test_the_page_shows_what_the_command_says(command: str, shown: list[str], stw: Stw) -> None:
    """Line by line."""
    result = stw(*words(command))
    while shown and not shown[-1]:
        shown.pop()
    said = [*result.lines, *result.err.splitlines()]
    assert matches(shown, said), "\n".join(said)


def test_what_the_page_quotes_stands_in_the_fleet() -> None:
    """Word for word."""
    fleet = (FOLDER / "fleet.yaml").read_text()
    quoted = [block for kind, block in BLOCK.findall(PAGE.read_text()) if kind == "yaml"]
    assert len(quoted) == 2
    assert all(block in fleet for block in quoted)


def planned(stw: Stw, *more: str) -> Any:
    """The record of the plan of both profiles."""
    result = stw("plan", "--fleet", "fleet.yaml", "train.yaml", "infer.yaml", *more, "-o", "json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_the_two_profiles_go_where_they_should(stw: Stw) -> None:
    """Training to the fastest that law and purse allow, serving near its clients, canary first."""
    train, chat = planned(stw, "--at", "2026-12-01T10:00:00Z")["tasks"]
    assert [one["cluster"] for one in train["clusters"]] == ["spoke-eu2"]
    assert train["runner_up"] == "atlas"
    assert [(g["name"], g["clusters"]) for g in chat["groups"]] == [
        ("canary", ["spoke-eu1"]),
        ("", ["spoke-eu2"]),
    ]
    assert [(one["cluster"], one["replicas"]) for one in chat["clusters"]] == [
        ("spoke-eu1", 2),
        ("spoke-eu2", 1),
    ]
    assert chat["standby"] == ["cloud-eu"]
    refused = {
        one["cluster"]: [each["rule"]["filter"] for each in one["refusals"]]
        for one in train["candidates"]
        if one["verdict"] == "refused"
    }
    assert refused["cloud-eu"] == ["Limits"]
    assert set(refused["cloud-us"]) == {"Limits", "Estimates"}
    assert "Demand" in refused["laptop"]


def test_the_record_says_its_version_and_its_moment(stw: Stw) -> None:
    """A program reads it without guessing; YAML says the same."""
    record = planned(stw, "--at", "2026-12-01T11:00:00+01:00")
    assert (record["version"], record["at"]) == (1, "2026-12-01T10:00:00.000Z")
    told = stw(
        "plan", "--fleet", "fleet.yaml", "train.yaml", "infer.yaml", "-o", "yaml",
        "--at", "2026-12-01T10:00:00Z",
    )  # fmt: skip
    assert yaml.safe_load(told.out) == record


def test_a_lost_region_is_planned_around_with_reasons(stw: Stw) -> None:
    """Who was there moves, and says why; who wasn't stays."""
    record = planned(stw, "--if", "lose topology.kubernetes.io/region=eu-central")
    moves = {(one["task"], one["left"], one["taken"]) for one in record["changes"]}
    assert moves == {
        ("train", "spoke-eu2", "atlas"),
        ("chat", "spoke-eu2", ""),
        ("chat", "spoke-eu1", "spoke-eu1"),
    }
    train = next(one for one in record["changes"] if one["task"] == "train")
    assert train["why"] == ["spoke-eu2 isn't in the fleet any more"]
    assert train["cost_usd"] < 0 < train["finishes_s"]
    assert record["tasks"][1]["missing_clusters"] == 1


def test_the_fleet_is_of_every_kind() -> None:
    """At least eight clusters over all kinds, some of them objects of the hub as they are."""
    documents = [one for one in yaml.safe_load_all((FOLDER / "fleet.yaml").read_text()) if one]
    clusters = [one for one in documents if one["kind"] in {"Cluster", "ManagedCluster"}]
    names = {one.get("name") or one["metadata"]["name"] for one in clusters}
    assert len(names) >= 8
    assert {one["kind"] for one in documents} >= {
        "Cluster", "ManagedCluster", "ManagedClusterSet", "ManagedClusterSetBinding", "Placement",
        "Dataset", "Model", "Links", "Latency",
    }  # fmt: skip
    assert os.path.exists(PAGE)


def test_a_narrow_terminal_shows_less_and_cuts_nothing(
    stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer than the terminal is wide, down to 60 columns."""
    for width in (80, 60):
        narrow = Terminal(True, False, True, width)
        monkeypatch.setattr(output, "terminal_of", lambda *_, shown=narrow, **__: shown)
        lines = stw("plan", "--fleet", "fleet.yaml", "train.yaml", "infer.yaml").lines
        assert [line for line in lines if len(line) > width and "/clusterset" not in line] == []


def test_the_plan_does_not_depend_on_the_order_of_hashes() -> None:
    """Two processes with other seeds write the same record."""
    command = [
        sys.executable, "-m", "stellwerk.cli", "plan", "--fleet", "fleet.yaml", "train.yaml",
        "infer.yaml", "--if", "lose zone=eu-lab-a", "--at", "2026-12-01T10:00:00Z", "-o", "json",
    ]  # fmt: skip
    said = [
        subprocess.run(
            command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
