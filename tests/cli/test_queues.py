"""`stw queues`: what files of Kueue's objects would do, without a server."""

import json
from pathlib import Path

import pytest

from stellwerk.cli.render.queues import bar, lines_of
from stellwerk.cli.terminal import Terminal
from stellwerk.core.queue.planned import planned_of
from tests.cli.conftest import Stw
from tests.core.queue.builders import NOW_MS, holds, objects, queue, quota, waits

FOLDER = Path(__file__).parent / "queues"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that name the two files of the example."""
    monkeypatch.chdir(tmp_path)
    found = []
    for name in ("queues.yaml", "work.yaml"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
        found += ["-f", name]
    return found


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("one.txt", []),
        ("settled.txt", ["--until-settled"]),
        ("wide.txt", ["--until-settled", "-o", "wide"]),
    ],
)
def test_what_is_said(stw: Stw, files: list[str], golden: str, options: list[str]) -> None:
    """Who starts, who goes, why each other waits with every level's numbers, how full all is."""
    result = stw("queues", "plan", *files, *options)
    assert result.code == 0
    assert result.out == (FOLDER / golden).read_text()


def test_it_goes_on_where_it_may(stw: Stw, files: list[str]) -> None:
    """After one cycle it is said how to see the end; that two evict each other is said as well."""
    assert stw("queues", "plan", *files).err.splitlines() == [
        "next: --until-settled goes on until nothing changes"
    ]
    assert stw("queues", "plan", *files, "--until-settled").err == ""


def test_programs_get_all_of_it(stw: Stw, files: list[str]) -> None:
    """The fields of the plan; reasons with code, tier and numbers."""
    result = stw("queues", "plan", *files, "--until-settled", "-o", "json")
    found = json.loads(result.out)
    assert found["settled"] is True
    assert [one["name"] for one in found["admitted"]] == ["detect", "segment"]
    assert [(one["name"], one["by"]) for one in found["preempted"]] == [("eval", "cv/segment")]
    huge = next(one for one in found["waiting"] if one["name"] == "huge")
    assert huge["reference"] == "ExceedsMaxQuota"
    assert (huge["reason"]["code"], huge["reason"]["tier"]) == ("queue_exceeds", "blocked")
    assert huge["reason"]["params"]["largest"] == "12"
    path = next(one for one in huge["flavors"] if one["outcome"] == "exceeds")["path"]
    assert [(one["kind"], one["name"]) for one in path] == [("queue", "vision"), ("cohort", "lab")]
    used = {
        (one["name"], one["resource"]): one["used"]
        for one in found["usage"]
        if one["flavor"] == "h100"
    }
    assert used["lab", "nvidia.com/gpu"] == 14_000


def test_check_tells_everything(stw: Stw, files: list[str]) -> None:
    """What there is; or each slip on its line, and exit code 2."""
    result = stw("queues", "check", *files)
    assert result.out == (
        "all of it can be accepted: 2 flavors, 2 cluster queues, 2 local queues, "
        "1 priority class, 8 workloads\n"
    )
    text = Path("queues.yaml").read_text()
    Path("queues.yaml").write_text(
        text.replace("lendingLimit: 6", "lendingLimit: -6").replace("Any", "Anyone")
    )
    result = stw("queues", "check", *files)
    assert result.code == 2
    assert [line.split()[0] for line in result.err.splitlines()] == ["error[spec/value]"] * 2
    assert "queues.yaml:20:37" in result.err
    assert result.out == ""


def test_notes_are_said(stw: Stw, files: list[str]) -> None:
    """A local queue that leads nowhere: a note, and its workloads wait for that reason."""
    text = Path("queues.yaml").read_text()
    Path("queues.yaml").write_text(text.replace("clusterQueue: language", "clusterQueue: lang"))
    result = stw("queues", "plan", *files)
    assert result.code == 0
    assert "note[queue/points-nowhere]: line" in result.err
    assert "- nlp/more in lang: blocked: there is no queue `lang` for it" in result.out


def test_files_that_cannot_be_read(stw: Stw, tmp_path: Path) -> None:
    """A missing file and bytes that are no text are told in one line, as is no file at all."""
    (tmp_path / "odd").write_bytes(b"\xff\xfe\x00")
    for arguments in (["-f", str(tmp_path / "none")], ["-f", str(tmp_path / "odd")], []):
        result = stw("queues", "check", *arguments)
        assert result.code == 2
        assert result.err.startswith("error[usage/")
        assert len(result.err.splitlines()) == 1


def test_it_says_that_the_server_does_not_queue_by_them(stw: Stw) -> None:
    """Nobody must take it for more than it is."""
    result = stw("queues", "--help")
    assert "say what files mean, without a server" in " ".join(result.out.split())


def test_bars_show_what_is_borrowed() -> None:
    """Own use, borrowed use and what is free, and the same in plain characters."""
    world = objects(queue("a", quota(4, 8), "lab"), queue("b", 8, "lab"))
    found = planned_of(world, NOW_MS, 1)
    terminal = Terminal(is_tty=True, colour=False, unicode=False, width=100)
    assert {bar(one, terminal) for one in found.usage if one.name == "a"} == {
        "[....................] 0/4"
    }
    world = objects(*world.queues)
    full = planned_of(
        type(world)(flavors=world.flavors, queues=world.queues, workloads=(holds("r", "a", 6),)),
        NOW_MS,
        1,
    )
    shown = next(bar(one, terminal) for one in full.usage if one.name == "a")
    assert shown == "[#############xxxxxxx] 6/4"


def test_very_many_are_counted() -> None:
    """People see the first ones, and how to see all."""
    load = tuple(waits(f"w{number:03}", "q", 9) for number in range(60))
    world = objects(queue("q", 4))
    found = planned_of(
        type(world)(flavors=world.flavors, queues=world.queues, workloads=load), NOW_MS, 1000
    )
    terminal = Terminal(is_tty=False, colour=False, unicode=True, width=0)
    assert "  and 20 more: -o wide" in lines_of(found, terminal, wide=False)
    assert not any("more: -o wide" in line for line in lines_of(found, terminal, wide=True))
