"""The room K017: each of its files is read as people would have it, and says what it should."""

import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import pytest
import yaml

from stellwerk.cli.main import cli
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.task import Task
from stellwerk.engine import ical
from tests.cli.conftest import Stw, stw

__all__ = ["stw"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "k017"
PAGES = (FOLDER / "README.md", ROOT / "docs" / "k017.md")
COMMIT = "c0ffee" * 6 + "0123"
BERLIN = ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)


def lectures(year: int, month: int, day: int, days: int) -> list[str]:
    """What takes place in the room: day, begin, end and name."""
    begin = datetime(year, month, day, tzinfo=BERLIN)
    span = [round((begin + DAY * n).timestamp() * 1000) for n in (0, days)]
    text = (FOLDER / "lectures.ics").read_text()
    found = ical.read(text, "lectures.ics", BERLIN, *span).happenings
    said = [datetime.fromtimestamp(one.from_ms / 1000, BERLIN) for one in found]
    ends = [datetime.fromtimestamp(one.until_ms / 1000, BERLIN) for one in found]
    return [
        f"{a:%d %H:%M}-{b:%H:%M} {one.what.partition(',')[0]}"
        for one, a, b in zip(found, said, ends, strict=True)
    ]


def test_a_week_of_lectures() -> None:
    """What was moved is where it went; what is cancelled, or only announced, isn't there."""
    assert lectures(2026, 12, 7, 7) == [
        "07 10:00-11:30 Databases I",
        "08 14:15-15:45 Programming lab",
        "09 14:00-17:30 Computer vision",
        "10 14:15-15:45 Programming lab",
        "11 12:15-13:45 Statistics",
    ]


def test_lectures_keep_their_hour_when_the_clocks_change_and_stop_for_christmas() -> None:
    """On both sides of 25 October; in the holidays no lecture is held, the building closed."""
    assert lectures(2026, 10, 19, 1) == ["19 10:00-11:30 Databases I"]
    assert lectures(2026, 10, 26, 1) == ["26 10:00-11:30 Databases I"]
    assert lectures(2026, 12, 24, 13) == [
        "24 00:00-00:00 The building is closed",
        "31 00:00-00:00 The building is closed",
        "02 09:00-12:00 Updates of the PCs",
    ]


def tasks() -> dict[str, Task]:
    found = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.stem != "fleet":
            task = read_tasks(file.read_text(), env={"REVISION": COMMIT})
            assert isinstance(task, Task)
            found[file.stem] = task
    return found


def test_the_tasks_and_their_programs_are_whole() -> None:
    """Each reads without anything to note, and names a program that is there and compiles."""
    found = tasks()
    assert sorted(found) == ["finetune", "fit", "prepare"]
    for name, task in found.items():
        assert not task.notices, name
        programs = re.findall(r"\w+\.py", task.run)
        inline = task.run.partition("<<'END'\n")[2].partition("\nEND")[0]
        assert programs or inline
        for text in [inline, *((FOLDER / one).read_text() for one in programs)]:
            compile(text, name, "exec")


def test_the_fleet_has_a_place_for_each_also_without_the_room(
    stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command of the tutorial: the training goes to the room, and else to the server."""
    monkeypatch.chdir(FOLDER)
    files = [f"{name}.yaml" for name in tasks()]
    more = ["--env", f"REVISION={COMMIT}", "-o", "yaml"]
    plan = yaml.safe_load(stw("plan", "--fleet", "fleet.yaml", *files, *more).out)
    assert [task["verdict"] for task in plan["tasks"]] == ["placed"] * 3
    lost = stw("plan", "--fleet", "fleet.yaml", "finetune.yaml", "--if", "lose k017")
    assert "finetune: k017 → server" in lost.out


def test_data_that_nobody_has_seen_is_of_unknown_size(
    stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a catalogue nobody can say how much would move, nor where it lies."""
    monkeypatch.chdir(FOLDER)
    said = stw("plan", "--fleet", "fleet.yaml", "prepare.yaml", "--env", f"REVISION={COMMIT}").out
    assert f"@{COMMIT} (of unknown size)" in said
    assert "how much of the data it lacks isn't known" in said


def commands() -> list[list[str]]:
    """Every `stw …` of both pages, in backticks or on a line of its own."""
    found = []
    for page in PAGES:
        found += re.findall(r"(?:`|^)(stw [^`\n]+)", page.read_text(), re.MULTILINE)
    return [shlex.split(one) for one in found]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_pages_name_commands_and_options_that_there_are(words: list[str]) -> None:
    """A command that was renamed must not stay on a page for the wall."""
    command: click.Command = cli
    context = click.Context(command)
    rest = words[1:]
    while isinstance(command, click.Group) and rest:
        inner = command.get_command(context, rest[0])
        if inner is None:
            break
        command, rest = inner, rest[1:]
    assert command is not cli, words
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    own = rest[: rest.index("--")] if "--" in rest else rest
    assert {word for word in own if word.startswith("-")} <= known, words


def test_the_page_for_the_wall_fits_on_one_screen() -> None:
    """Lines as a terminal shows them."""
    assert len(PAGES[0].read_text().splitlines()) <= 30
