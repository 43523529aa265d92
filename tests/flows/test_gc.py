"""Room is made without losing anything that is needed: seen with a real machine and real jobs."""

from tests.flows.person import Person


def test_old_output_goes_and_everything_else_still_works(person: Person) -> None:
    """Logs of what is gone say so, results stay, the task runs again, a live job isn't touched."""
    (person.desk / "code").mkdir()
    (person.desk / "code" / "data").write_bytes(b"x" * 200_000)
    task = person.task(
        'wc -c data; echo 7 > "$STELLWERK_OUTPUT_DIR/answer"',
        name="old",
        more="workdir: code\nresources: {cpus: 0.1}\n",
    )
    person.stw("run", "-q", task)
    live = person.task("sleep 300", name="live", more="resources: {cpus: 0.1}\n")
    person.stw("run", "-d", live)
    person.until({"old": "Succeeded", "live": "Running"})
    assert {item["kind"]: item["count"] for item in person.json("gc")["items"]}["runs"] == 0

    would = person.stw("gc", "--dry-run", "--older-than", "0s").stdout
    assert "runs\t1\t" in would
    assert person.stw("logs", "old").stdout == "200000 data\n"
    work = person.json("show", "old")["work_dir"]
    person.stw("gc", "--older-than", "0s", "--yes")
    gone = person.stw("logs", "old", code=3)
    assert "error[find/output]  the output of run 1 of old isn't kept any more" in gone.stderr
    assert work not in [str(path) for path in (person.state / "runtime/work").iterdir()]
    assert "error[files/gone]" in person.stw("ls", "old", code=3).stderr
    assert person.stw("ls", "old", "outputs:", "-o", "name").stdout == "answer\n"
    assert person.phases() == {"old": "Succeeded", "live": "Running"}

    person.stw("server", "stop")
    assert person.stw("rerun", "-q", "old").stdout == "200000 data\n"
    assert person.stw("logs", "old-2").stdout == "200000 data\n"
    person.stw("cancel", "live", "--now")
    person.until({"live": "Cancelled"})

    person.stw("gc", "--only", "outputs", "--older-than", "0s", "--yes")
    person.stw("ls", "old", "outputs:", code=3)
