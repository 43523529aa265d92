"""The same answer for people, for programs and for pipes."""

import json
from typing import Any

import msgspec
import pytest

from stellwerk.cli.output import Output
from stellwerk.cli.terminal import Terminal
from tests.cli.conftest import Stw
from tests.client.fake_server import Asked, FakeServer, Says, reason, row

ROWS = [
    row("eval", "Pending", reason=reason("no_room", "capacity", "2 CPUs asked, 1 free on laptop")),
    row(
        "digits",
        "Failed",
        exit_code=3,
        runs=2,
        cluster="laptop",
        reason=reason("exit_code", "ended", "the command ended with exit code 3"),
    ),
]


@pytest.fixture(autouse=True)
def rows(server: FakeServer) -> None:
    server.on("GET", "/v1/workloads", {"items": ROWS, "seq": 1, "next": None})


def test_a_pipe_gets_tabs_and_everything(stw: Stw) -> None:
    """Nothing is coloured, aligned or cut off, and the hint isn't in the data."""
    result = stw("ps", "--columns", "name,phase,why")
    assert result.lines == [
        "NAME\tPHASE\tWHY",
        "eval\tPending\tcapacity: 2 CPUs asked, 1 free on laptop",
        "digits\tFailed\tthe command ended with exit code 3",
    ]
    assert result.err == "next: stw show digits\n"


def test_headers_can_be_left_out(stw: Stw) -> None:
    """For `cut` and `while read`."""
    assert stw("ps", "--columns", "name", "--no-headers").lines == ["eval", "digits"]


def test_json_is_a_list_of_the_api_s_fields(stw: Stw) -> None:
    """What programs rely on."""
    result = stw("ps", "-A", "-o", "json")
    rows = json.loads(result.out)
    assert [(one["name"], one["phase"]) for one in rows] == [
        ("eval", "Pending"),
        ("digits", "Failed"),
    ]
    assert rows[1]["reason"]["code"] == "exit_code"
    assert result.err == ""


def test_json_can_be_cut_to_fields(stw: Stw) -> None:
    """`--columns` names fields there."""
    assert json.loads(stw("ps", "-o", "json", "--columns", "name,runs").out) == [
        {"name": "eval", "runs": 0},
        {"name": "digits", "runs": 2},
    ]


def test_json_lines_and_yaml_say_the_same(stw: Stw) -> None:
    """Three notations of one list."""
    whole = json.loads(stw("ps", "-o", "json").out)
    assert [json.loads(line) for line in stw("ps", "-o", "jsonl").lines] == whole
    assert msgspec.yaml.decode(stw("ps", "-o", "yaml").out) == whole


def test_names_alone_feed_other_commands(stw: Stw) -> None:
    """`stw cancel $(stw ps -o name)`."""
    assert stw("ps", "-o", "name").lines == ["eval", "digits"]


def test_rows_are_sorted_by_a_column(stw: Stw) -> None:
    """Numbers as numbers; a minus turns it around."""
    assert stw("ps", "-o", "name", "--sort", "runs").lines == ["eval", "digits"]
    assert stw("ps", "-o", "name", "--sort", "-runs").lines == ["digits", "eval"]
    assert stw("ps", "-o", "name", "--sort", "name").lines == ["digits", "eval"]
    by_header = stw("ps", "--columns", "name,ran,PRIO", "--sort", "-prio")
    assert by_header.lines[0] == "NAME\tRAN\tPRIO"


@pytest.mark.parametrize("option", ["--sort", "--columns"])
def test_an_unknown_column_lists_those_that_are(stw: Stw, option: str) -> None:
    """And ends with the code of a wrong argument."""
    result = stw("ps", option, "nmae")
    assert result.code == 2
    assert "no column `nmae`" in result.err
    assert "name, id, owner, phase" in result.err


def test_the_usual_format_is_a_setting(stw: Stw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag holds before it."""
    monkeypatch.setenv("STELLWERK_OUTPUT", "name")
    assert stw("ps").lines == ["eval", "digits"]
    assert stw("ps", "-o", "jsonl").out.startswith("{")


def test_colours_can_be_forced_and_forbidden(stw: Stw, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR colours a pipe; NO_COLOR holds before it."""
    import sys

    from stellwerk.cli.terminal import terminal_of

    monkeypatch.setenv("FORCE_COLOR", "1")
    assert terminal_of(sys.stdout).style("x", "bad") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal_of(sys.stdout).style("x", "bad") == "x"


def test_an_empty_list_says_what_to_do(server: FakeServer, stw: Stw) -> None:
    """And is an empty list for programs."""
    server.on("GET", "/v1/workloads", {"items": [], "seq": 1, "next": None})
    result = stw("ps")
    assert (result.code, result.out) == (0, "")
    assert result.err == "nothing waits or runs\nnext: stw ps -A, or: stw run task.yaml\n"
    assert stw("ps", "sweep-*").err.startswith("none that waits or runs is like that\n")
    assert "next: stw ps -A 'sweep-*', or:" in stw("ps", "sweep-*").err
    assert "next: stw ps -A -l team=x, or:" in stw("ps", "-l", "team=x").err
    assert json.loads(stw("ps", "-o", "json").out) == []


def test_patterns_labels_and_phases_choose(server: FakeServer, stw: Stw) -> None:
    """Names by pattern here, labels and phases by the server."""
    assert stw("ps", "ev*", "-o", "name", "-l", "team=x", "--phase", "pending").lines == ["eval"]
    query = server.asked[-1].query
    assert (query["label"], query["phase"], query["all"]) == ("team=x", "Pending", "0")
    stw("ps", "--phase", "failed")
    assert server.asked[-1].query["all"] == "1"


def test_a_bad_label_is_a_wrong_argument(stw: Stw) -> None:
    """It is said before anything is asked."""
    result = stw("ps", "-l", "team")
    assert result.code == 2
    assert "-l KEY=VALUE" in result.err


def test_names_with_control_characters_do_no_harm(server: FakeServer, stw: Stw) -> None:
    """A name can't move the cursor of whoever looks at a list."""
    server.on("GET", "/v1/workloads", {"items": [row("a\x1b[2Jb")], "seq": 1, "next": None})
    assert stw("ps", "--columns", "name").lines[1] == "a?[2Jb"


def test_what_the_server_can_not_say_is_said(server: FakeServer, stw: Stw) -> None:
    """A broken answer is an error in words."""
    server.on("GET", "/v1/workloads", Says(b"[]"))
    result = stw("ps")
    assert result.code == 1
    assert "isn't understood" in result.err


def paged(asked: Asked) -> dict[str, Any]:
    """5,000 workloads, of which a page shows as many as it may."""
    first = int(asked.query.get("after", 0))
    count = min(int(asked.query["limit"]), 5_000 - first)
    rows = [row(f"j{n}", "Pending") for n in range(first, first + count)]
    more = str(first + count) if first + count < 5_000 else None
    return {
        "items": rows,
        "seq": 1,
        "next": more,
        "total": 5_000 if "total" in asked.query else None,
    }


@pytest.mark.parametrize("verb", ["ps", "queue"])
def test_a_long_list_is_cut_for_people(
    server: FakeServer, stw: Stw, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """On a terminal 100, or as many as asked for; what is left out is counted, with the remedy."""
    server_of_lists(server)
    on_terminal(monkeypatch)
    result = stw(verb, "--no-headers", "--columns", "name")
    assert len(result.lines) == 100
    assert f"… and 4,900 more: stw {verb} --limit 0" in result.err
    assert server.asked[0].query["limit"] == "100"
    if verb == "ps":
        same = stw("ps", "--phase", "failed", "-l", "team=x").err
        assert "more: stw ps -A -l team=x --phase Failed --limit 0" in same
    few = stw(verb, "--no-headers", "--columns", "name", "--limit", "3", "--sort", "-name")
    assert few.lines == ["j999", "j998", "j997"]
    assert "… and 4,997 more" in few.err


@pytest.mark.parametrize("verb", ["ps", "queue"])
def test_programs_get_all_that_they_ask_for(server: FakeServer, stw: Stw, verb: str) -> None:
    """Through pipes and as data everything, page after page, unless a limit is given."""
    server_of_lists(server)
    assert len(stw(verb, "--no-headers", "--columns", "name").lines) == 5_000
    assert len(json.loads(stw(verb, "-o", "json").out)) == 5_000
    assert len(json.loads(stw(verb, "-o", "json", "--limit", "7").out)) == 7


def server_of_lists(server: FakeServer) -> FakeServer:
    server.on("GET", "/v1/workloads", paged)
    server.on("GET", "/v1/forecast", {"items": [], "seq": 1})
    return server


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has stdout taken for a wide terminal."""
    shown = Terminal(is_tty=True, colour=False, unicode=True, width=200)
    monkeypatch.setattr(Output, "terminal", lambda _self: shown)
