"""How long many Python calls take through `Executor.map`, beside starting the interpreter alone."""

import subprocess
import sys
import time

from bench.home import a_warm_home
from bench.peers.cache import Peers
from bench.table import Line
from stellwerk import Executor

STARTS = 20


def many_calls(quick: bool, _peers: Peers) -> list[Line]:
    """Calls that do nothing, each a durable workload, as many at once as fit."""
    count = 100 if quick else 1000
    with a_warm_home() as (_, client), Executor(cpus=0.5, client=client) as executor:
        began = time.perf_counter()
        values = list(executor.map(lambda x: x, range(count)))
        each = (time.perf_counter() - began) * 1000 / count
    if values != list(range(count)):
        raise SystemExit("values came back wrong")
    began = time.perf_counter()
    for _ in range(STARTS):
        subprocess.run([sys.executable, "-c", "import cloudpickle"], check=True)
    alone = (time.perf_counter() - began) * 1000 / STARTS
    return [
        Line(f"{count:,} calls by Executor.map, each", each, "ms", None, None,
             "starting Python with cloudpickle, one by one", alone),
    ]  # fmt: skip
