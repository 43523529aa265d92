"""What a job finds where it runs: its ranks, files, buckets, secrets and its setup."""

from tests.flows.person import Person

RENDEZVOUS = """
import os, socket, sys
rank, size = int(os.environ["NODE_RANK"]), int(os.environ["PET_NNODES"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert os.environ["PET_MASTER_PORT"] == os.environ["MASTER_PORT"]
if rank == 0:
    with socket.create_server(place) as door:
        guests = [door.accept()[0] for _ in range(size - 1)]
    sum = sum(int(guest.makefile().readline()) for guest in guests)
    for guest in guests:
        guest.sendall(b"%d\\n" % sum)
else:
    for _ in range(500):
        try:
            host = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            import time
            time.sleep(0.02)
    host.sendall(b"%d\\n" % (rank * 10))
    sum = int(host.makefile().readline())
print("the sum is", sum, flush=True)
"""


def test_two_ranks_meet_at_a_port_that_was_free(colleague: Person) -> None:
    """Rank 0 listens at MASTER_ADDR:MASTER_PORT, the other finds it; both print what they agreed
    on, each line with its rank.
    """
    colleague.write("meet.py", RENDEZVOUS)
    task = colleague.task(
        "echo rank $SKYPILOT_NODE_RANK $PET_NODE_RANK of $SKYPILOT_NUM_NODES: $SKYPILOT_NODE_IPS\n"
        f"python3 -I {colleague.desk}/meet.py",
        name="meet",
        more="num_nodes: 2\nsetup: echo once\nresources: {cpus: 0.1}\n",
    )
    lines = colleague.stw("run", task, timeout_s=60).stdout.splitlines()
    assert lines.count("(rank 0) the sum is 10") == 1
    assert lines.count("(rank 1) the sum is 10") == 1
    assert lines[0] == "(rank 0) once"
    for rank in (0, 1):
        assert f"(rank {rank}) rank {rank} {rank} of 2: 127.0.0.1 127.0.0.1" in lines
    alone = colleague.stw("logs", "meet", "--rank", "1").stdout.splitlines()
    assert alone[-1] == "the sum is 10"
    assert colleague.stw("logs", "meet").stdout.splitlines()[0] == "(rank 0) once"


def test_the_first_rank_that_fails_ends_the_gang(colleague: Person) -> None:
    """It is told first, with its own last lines; the others are 137."""
    task = colleague.task(
        'echo "here is $SKYPILOT_NODE_RANK"\n'
        'if [ $SKYPILOT_NODE_RANK = 1 ]; then sleep 0.3; echo "no luck"; exit 3; fi\nsleep 100',
        name="gang",
        more="num_nodes: 3\nresources: {cpus: 0.1}\n",
    )
    done = colleague.stw("run", task, code=3, timeout_s=60)
    end = colleague.json("show", "gang")["runs"][0]["end"]
    assert end["code"] == 3
    assert end["last_lines"] == ["here is 1", "no luck"]
    assert "rank 1 ended with exit code 3" in done.stderr
    assert "| no luck" in done.stderr


def test_one_interrupted_reader_of_a_gang_goes_on(colleague: Person) -> None:
    """A server that is replaced costs a follower of several ranks no line."""
    task = colleague.task(
        "for i in $(seq 30); do echo line $i; sleep 0.05; done",
        name="lines",
        more="num_nodes: 2\nresources: {cpus: 0.1}\n",
    )
    colleague.stw("run", task, "-d")
    colleague.until({"lines": "Running"})
    colleague.kill_server()
    told = colleague.stw("logs", "-f", "lines", timeout_s=60).stdout.splitlines()
    for rank in (0, 1):
        mine = [line for line in told if line.startswith(f"(rank {rank}) ")]
        assert mine == [f"(rank {rank}) line {i}" for i in range(1, 31)]
