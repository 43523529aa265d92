"""A job whose script is started once for each process, from its file to its logs."""

from tests.flows.person import Person

LABELS = "{stellwerk/launcher: processes, stellwerk/processes-per-node: '2'}"
MORE = f"num_nodes: 2\nresources: {{cpus: 0.1, labels: {LABELS}}}\n"


def test_every_process_is_a_rank(colleague: Person) -> None:
    """Its log, its place among the others, and the answer to who asks for one too many."""
    says = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK on $NODE_RANK at $MASTER_PORT"
    task = colleague.task(says, name="four", more=MORE)
    lines = colleague.stw("run", task, timeout_s=60).stdout.splitlines()
    port = lines[0].rpartition(" ")[2]
    assert port.isdigit()
    expected = [f"{n} of 4, {n % 2} on {n // 2} at {port}" for n in range(4)]
    assert sorted(lines) == [f"(rank {n}) {line}" for n, line in enumerate(expected)]
    assert colleague.stw("logs", "four", "--rank", "3").stdout.strip() == expected[3]
    assert "0 to 3" in colleague.stw("logs", "four", "--rank", "4", code=None).stderr


def test_the_first_process_that_fails_is_the_end(colleague: Person) -> None:
    """Its number, its code and its words; the others are ended with it."""
    says = 'if [ $RANK = 3 ]; then echo "no luck"; exit 3; fi\nsleep 100'
    task = colleague.task(says, name="unlucky", more=MORE)
    done = colleague.stw("run", task, code=3, timeout_s=60)
    assert "rank 3 ended with exit code 3" in done.stderr
    assert "| no luck" in done.stderr
    end = colleague.json("show", "unlucky")["runs"][0]["end"]
    assert (end["code"], end["last_lines"]) == (3, ["no luck"])
