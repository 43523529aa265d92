"""A person plans a task, runs it as planned, and is told when the plan isn't true any more."""

import os

from tests.flows.person import Person


def test_a_plan_is_run_or_refused_with_what_changed(colleague: Person) -> None:
    """The same words with the plan's id run it; once other work holds the machine they don't."""
    cpus = len(os.sched_getaffinity(0))
    (colleague.desk / "code").mkdir()
    (colleague.desk / "code" / "hello.sh").write_text("echo hello\n")
    task = colleague.task("sh hello.sh", name="hello", more="workdir: code\n")
    first = colleague.stw("plan", task)
    assert "would start now on" in first.stdout
    assert "packed 1 file, 11 B (nothing sent)" in first.stderr
    assert colleague.phases() == {}
    plan = colleague.stw("plan", task, "-o", "name").stdout.strip()
    assert f"plan {plan} is valid" in first.stdout
    assert colleague.stw("run", "-q", task, "--plan", plan).stdout == "hello\n"

    whole = colleague.task("sleep 300", name="whole", more=f"resources: {{cpus: {cpus}}}\n")
    colleague.stw("run", "-d", whole)
    colleague.until({"whole": "Running"})
    waits = colleague.json("plan", task)
    assert (waits["starts_now"], waits["ahead"]) == (False, 0)
    assert [one["code"] for one in waits["reasons"]] == ["no_room"]
    assert waits["forecast"]["unknown"] == 1
    colleague.stw("run", "-d", task)
    assert "its start isn't known: nobody knows how long the work" in (
        colleague.stw("explain", "hello-2").stdout
    )
    line = colleague.stw("queue", "--columns", "name,starts", "--no-headers").stdout
    assert line == "hello-2\tnot known\n"
    colleague.stw("cancel", "hello-2")
    late = colleague.stw("run", task, "--plan", plan, code=5)
    assert "error[plan/changed]" in late.stderr
    assert "changed since: what runs hold" in late.stderr
    assert colleague.phases()["hello-2"] == "Cancelled"
    assert len(colleague.phases()) == 3
    (colleague.desk / "code" / "hello.sh").write_text("echo goodbye\n")
    colleague.stw("cancel", "whole", "--now")
    colleague.until({"whole": "Cancelled"})
    other = colleague.stw("run", task, "--plan", plan, code=5)
    assert "changed since: the task  help: plan again" in other.stderr
