"""The table of commands, and what a person sees who mistypes one."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from stellwerk.cli import main as table
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, refuses


def test_help_lists_every_command(stw: Stw) -> None:
    """By sections, each with a few words."""
    result = stw("--help")
    assert result.code == 0
    for name, entry in table.TABLE.items():
        assert f"  {name} " in result.out
        assert entry.about in " ".join(result.out.split())


@pytest.mark.parametrize("name", list(table.TABLE))
def test_every_command_has_help_with_an_example(stw: Stw, name: str) -> None:
    """The entry of the table leads somewhere, and its help says how to call it."""
    entry = table.TABLE[name]
    command = getattr(import_module(entry.module), entry.attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    result = stw(name, "--help")
    assert result.code == 0
    assert "Example: " in result.out
    assert f"stw {name}" in result.out


def test_help_loads_no_command(stw: Stw) -> None:
    """The table alone is enough for the list."""
    code = (
        "import sys; from stellwerk.cli.main import main\ntry: main(['--help'])\n"
        "except SystemExit: print(*[m for m in sys.modules if 'cli.commands' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_an_unknown_command_gets_the_nearest(stw: Stw) -> None:
    """A typing mistake costs one look."""
    result = stw("expalin", "x")
    assert (result.code, result.out) == (2, "")
    said = "error[usage/command]  there is no command `expalin`  help: did you mean `explain`?\n"
    assert result.err == said


def test_without_a_command_the_help_is_shown(stw: Stw) -> None:
    """As it is, since whoever types the bare name asks for it; but nothing was done."""
    result = stw()
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: stw ")


def test_an_unknown_option_gets_the_nearest(stw: Stw) -> None:
    """The same for options."""
    result = stw("ps", "--colums", "name")
    assert result.code == 2
    assert "there is no option `--colums`  help: did you mean `--columns`?" in result.err


def test_a_missing_argument_names_the_help(stw: Stw) -> None:
    """What is missing, and where to read on."""
    result = stw("show")
    assert result.code == 2
    assert result.err == "error[usage/missing]  missing argument 'NAME'  help: stw show --help\n"


@pytest.mark.parametrize(
    ("status", "exit_code"), [(404, 3), (403, 4), (409, 5), (503, 6), (422, 2), (500, 1)]
)
def test_the_servers_refusal_becomes_the_exit_code(
    server: FakeServer, stw: Stw, status: int, exit_code: int
) -> None:
    """The server knows what its codes mean for a shell."""
    server.on("GET", "/v1/workloads/x", refuses("some/code", "no", status, exit_code, help="do y"))
    result = stw("show", "x")
    assert (result.code, result.out) == (exit_code, "")
    assert result.err == "error[some/code]  no  help: do y\n"


def test_a_mistake_of_ours_is_no_traceback(
    server: FakeServer, stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line; the traceback only for whoever asks for it."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("boom")

    monkeypatch.setattr("stellwerk.client.api.Client.get", broken)
    result = stw("show", "x")
    assert result.code == 1
    assert result.err.startswith("error[internal]  KeyError: 'boom'")
    assert "Traceback" not in result.err
    monkeypatch.setenv("STW_DEBUG", "1")
    assert "Traceback" in stw("show", "x").err


def test_bad_settings_are_told(stw: Stw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that can't be read stops a command in words."""
    monkeypatch.setenv("STELLWERK_OUTPUT", "xml")
    result = stw("ps")
    assert result.code == 2
    assert "`output` is `xml`" in result.err


def test_whoever_stops_reading_is_no_error(server: FakeServer) -> None:
    """`stw events | head -1` ends quietly."""
    server.on("GET", "/v1/workloads", {"items": [], "seq": 1, "next": None})
    events = [{"seq": n, "at_ms": n, "event": {"type": "x", "text": "y" * 99}} for n in range(1500)]
    server.on("GET", "/v1/events", {"items": events, "seq": 1, "next": 1499})
    command = f"{sys.executable} -m stellwerk.cli events -n 0 -o jsonl | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "1"


def test_version_says_what_answers(server: FakeServer, stw: Stw) -> None:
    """Client and server may differ."""
    assert stw("version").lines == ["stellwerk 0.1.0", "server    0.1.0"]
    assert stw("--version").lines == ["stellwerk 0.1.0"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_both_names(stw: Stw, shell: str) -> None:
    """Both programs are the same."""
    result = stw("completion", shell)
    assert result.code == 0
    assert "_STW_COMPLETE" in result.out
    assert "_STELLWERK_COMPLETE" in result.out


@pytest.mark.parametrize(
    "words",
    [
        ("show", "\udcff"),
        ("run", "-d", "--", "echo", "\udcff"),
        ("run", "-d", "--env", "A=\udcff", "--", "true"),
        ("run", "-d", "--name", "\udcff", "--", "true"),
        ("cancel", "a", "\udcff"),
        ("ps", "-l", "a=\udcff"),
    ],
)
def test_an_argument_that_is_no_text(stw: Stw, server: FakeServer, words: tuple[str, ...]) -> None:
    """Bytes that aren't UTF-8 are shown as they are, and refused as a wrong argument."""
    result = stw(*words)
    assert result.code == 2, result.err
    assert "error[" in result.err
    assert "xff" in result.err
    assert "internal" not in result.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_standard_files(closed: str) -> None:
    """They are as good as /dev/null: no traceback, and the same exit code."""
    for words, code in (("--help", 0), ("config show", 0), ("expalin", 2)):
        command = f"exec '{sys.executable}' -m stellwerk.cli {words} {closed}"
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert "Traceback" not in done.stdout + done.stderr


def test_what_steers_a_terminal_is_shown_instead(stw: Stw, tmp_path: Path) -> None:
    """A name from a file can't repaint the screen by way of its error message."""
    file = tmp_path / "task.yaml"
    file.write_text('run: x\nname: "\\e[31m\\u202egnp.exe\\x07"\n')
    result = stw("run", str(file))
    assert result.code == 2
    assert r"\x1b[31m\u202egnp.exe\x07" in result.err
    assert all(char.isprintable() or char == "\n" for char in result.err)


@pytest.mark.parametrize("words", [("run", "--", "true"), ("run", "task.yaml"), ("ps",)])
def test_a_folder_that_was_removed_under_the_caller(
    stw: Stw, server: FakeServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Where that matters it is said, instead of `No such file or directory`."""
    gone = tmp_path / "gone"
    gone.mkdir()
    before = Path.cwd()
    os.chdir(gone)
    try:
        gone.rmdir()
        result = stw(*words)
    finally:
        os.chdir(before)
    assert "error[system]" not in result.err
    assert ("isn't there any more" in result.err) == (words == ("run", "--", "true"))
