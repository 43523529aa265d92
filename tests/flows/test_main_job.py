"""The main job as a new user does it: submit, follow, look, explain, cancel."""

import re

from tests.flows.person import Person


def test_run_follows_to_the_end_and_gives_the_jobs_code(colleague: Person) -> None:
    """The output is on stdout, the code is the job's."""
    task = colleague.task("echo hello $WHO; exit 3", name="follow", more="envs: {WHO: world}\n")
    done = colleague.stw("run", task, code=3)
    assert "hello world\n" in done.stdout
    shown = colleague.json("show", "follow")
    assert shown["phase"] == "Failed"
    assert shown["runs"][0]["end"]["code"] == 3
    assert "exit code 3" in shown["reasons"][0]["sentence"]


def test_setup_runs_before_run_and_its_failure_is_told(colleague: Person) -> None:
    """Nothing of run is started when setup fails."""
    task = colleague.task(
        "echo never", name="prepare", more="setup: |\n  echo preparing\n  false\n"
    )
    done = colleague.stw("run", task, code=None)
    assert done.returncode != 0
    assert "never" not in done.stdout
    shown = colleague.json("show", "prepare")
    assert shown["phase"] == "Failed"
    assert shown["reasons"][0]["code"] == "setup_failed"


def test_the_workdir_travels_as_it_was_at_submit(colleague: Person) -> None:
    """A file changed after submit is the old one in the job; an ignored one isn't there."""
    (colleague.desk / "code").mkdir()
    (colleague.desk / "code" / "data.txt").write_text("old\n")
    (colleague.desk / "code" / "secret.txt").write_text("x\n")
    (colleague.desk / "code" / ".skyignore").write_text("secret.txt\n")
    task = colleague.task("sleep 0.5; cat data.txt; ls", name="travel", more="workdir: code\n")
    colleague.stw("run", task, "-d")
    (colleague.desk / "code" / "data.txt").write_text("new\n")
    colleague.until({"travel": "Succeeded"})
    output = colleague.stw("logs", "travel").stdout
    assert output.startswith("old\n")
    assert "secret.txt" not in output


def test_what_a_job_sees(colleague: Person) -> None:
    """SkyPilot's variables and Stellwerk's own are there, and the work directory is the job's."""
    task = colleague.task("env | sort; pwd", name="look", more="num_nodes: 1\n")
    output = colleague.stw("run", task).stdout
    seen = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    assert seen["SKYPILOT_NODE_RANK"] == "0"
    assert seen["SKYPILOT_NUM_NODES"] == "1"
    assert seen["SKYPILOT_NUM_GPUS_PER_NODE"] == "0"
    assert seen["SKYPILOT_TASK_ID"] == colleague.json("show", "look")["id"]
    assert seen["SKYPILOT_NODE_IPS"] == "127.0.0.1"
    for name in ("STOP_FILE", "CHECKPOINT_DIR", "OUTPUT_DIR", "METRICS_FILE"):
        assert seen[f"STELLWERK_{name}"].startswith("/")


def test_explain_says_where_and_why(colleague: Person) -> None:
    """A finished job still has its decision: the candidate chosen, with its scores."""
    colleague.stw("run", colleague.task("true", name="where"))
    found = colleague.json("explain", "where")
    assert found["decision"]["candidates"][0]["verdict"] == "chosen"
    assert re.search(r"chosen", colleague.stw("explain", "where").stdout)


def test_what_can_never_fit_is_refused_at_submit(colleague: Person) -> None:
    """With the largest that would fit, and nothing submitted."""
    task = colleague.task("true", name="giant", more="resources: {cpus: 4000+}\n")
    refused = colleague.stw("run", task, code=2)
    assert "4000" in refused.stderr
    assert "at most" in refused.stderr
    assert "giant" not in colleague.phases()


def test_every_error_of_a_task_file_is_told_with_its_place(colleague: Person) -> None:
    """Two mistakes, two lines, and nothing submitted."""
    colleague.write(
        "bad.yaml", "name: bad\nresources:\n  acelerators: A100\n  cpus: many\nrun: x\n"
    )
    refused = colleague.stw("run", "bad.yaml", code=2)
    assert "bad.yaml:3:3" in refused.stderr
    assert "accelerators" in refused.stderr
    assert "bad.yaml:4:" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_cancel_ends_a_running_job(colleague: Person) -> None:
    """By notice; the end is Cancelled, and the next one starts."""
    colleague.stw("run", colleague.task("sleep 100", name="stopped"), "-d")
    colleague.until({"stopped": "Running"})
    colleague.stw("cancel", "stopped")
    colleague.until({"stopped": "Cancelled"})


def test_more_than_fits_waits_with_a_reason(person: Person) -> None:
    """The second of two jobs that take the whole machine waits for capacity, in words."""
    import os

    whole = f"resources: {{cpus: {len(os.sched_getaffinity(0))}}}\n"
    person.stw("run", person.task("sleep 100", name="first", more=whole), "-d")
    person.until({"first": "Running"})
    person.stw("run", person.task("true", name="second", more=whole), "-d")
    person.until({"second": "Pending"})
    shown = person.json("show", "second")
    assert shown["reasons"][0]["code"] == "no_room"
    assert shown["reasons"][0]["tier"] == "capacity"
    assert "CPUs" in person.stw("explain", "second").stdout
    person.stw("cancel", "first")
    person.until({"first": "Cancelled", "second": "Succeeded"})


def test_the_server_stops_and_starts_without_touching_a_job(person: Person) -> None:
    """`server stop` ends the server alone; the next command starts it and adopts the run."""
    person.stw("run", person.task("for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done"), "-d")
    person.until({"job": "Running"})
    first = person.server_pid()
    person.stw("server", "stop")
    person.until({"job": "Succeeded"})
    assert person.server_pid() != first
    assert person.stw("logs", "job").stdout.split() == ["1", "2", "3", "4", "5", "6"]
    assert len(person.json("show", "job")["runs"]) == 1


def test_a_job_that_saves_and_asks_is_put_back_and_goes_on(colleague: Person) -> None:
    """Exit 85 means: saved, put me back. The checkpoints stay with the job over its runs."""
    run = (
        'f="$STELLWERK_CHECKPOINT_DIR/step"\n'
        'n=$(cat "$f" 2>/dev/null || echo 0)\n'
        'echo "from $n as $SKYPILOT_TASK_ID"\n'
        'echo $((n + 1)) > "$f.new" && mv "$f.new" "$f"\n'
        "[ $n -ge 1 ] || exit 85"
    )
    colleague.stw("run", colleague.task(run, name="again"), "-d")
    colleague.until({"again": "Succeeded"})
    shown = colleague.json("show", "again")
    assert len(shown["runs"]) == 2
    said = [colleague.stw("logs", "again", "--run", str(n)).stdout.strip() for n in (1, 2)]
    assert said == [f"from {n} as {shown['id']}" for n in range(2)]


def test_a_job_sees_nothing_of_the_terminal_that_started_the_server(person: Person) -> None:
    """A task's job has what ~/.bashrc and the task say; a command in place what its caller has."""
    (person.home / ".bashrc").write_text("export FROM_RC=rc\n")
    person.env |= {"OF_TERMINAL": "first", "PYTHONPATH": str(person.desk / "lib")}
    person.stw("server", "start")
    person.env |= {"OF_TERMINAL": "second"}
    task = person.task("env", name="seen", more="envs: {MINE: yes}\n")
    seen = variables_in(person.stw("run", task).stdout)
    assert (seen["FROM_RC"], seen["MINE"]) == ("rc", "True")
    assert not {"OF_TERMINAL", "NO_COLOR"} & seen.keys()
    assert str(person.desk) not in seen["PYTHONPATH"]
    assert seen["HOME"] == str(person.home)
    own = variables_in(person.stw("run", "--env", "MINE=here", "--", "env").stdout)
    assert {name: own[name] for name in person.env if name in own} == {
        name: value for name, value in person.env.items() if name in own
    }
    assert (own["OF_TERMINAL"], own["MINE"], "FROM_RC" in own) == ("second", "here", False)
    assert {name for name in person.env if not name.startswith("STELLWERK_")} <= own.keys()


def variables_in(output: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
