"""kill -9 of the server, again and again, with running jobs: nothing lost, nothing twice."""

import os
import time

import pytest

from tests.flows.person import Person

KILLS = int(os.environ.get("STELLWERK_KILLS", "5"))
"""`make lab` kills twenty times, `make soak` hundreds of times."""


@pytest.mark.timeout(170 + 8 * KILLS)
def test_kills_lose_and_double_nothing(person: Person) -> None:
    """Each job says once that it was started, whatever happens to the server meanwhile."""
    said = person.desk / "said"
    said.mkdir()
    names = []
    for number in range(KILLS):
        name = f"job{number}"
        names.append(name)
        task = person.task(
            f'echo "$STELLWERK_RUN_ID" >> {said}/{name}; sleep 0.$((RANDOM % 9))', name=name
        )
        person.stw("run", task, "-d")
        if number % 3 == 1:
            time.sleep(0.2)
        person.kill_server()
    person.until(dict.fromkeys(names, "Succeeded"), timeout_s=60)
    for name in names:
        assert (said / name).read_text().splitlines() == [f"{person.json('show', name)['id']}-1"]
    assert sorted(person.phases()) == sorted(names)


def test_a_job_outlives_the_server_and_keeps_its_output(person: Person) -> None:
    """What it printed while nobody watched is all there."""
    person.stw("run", person.task("for i in $(seq 40); do echo line $i; sleep 0.05; done"), "-d")
    person.until({"job": "Running"})
    for _ in range(2):
        person.kill_server()
        time.sleep(0.3)
        person.stw("server", "start")
    person.until({"job": "Succeeded"})
    lines = person.stw("logs", "job").stdout.splitlines()
    assert lines == [f"line {i}" for i in range(1, 41)]
