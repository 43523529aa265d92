"""How long one job takes from its submission to its process, its first output and its end."""

import subprocess
import sys
import time

from bench.home import Home, a_warm_home
from bench.peers.cache import Peers
from bench.table import Line, median
from stellwerk import Client

SAY = 'echo "$EPOCHREALTIME" > {file}.new; mv {file}.new {file}'
PYTHON = "import time; open({file!r}, 'w').write(str(time.time()))"


def one_job(quick: bool, peers: Peers) -> list[Line]:
    """Submits small jobs one after the other, and starts bash, Python and submitit beside them."""
    repeat = 10 if quick else 30
    with a_warm_home() as (home, client):
        starts, ends, firsts, bashes, pythons = [], [], [], [], []
        for number in range(repeat):
            started, ended = _job(home, client, number)
            starts.append(started)
            ends.append(ended)
            firsts.append(_first_output(client))
            bashes.append(_alone(home, ["bash", "-c", SAY]))
            pythons.append(_alone(home, [sys.executable, "-c", PYTHON]))
    lines = [
        Line("submit → the job's bash runs", median(starts), "ms", 50, min(starts),
             "bash alone", median(bashes), min(bashes)),
        Line("", median(starts), "ms", None, min(starts),
             "python alone", median(pythons), min(pythons)),
        Line("submit → its first output is read", median(firsts), "ms", 200, min(firsts)),
        Line("submit → its end is known", median(ends), "ms", None, min(ends)),
    ]  # fmt: skip
    found = peers.ask("submitit", "submitit_local.py", str(3 if quick else 10))
    if found is None:
        return lines
    running, result = found["running_ms"], found["result_ms"]
    lines[1:1] = [
        Line("", median(starts), "ms", None, min(starts),
             "submitit local", median(running), min(running))
    ]  # fmt: skip
    lines[-1] = lines[-1]._replace(
        peer="submitit local, result", beside=median(result), beside_least=min(result)
    )
    return lines


def _job(home: Home, client: Client, number: int) -> tuple[float, float]:
    """Milliseconds from the call until the job's first line ran, and until its end was told."""
    file = home.folder / f"said-{number}"
    began = time.time()
    given = client.submit(text=f"name: job\nrun: |\n  {SAY.format(file=file)}\n")
    client.wait(given.id, timeout_s=60)
    ended = time.time()
    return (float(file.read_text()) - began) * 1000, (ended - began) * 1000


def _first_output(client: Client) -> float:
    """Milliseconds from the call until a follower has read the job's first line."""
    began = time.perf_counter()
    given = client.submit(text="name: job\nrun: |\n  echo here\n  sleep 0.1\n")
    for chunk in client.logs(given.id, follow=True):
        if chunk:
            break
    read_ms = (time.perf_counter() - began) * 1000
    client.wait(given.id, timeout_s=60)
    return read_ms


def _alone(home: Home, argv: list[str]) -> float:
    """Milliseconds until a program that nobody schedules has said when it ran."""
    file = home.folder / "alone"
    began = time.time()
    subprocess.run([argv[0], argv[1], argv[2].format(file=str(file))], check=True, env=home.env)
    return (float(file.read_text()) - began) * 1000
