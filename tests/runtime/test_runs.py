"""Real runs from start to end: environment, setup, ranks, output, and the record of the end."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stellwerk.runtime import namespaces
from tests.runtime.rig import PYTHON, Refusal, Rig, processes_of


def test_end_is_recorded_with_what_it_used(rig: Rig) -> None:
    """The record has the status, the last lines, times, memory and processor time."""
    burn = "x = bytearray(60_000_000); [i for i in range(2_000_000)]"
    end = rig.finish("used", f"echo first; {PYTHON} -c '{burn}'; echo last; exit 3")
    assert (end["how"], end["code"], end["rank"], end["ranks"]) == ("exited", 3, 0, {"0": 3})
    assert end["last_lines"] == ["first", "last"]
    assert end["peak_memory_bytes"] > 55_000_000
    assert end["cpu_ms"] > 20
    assert end["started_at_ms"] <= end["ended_at_ms"] <= time.time() * 1000 + 1
    assert end["log_bytes"] == len("first\nlast\n")
    assert not end["put_back"]


def test_job_sees_its_contract(rig: Rig) -> None:
    """Variables of the job and its rank, the promised paths, unbuffered output, no terminal."""
    script = 'env; echo "cwd $PWD"; test -t 0 || echo "no terminal"; umask'
    rig.finish(
        "contract",
        script,
        env={"A": "from env", "PATH": "/usr/bin:/bin"},
        ranks=[{"rank": 0, "env": {"SKYPILOT_NODE_RANK": "0", "A": "from rank"}}],
    )
    seen = dict(line.partition("=")[::2] for line in rig.log("contract").splitlines())
    assert seen["A"] == "from rank"
    assert seen["SKYPILOT_NODE_RANK"] == "0"
    assert seen["PYTHONUNBUFFERED"] == "1"
    assert seen["PATH"] == "/usr/bin:/bin"
    assert seen["STELLWERK_RUN_ID"] == "contract"
    assert seen["STELLWERK_WORKLOAD_ID"] == "w-contract"
    assert seen["HOME"] == rig.home
    assert os.path.isdir(seen["STELLWERK_CHECKPOINT_DIR"])
    assert os.path.isdir(seen["STELLWERK_OUTPUT_DIR"])
    for name in ("STOP", "DONE", "METRICS"):
        assert seen[f"STELLWERK_{name}_FILE"].startswith(rig.path("contract"))
    assert "BASH_ENV" not in seen
    log = rig.log("contract")
    assert f"cwd {rig.path('contract', 'work')}\n" in log
    assert "no terminal" in log
    assert log.splitlines()[-1] == "0022"


def test_line_numbers_are_those_of_the_text(rig: Rig) -> None:
    """Bash names the user's line, not one of ours."""
    rig.finish("lines", "true\nno-such-command\n")
    assert "run.sh: line 2: no-such-command" in rig.log("lines")


def test_program_without_a_shell_in_place(rig: Rig) -> None:
    """`argv` runs in the caller's directory with exactly the caller's environment."""
    place = os.path.join(rig.folder, "place")
    os.mkdir(place)
    program = "import os,json;print(json.dumps([os.getcwd(), os.environ.get('ODD-NAME')]))"
    end = rig.finish(
        "argv",
        None,
        argv=[*PYTHON.split(), "-c", program],
        cwd=place,
        env={"ODD-NAME": "kept"},
        inherit_env=True,
    )
    assert end["code"] == 0
    assert json.loads(rig.log("argv")) == [place, "kept"]
    assert end["shell"]["source"] == "given"


def test_signal_of_the_program_itself(rig: Rig) -> None:
    """A program that dies of a signal is told from one that exits."""
    end = rig.finish("abort", None, argv=["/bin/bash", "-c", "kill -SEGV $$"])
    assert (end["how"], end["signal"], end["code"]) == ("signaled", 11, 139)


@pytest.mark.parametrize(
    ("run", "fields", "message", "code"),
    [
        ("nowhere", {"cwd": "/nonexistent/place"}, "the directory `/nonexistent/place`", None),
        ("noprogram", {"argv": ["/no/such/prog"], "script": None}, "the program `/no/such", 127),
        ("noexec", {"argv": ["/etc/passwd"], "script": None}, "the program `/etc/passwd`", 126),
        ("toobig", {"env": {f"V{i}": "x" * 120_000 for i in range(30)}}, "than Linux allow", None),
    ],
)
def test_what_cannot_be_started_is_said(
    rig: Rig, run: str, fields: dict[str, Any], message: str, code: int | None
) -> None:
    """A missing directory or program, or too large an environment, is no failure of the job.

    The code for a program is what a shell would end with.
    """
    script = fields.pop("script", "true")
    end = rig.finish(run, script, **fields)
    assert end["how"] == "spawn_failed"
    assert message in end["message"]
    assert (end["put_back"], end["code"]) == (False, code)


@pytest.mark.skipif(namespaces.trouble() is not None, reason="no namespaces: nothing is kept")
def test_setup_runs_once_per_key(rig: Rig) -> None:
    """The second run of the same key skips the setup, and two at once don't run it twice."""
    mark = os.path.join(rig.folder, "setups.txt")
    setup = f"echo $STELLWERK_RUN_ID >> {mark}; sleep 0.3; echo set up"
    for run in ("s1", "s2"):
        rig.start(run, "echo run", setup=setup, setup_key="key1")
    ends = [rig.ended(run) for run in ("s1", "s2")]
    assert len(Path(mark).read_text().split()) == 1
    assert sorted(end["setup"] for end in ends) == ["cached", "ok"]
    assert rig.finish("s3", "echo run", setup=setup, setup_key="key1")["setup"] == "cached"
    assert rig.finish("s4", "echo run", setup=setup)["setup"] == "ok"
    assert rig.log("s4", "setup.log") == "set up\n"


def test_failed_setup(rig: Rig) -> None:
    """The ranks don't start, the end names the setup, and the result isn't remembered."""
    end = rig.finish("f1", "echo run", setup="echo broken; exit 4", setup_key="bad")
    assert (end["how"], end["code"], end["rank"]) == ("setup_failed", 4, None)
    assert end["last_lines"] == ["broken"]
    assert rig.log("f1") == ""
    assert rig.finish("f2", "true", setup="true", setup_key="bad")["setup"] == "ok"


def test_setup_sees_its_own_variables_and_no_gpu(rig: Rig) -> None:
    """The setup has `setup_env`, no variable of a rank, and no CUDA_VISIBLE_DEVICES."""
    rig.finish(
        "se",
        "echo $CUDA_VISIBLE_DEVICES $SETUP_ONLY.",
        setup='echo "$SETUP_ONLY-$RANK_ONLY-${CUDA_VISIBLE_DEVICES-unset}"',
        setup_env={"SETUP_ONLY": "s"},
        env={"CUDA_VISIBLE_DEVICES": "3"},
        ranks=[{"rank": 0, "env": {"RANK_ONLY": "r"}}],
    )
    assert rig.log("se", "setup.log") == "s--unset\n"
    assert rig.log("se") == "3 .\n"


def test_first_failed_rank_ends_the_others(rig: Rig) -> None:
    """Its code is the run's, the others are reported as killed, one that was done stays done."""
    ranks = [{"rank": n, "env": {"R": str(n)}} for n in range(3)]
    script = "case $R in 0) sleep 60;; 1) sleep 0.1; exit 7;; 2) echo two;; esac"
    end = rig.finish("ranks", script, ranks=ranks)
    assert end["ranks"] == {"0": 137, "1": 7, "2": 0}
    assert (end["how"], end["code"], end["rank"]) == ("exited", 7, 1)
    assert rig.log("ranks", "rank-2.log") == "two\n"
    assert processes_of("ranks") == []


def test_secrets_are_only_in_the_environment(rig: Rig) -> None:
    """The value of a secret is in no file under the root and on no command line."""
    value = "s3cret-Zz-value"
    for shell in ("snapshot", "interactive"):
        run = f"secret-{shell}"
        script = 'test "$TOKEN" = s3cret-Zz"-value" && echo same; sleep 0.5'
        rig.start(run, script, setup="true", shell=shell, secrets={"TOKEN": value})
        rig.wait_for_line(run, "same")
        lines = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
        assert not any(value in _text(path) for path in lines)
        rig.ended(run)
    files = [Path(folder, name) for folder, _, names in os.walk(rig.root) for name in names]
    texts = [path for path in files if path.is_file() and value in _text(path)]
    assert len(files) > 10
    assert texts == []


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("latin-1")
    except OSError:
        return ""


def test_bad_specs_are_refused_with_all_problems(rig: Rig) -> None:
    """NUL bytes, a huge value and a bad name are told at once, and nothing is started."""
    with pytest.raises(Refusal) as refusal:
        rig.start(
            "bad", "true\0", env={"A": "x\0y", "B": "x" * 200_000, "C D": "x"}, secrets={"S": "\0"}
        )
    fields = [field for field, _ in refusal.value.error["problems"]]
    assert fields == ["script", "env.A", "env.B", "env.C D", "secrets.S"]
    assert refusal.value.code == "spec_invalid"
    assert not os.path.exists(rig.path("bad"))


def test_much_output_costs_nothing(rig: Rig) -> None:
    """50 MB of output are all there, and the agent answers meanwhile."""
    rig.start("loud", "head -c 50000000 /dev/zero | tr '\\0' 'x'; echo; echo end")
    assert rig.client.ask("hello")["ok"]
    end = rig.ended("loud")
    assert end["log_bytes"] == 50_000_005
    assert end["last_lines"][-1] == "end"
    assert len(end["last_lines"][0]) <= 2000


def test_log_limit(rig: Rig) -> None:
    """Twice the limit ends a run that would fill the disk."""
    end = rig.finish("flood", "yes", log_limit_bytes=1_000_000)
    assert end["how"] == "log_limit"
    assert "twice their limit" in end["message"]


def test_many_children(rig: Rig) -> None:
    """A job that forks hundreds of children is watched, and ends with all of them."""
    rig.start("fork", "for i in $(seq 300); do sleep 60 & done; echo ready; wait")
    rig.wait_for_line("fork", "ready")
    rig.client.ask("kill", run="fork")
    assert rig.ended("fork")["how"] == "killed"
    assert processes_of("fork") == []


def test_job_that_deletes_its_directories(rig: Rig) -> None:
    """Without its work directory, and even without the run's, the end is still written."""
    assert rig.finish("del1", 'rm -rf "$PWD"; echo gone; exit 5')["code"] == 5
    end = rig.finish("del2", 'rm -rf "$(dirname "$STELLWERK_STOP_FILE")"; exit 6')
    assert (end["how"], end["code"]) == ("exited", 6)


@pytest.mark.parametrize("spoil", ["mkdir -p $R/ended.json/x", "rm -r $R; touch $R", "rm -r $R"])
def test_job_that_stands_in_the_way_of_its_end(rig: Rig, spoil: str) -> None:
    """Whatever it has put in the place of its end's file, the end is written."""
    run = f"way-{abs(hash(spoil))}"
    end = rig.finish(run, f'R=$(dirname "$STELLWERK_STOP_FILE"); {spoil}; exit 7')
    assert (end["how"], end["code"]) == ("exited", 7)


PIPED = "run.log setup.log metrics.jsonl status.json stop stop.withdrawn done errand before.json"


def test_job_that_puts_pipes_in_the_place_of_its_files(rig: Rig) -> None:
    """Nobody waits for them: agent, orders and the end are as ever, and other runs too."""
    script = f'cd "$(dirname "$STELLWERK_STOP_FILE")" && rm -rf {PIPED} && mkfifo {PIPED}'
    rig.start("pipes", f"{script}; touch work/piped; sleep 60")
    rig.wait("the pipes", lambda: os.path.exists(rig.path("pipes", "work/piped")))
    for stream in ("run", "setup", "metrics"):
        with pytest.raises(Refusal, match="no regular file"):
            rig.client.ask("read", run="pipes", stream=stream)
    assert rig.finish("beside-pipes", "exit 3")["code"] == 3
    rig.client.ask("stop", run="pipes", why="preempt", grace_ms=60_000)
    rig.client.ask("withdraw", run="pipes")
    rig.client.ask("stop", run="pipes", why="cancel", grace_ms=100)
    assert rig.ended("pipes")["how"] == "cancelled"


def test_setup_that_puts_a_pipe_in_the_place_of_the_log(rig: Rig) -> None:
    """The ranks can't be started, which is said."""
    pipe = f"mkfifo {rig.path('piped-log', 'run.log')}"
    end = rig.finish("piped-log", "true", setup=pipe)
    assert (end["how"], "run.log" in end["message"]) == ("spawn_failed", True)


@pytest.mark.parametrize("text", ["'[' * 200_000", "' ' * 2**25 + '{}'", "'{\"phase\": 7}'"])
def test_job_that_spoils_its_status(rig: Rig, text: str) -> None:
    """Deep, large or odd JSON ends no agent."""
    run = f"spoilt-{len(text)}"
    place = rig.path(run, "status.json")
    write = f"{PYTHON} -c \"open({place!r}, 'w').write($SPOIL)\""
    rig.start(run, f"{write}; echo spoilt; sleep 60", env={"SPOIL": text})
    rig.wait_for_line(run, "spoilt")
    rig.client.ask("stop", run=run, why="cancel", grace_ms=100)
    assert rig.ended(run)["how"] == "cancelled"


def test_job_that_floods_its_wrapper_and_the_agent(rig: Rig) -> None:
    """Nonsense without end in both FIFOs holds up neither: limits hold, and answers come."""
    flood = f"yes > {rig.path('deluge', 'control')} & yes > {rig.root}/agent.fifo &"
    rig.start("deluge", f"{flood} echo flooding; wait", time_limit_ms=1_000, grace_ms=100)
    rig.wait_for_line("deluge", "flooding")
    assert rig.client.ask("hello")["pid"]
    assert rig.ended("deluge")["how"] == "time_limit"
    assert processes_of("deluge") == []


def test_read_by_offset(rig: Rig) -> None:
    """Any part of a stream can be read; one without a file yet is empty."""
    rig.finish("read", "printf abcdef")
    answer = rig.client.ask("read", run="read", stream="run", offset=2, limit=3)
    assert (answer["data"], answer["next_offset"], answer["size"]) == ("Y2Rl", 5, 6)
    assert rig.client.ask("read", run="read", stream="metrics")["size"] == 0
    with pytest.raises(Refusal) as refusal:
        rig.client.ask("read", run="read", stream="../spec")
    assert refusal.value.code == "bad_request"


def test_start_is_quick(rig: Rig) -> None:
    """From the request to the user's first command: a median of some ten milliseconds."""
    rig.finish("warm", "true")
    took = []
    for number in range(7):
        before = time.time()
        rig.start(f"quick{number}", "echo $EPOCHREALTIME")
        rig.ended(f"quick{number}")
        took.append(float(rig.log(f"quick{number}")) - before)
    assert sorted(took)[3] < 0.25, took
