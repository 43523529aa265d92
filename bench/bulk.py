"""How long many jobs take: short ones through the whole path, and waiting ones in one call."""

import subprocess
import sys
import time

from bench.home import a_warm_home, cpu_ms, memory_mb
from bench.peers.cache import Peers
from bench.table import Line
from stellwerk.client import Client, Submission
from stellwerk.client.bulk import Which

TRUE = Submission(text="name: short\nrun: /bin/true\n")
WAITING = Submission(text="name: waiting\nresources: {{cpus: {cpus}}}\nrun: /bin/true\n")
LONG_S = 600


def many_short_jobs(quick: bool, peers: Peers) -> list[Line]:
    """`/bin/true` again and again, each task durable at every step, as many at once as fit."""
    count = 200 if quick else 2000
    with a_warm_home() as (home, client):
        pid, before = home.server_pid(), cpu_ms(home.server_pid())
        began = time.perf_counter()
        client.submit_many(TRUE, count)
        _until_all_over(client)
        each = (time.perf_counter() - began) * 1000 / count
        server = (cpu_ms(pid) - before) / count
        failed = [row for row in client.list(all=True) if row.phase != "Succeeded"]
    if failed:
        raise SystemExit(f"{len(failed)} of {count} jobs did not succeed")
    found = peers.ask("hyperqueue", "hyperqueue_true.py", str(count))
    beside = found["each_ms"] if found else None
    return [
        Line(f"{count:,} times /bin/true, each", each, "ms", 20, None,
             "HyperQueue, nothing durable" if found else "", beside),
        Line("… the server's processor time, each", server, "ms"),
    ]  # fmt: skip


def _until_all_over(client: Client) -> None:
    deadline = time.monotonic() + LONG_S
    while client.list(limit=1):
        if time.monotonic() > deadline:
            raise SystemExit(f"not all jobs have ended within {LONG_S} s")
        time.sleep(0.05)


def many_pending(quick: bool, _peers: Peers) -> list[Line]:
    """Workloads in one call while another one has the whole machine."""
    count = 2_000 if quick else 20_000
    with a_warm_home() as (home, client):
        cpus = client.clusters()[0].nodes[0].cpus
        whole = f"name: whole\nresources: {{cpus: {cpus:g}}}\nrun: sleep 3600\n"
        client.wait(client.submit(text=whole).id, "running", timeout_s=60)
        pid, before = home.server_pid(), memory_mb(home.server_pid(), "VmRSS")
        text = WAITING.text.format(cpus=f"{cpus:g}")
        began = time.perf_counter()
        client.submit_many(Submission(text=text), count)
        called = time.perf_counter() - began
        while client.server_status().pending < count:
            time.sleep(0.02)
        settled = time.perf_counter() - began
        grown = (memory_mb(pid, "VmRSS") - before) * 1e6 / count / 1000
        began = time.perf_counter()
        client.list(limit=1000)
        listed = (time.perf_counter() - began) * 1000
        began = time.perf_counter()
        told = client.change_many("cancel", Which(phases=["Pending"]))
        cancelled = time.perf_counter() - began
    if told.phases != {"Cancelled": count}:
        raise SystemExit(f"of {count} waiting ones {told.phases} were cancelled")
    scale = count / 20_000
    return [
        Line(f"{count:,} pending in one call", called, "s", 10 * scale),
        Line("… until each has its reason to wait", settled, "s"),
        Line("… the first 1,000 of them listed", listed, "ms"),
        Line("… all of them cancelled in one call", cancelled, "s", 5 * scale),
        Line("… the server's memory, each", grown, "kB"),
    ]


def memory(quick: bool, _peers: Peers) -> list[Line]:
    """What the engine's own state holds for a pending workload, in a process of its own."""
    count = "2000" if quick else "20000"
    done = subprocess.run(
        [sys.executable, "-m", "bench.state_memory", count],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [Line("live state of a pending workload", float(done.stdout) / 1000, "kB", 2)]
