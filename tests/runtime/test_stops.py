"""Stopping real jobs: who gets the signal, what is lost, and what the end means."""

import os
import time
from pathlib import Path

from tests.processes import is_alive
from tests.runtime.rig import PYTHON, TRAINER, Rig, processes_of


def stop(rig: Rig, run: str, why: str = "preempt", **fields: object) -> None:
    """Give notice and see that it has arrived."""
    answer = rig.client.ask("stop", run=run, generation=1, epoch=1, why=why, **fields)
    assert answer["delivered"]


def test_second_command_does_not_start(rig: Rig) -> None:
    """After a notice the running command saves, and the next one never starts."""
    rig.start("two", TRAINER + "$train 0 0.1; echo second")
    rig.wait_for_line("two", "ready")
    stop(rig, "two")
    end = rig.ended("two")
    assert "saved" in rig.log("two")
    assert "second" not in rig.log("two")
    assert (end["how"], end["code"], end["put_back"]) == ("notice", 0, True)
    assert not end["checkpointed"]


def test_pipe_with_tee_keeps_the_save_whole(rig: Rig) -> None:
    """The filter outlives the trainer, and 85 from inside the pipe means: put me back."""
    rig.start("tee", TRAINER + "$train 85 0.3 2>&1 | tee copy.txt; echo second")
    rig.wait_for_line("tee", "ready")
    stop(rig, "tee")
    end = rig.ended("tee")
    assert "saved" in Path(rig.path("tee", "work/copy.txt")).read_text()
    assert "second" not in rig.log("tee")
    assert (end["how"], end["code"]) == ("notice", 85)
    assert end["checkpointed"]
    assert end["put_back"]
    assert end["wrote_checkpoint"]


def test_slow_filter_reads_to_the_end(rig: Rig) -> None:
    """What the trainer said last is still in the pipe when it ends: the filter isn't cut off."""
    each = "import sys, time\nfor line in sys.stdin: time.sleep(0.2); print('>', line, end='')"
    rig.start("slow", f'{TRAINER}$train 85 0.1 | {PYTHON} -c "{each}"')
    rig.wait_for_line("slow", "> ready")
    stop(rig, "slow")
    assert rig.ended("slow")["checkpointed"]
    assert "> saved" in rig.log("slow")


def test_shell_that_filters_a_pipe_stays(rig: Rig) -> None:
    """A `while read` at the end of a pipe is a filter too."""
    rig.start("loop", TRAINER + '$train 85 0.3 | while read line; do echo "> $line"; done')
    rig.wait_for_line("loop", "> ready")
    stop(rig, "loop")
    assert rig.ended("loop")["checkpointed"]
    assert "> saved" in rig.log("loop")


def test_script_with_its_own_trap(rig: Rig) -> None:
    """A trap of the script itself runs, and its status counts."""
    script = "trap 'echo trapped; exit 85' TERM\necho ready\nwhile :; do sleep 0.05; done\n"
    rig.start("trap", script)
    rig.wait_for_line("trap", "ready")
    stop(rig, "trap")
    end = rig.ended("trap")
    assert "trapped" in rig.log("trap")
    assert (end["how"], end["code"], end["checkpointed"]) == ("notice", 85, True)


def test_own_trap_behind_a_long_command(rig: Rig) -> None:
    """A command that would keep the script from its trap gets the signal at half of the grace."""
    rig.start("late", "trap 'echo trapped; exit 85' TERM\necho ready\nsleep 60\necho after\n")
    rig.wait_for_line("late", "ready")
    stop(rig, "late", grace_ms=1000)
    end = rig.ended("late")
    assert "trapped" in rig.log("late")
    assert "after" not in rig.log("late")
    assert end["checkpointed"]


def test_program_that_ignores_the_signal_is_killed(rig: Rig) -> None:
    """When the grace is over everything is killed, and that is a preemption."""
    program = "import signal,time;signal.signal(15,signal.SIG_IGN);print('ready');time.sleep(60)"
    rig.start("deaf", f'{PYTHON} -c "{program}"')
    rig.wait_for_line("deaf", "ready")
    began = time.monotonic()
    stop(rig, "deaf", grace_ms=300)
    end = rig.ended("deaf")
    assert time.monotonic() - began < 3
    assert (end["how"], end["put_back"], end["checkpointed"]) == ("notice", True, False)
    assert processes_of("deaf") == []


def test_spawned_workers_without_handlers(rig: Rig) -> None:
    """Workers that don't react go on until the trainer that needs them has ended."""
    script = (
        TRAINER + "sleep 60 & worker=$!\n$train 85 0.2\n" + "kill -0 $worker && echo 'worker alive'"
    )
    rig.start("workers", script)
    rig.wait_for_line("workers", "ready")
    stop(rig, "workers")
    end = rig.ended("workers")
    assert end["checkpointed"]
    assert [entry["all"] for entry in end["notice"]["signals"]] == [False, True]
    assert processes_of("workers") == []


def test_background_command_and_wait(rig: Rig) -> None:
    """The shell ends at once with 143, its child goes on saving, and the child's 85 counts."""
    rig.start("wait", TRAINER + "$train 85 0.5 & wait; echo second")
    rig.wait_for_line("wait", "ready")
    stop(rig, "wait")
    end = rig.ended("wait")
    assert "saved" in rig.log("wait")
    assert "second" not in rig.log("wait")
    assert end["ranks"] == {"0": 143}
    assert (end["code"], end["checkpointed"], end["put_back"]) == (85, True, True)


def test_subshell(rig: Rig) -> None:
    """A subshell ends at once; what it ran is waited for."""
    rig.start("sub", TRAINER + "( $train 85 0.3; echo inner ); echo outer")
    rig.wait_for_line("sub", "ready")
    stop(rig, "sub")
    end = rig.ended("sub")
    log = rig.log("sub")
    assert "saved" in log
    assert "inner" not in log
    assert "outer" not in log
    assert end["checkpointed"]


def test_exit_0_after_a_notice(rig: Rig) -> None:
    """It is the end if the job says so, or never wrote a checkpoint; otherwise it goes on later."""
    said_done = 'touch "$STELLWERK_DONE_FILE"\n'
    wrote = 'echo x > "$STELLWERK_CHECKPOINT_DIR/model"\n'
    quit_0 = "trap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.02; done\n"
    for run, script in (("z1", wrote), ("z2", wrote + said_done), ("z3", "")):
        rig.start(run, script + quit_0)
    ends = {}
    for run in ("z1", "z2", "z3"):
        rig.wait_for_line(run, "ready")
        stop(rig, run)
        ends[run] = rig.ended(run)
    assert [(e["how"], e["put_back"]) for e in ends.values()] == [
        ("notice", True),
        ("exited", False),
        ("exited", False),
    ]
    assert ends["z2"]["done_said"]
    assert not ends["z3"]["wrote_checkpoint"]


def test_withdrawn_notice(rig: Rig) -> None:
    """The stop file goes, later commands run again, and the end means what it says."""
    program = (
        "import signal,time;signal.signal(15,lambda *_:None);print('ready',flush=True);"
        "time.sleep(0.6);print('first over',flush=True)"
    )
    script = f'{PYTHON} -c "{program}"; ls "$STELLWERK_STOP_FILE" 2>&1; echo second'
    rig.start("back", script)
    rig.wait_for_line("back", "ready")
    stop(rig, "back")
    rig.wait("stopping", lambda: rig.report("back")["state"] == "stopping")
    assert os.path.exists(rig.path("back", "stop"))
    rig.client.ask("withdraw", run="back", generation=1, epoch=1)
    end = rig.ended("back")
    assert "second" in rig.log("back")
    assert "cannot access" in rig.log("back")
    assert (end["how"], end["code"], end["put_back"]) == ("exited", 0, False)
    assert end["notice"]["withdrawn_at_ms"] is not None


def test_cancel_is_cancelled_whatever_the_status(rig: Rig) -> None:
    """After a cancellation not even 85 puts a job back."""
    rig.start("cancel", TRAINER + "$train 85 0")
    rig.wait_for_line("cancel", "ready")
    stop(rig, "cancel", why="cancel")
    end = rig.ended("cancel")
    assert (end["how"], end["put_back"], end["code"]) == ("cancelled", False, 85)


def test_cancel_while_stopping_is_a_cancellation(rig: Rig) -> None:
    """The graver of two reasons stands, and the shorter grace."""
    rig.start(
        "both",
        f'{PYTHON} -c "import signal,time;signal.signal(15,signal.SIG_IGN);'
        "print('ready');time.sleep(60)\"",
    )
    rig.wait_for_line("both", "ready")
    stop(rig, "both", grace_ms=60_000)
    stop(rig, "both", why="cancel", grace_ms=200)
    end = rig.ended("both")
    assert (end["how"], end["notice"]["why"]) == ("cancelled", "cancel")


def test_kill_leaves_nothing(rig: Rig) -> None:
    """A kill gives no notice, and finds what made itself a daemon."""
    rig.start("kill", "setsid setsid sleep 60 &\n(sleep 60 &)\necho ready\nsleep 60")
    rig.wait_for_line("kill", "ready")
    rig.client.ask("kill", run="kill", generation=1, epoch=1)
    end = rig.ended("kill")
    assert (end["how"], end["put_back"], end["notice"]) == ("killed", False, None)
    assert processes_of("kill") == []


def test_time_limit(rig: Rig) -> None:
    """The wrapper gives the notice by itself; what was saved doesn't run again."""
    rig.start("limit", TRAINER + "$train 85 0", time_limit_ms=600)
    end = rig.ended("limit")
    assert (end["how"], end["put_back"], end["checkpointed"]) == ("time_limit", False, True)
    assert end["notice"]["why"] == "time_limit"
    assert end["ended_at_ms"] - end["started_at_ms"] >= 600


def test_window_is_left_in_time(rig: Rig) -> None:
    """The notice comes one grace before the window's end, and by then everything is gone."""
    deaf = "import signal,time;signal.signal(15,signal.SIG_IGN);time.sleep(60)"
    rig.start("window", f'{PYTHON} -c "{deaf}"', window_end_in_ms=1000, grace_ms=400)
    end = rig.ended("window")
    assert (end["how"], end["put_back"]) == ("window", True)
    took_ms = end["ended_at_ms"] - end["started_at_ms"]
    assert end["notice"]["at_ms"] - end["started_at_ms"] >= 590
    assert 990 <= took_ms < 2500


def test_a_window_that_is_made_longer_or_shorter_counts_from_then_on(rig: Rig) -> None:
    """What was said last holds; the job ends by it although nobody gives it notice."""
    rig.start("moved", "echo ready; sleep 60", window_end_in_ms=60_000, grace_ms=300)
    rig.wait_for_line("moved", "ready")
    said = rig.client.ask("window", run="moved", window_end_in_ms=700)
    assert said["delivered"]
    end = rig.ended("moved")
    assert (end["how"], end["put_back"]) == ("window", True)
    assert end["ended_at_ms"] - end["started_at_ms"] < 30_000


def test_early_signals_by_their_lead_times(rig: Rig) -> None:
    """The first of two signals goes only to what catches it, the last one ends the rest."""
    program = (
        "import signal,time,os\n"
        "signal.signal(10,lambda *_:print('usr1',time.time(),flush=True))\n"
        "print('ready',flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    script = f"cat > p.py <<'EOF'\n{program}EOF\n{PYTHON} p.py & sleep 60 & wait"
    rig.start("lead", script, term_signals=[["USR1", 900], ["TERM", 300]], grace_ms=1000)
    rig.wait_for_line("lead", "ready")
    stop(rig, "lead")
    end = rig.ended("lead")
    sent = end["notice"]["signals"]
    assert sent[0]["signal"] == 10
    assert {entry["signal"] for entry in sent} == {10, 15}
    assert "usr1" in rig.log("lead")
    first_term = next(entry for entry in sent if entry["signal"] == 15)
    assert 400 <= first_term["at_ms"] - end["notice"]["at_ms"] <= 900


def test_left_over_daemon_is_ended_and_named(rig: Rig) -> None:
    """A daemon that outlives the command gets SIGTERM, and the run waits until it has gone."""
    end = rig.finish("left", "setsid sleep 61 & disown; echo over")
    assert (end["how"], end["code"]) == ("exited", 0)
    assert end["left_over"] == ["sleep 61"]
    assert processes_of("left") == []


def test_stop_of_an_ended_run_says_so(rig: Rig) -> None:
    """A notice that comes too late changes nothing."""
    rig.finish("over", "true")
    answer = rig.client.ask("stop", run="over", generation=1, epoch=1, why="preempt")
    assert not answer["delivered"]
    assert answer["state"] == "ended"


def test_own_exit_code_means_put_me_back(rig: Rig) -> None:
    """A code of `recover_on_exit_codes` counts as 85 does, with and without a notice."""
    end = rig.finish("code", "exit 17", recover_on_exit_codes=[17])
    assert (end["how"], end["code"], end["checkpointed"], end["put_back"]) == (
        "exited",
        17,
        True,
        True,
    )


def test_wrapper_and_shell_share_no_fate_with_other_runs(rig: Rig) -> None:
    """Stopping one run leaves its neighbour alone."""
    rig.start("n1", "echo ready; sleep 60")
    rig.start("n2", "echo ready; sleep 60")
    rig.wait_for_line("n1", "ready")
    rig.wait_for_line("n2", "ready")
    stop(rig, "n1")
    rig.ended("n1")
    assert rig.report("n2")["state"] == "running"
    assert is_alive(rig.wrapper("n2"))
    rig.client.ask("kill", run="n2")
    rig.ended("n2")


def test_no_grace_at_all(rig: Rig) -> None:
    """A grace of 0 kills at once, and that is still a preemption."""
    rig.start("now", TRAINER + "$train 85 5")
    rig.wait_for_line("now", "ready")
    stop(rig, "now", grace_ms=0)
    end = rig.ended("now")
    assert (end["how"], end["put_back"], end["notice"]["signals"]) == ("notice", True, [])


def test_notice_during_the_setup(rig: Rig) -> None:
    """A setup that is interrupted is no failed setup, and its ranks never start."""
    rig.start("early", "echo never", setup="echo ready; sleep 60", setup_key="early")
    rig.wait_for_line("early", "ready", "setup.log")
    stop(rig, "early")
    end = rig.ended("early")
    assert (end["how"], end["put_back"], end["setup"]) == ("notice", True, "failed")
    assert rig.log("early") == ""


def test_notice_while_waiting_for_a_setup(rig: Rig) -> None:
    """A run that waits for another run's setup ends at once."""
    rig.start("first", "true", setup="echo ready; sleep 60", setup_key="shared")
    rig.wait_for_line("first", "ready", "setup.log")
    rig.start("second", "echo never", setup="true", setup_key="shared")
    rig.wait(
        "waiting", lambda: "waiting" in (rig.report("second")["status"] or {}).get("detail", "")
    )
    stop(rig, "second")
    assert rig.ended("second", 3)["how"] == "notice"
    rig.client.ask("kill", run="first")
    assert rig.ended("first")["how"] == "killed"


def test_program_that_took_the_place_of_its_shell(rig: Rig) -> None:
    """After `exec` the rank's process is the trainer itself."""
    rig.start("exec", TRAINER + "exec $train 85 0.1")
    rig.wait_for_line("exec", "ready")
    stop(rig, "exec")
    end = rig.ended("exec")
    assert "saved" in rig.log("exec")
    assert end["checkpointed"]


def test_all_ranks_may_save(rig: Rig) -> None:
    """After a notice a rank that has saved doesn't end the others, and one 85 is enough."""
    ranks = [{"rank": n, "env": {"S": str(n * 0.3), "C": str(85 * n)}} for n in range(2)]
    rig.start("gang", TRAINER.replace("train.py", "t$C.py") + "$train $C $S", ranks=ranks)
    rig.wait_for_line("gang", "ready")
    rig.wait_for_line("gang", "ready", "rank-1.log")
    stop(rig, "gang")
    end = rig.ended("gang")
    assert "saved" in rig.log("gang", "rank-1.log")
    assert end["ranks"] == {"0": 0, "1": 85}
    assert (end["rank"], end["code"], end["checkpointed"]) == (1, 85, True)
