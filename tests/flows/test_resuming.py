"""A job that its time limit ended goes on in a new one, even if the server is killed meanwhile."""

import os

from tests.flows.person import Person

JOB = """\
cd $STELLWERK_CHECKPOINT_DIR
n=$(ls | grep -c epoch)
echo begins after $n
trap 'exit 85' TERM
echo state > .new; mv .new epoch-$((n + 1)).pt
[ $n -gt 0 ] && exit 0
sleep 30 & wait
"""


def test_a_job_goes_on_after_its_time_limit(person: Person) -> None:
    """With what it saved; the old one keeps its own."""
    task = person.task(JOB, name="fit")
    ended = person.stw("run", task, "--time-limit", "1s", code=85)
    assert "`stw rerun fit --resume` goes on from its last checkpoint" in ended.stderr
    again = person.stw("rerun", "fit", "--resume", "-d")
    assert "it starts with the checkpoint of fit: epoch-1.pt (step 1, 6 B), written" in again.stderr
    person.kill_server()
    person.stw("wait", "fit-2")
    assert person.stw("logs", "fit-2").stdout == "begins after 1\n"
    folders = [
        show["checkpoint_dir"] for show in (person.json("show", name) for name in ("fit", "fit-2"))
    ]
    assert [sorted(os.listdir(folder)) for folder in folders] == [
        ["epoch-1.pt"],
        ["epoch-1.pt", "epoch-2.pt"],
    ]
    assert "to go on from what fit saved" in person.stw("story", "fit-2").stdout
