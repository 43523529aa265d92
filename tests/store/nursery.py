"""Lets writers be killed in the middle of their work, again and again, on one state folder.

Started as a program of its own with the folder and a seed. Each writer is a fork that opens the
store, writes as fast as it can, and tells what was acknowledged; it is killed without warning after
some acknowledgements. At the end one line of JSON says everything that was acknowledged.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

from stellwerk.core.model.events import Released
from stellwerk.core.model.ids import WorkloadId
from stellwerk.store import Batch
from stellwerk.testing.builders import a_workload
from tests.store.samples import a_submit, new, opened, records_of

KILLS = 20


def write_until_killed(home: Path, number: int, tell: int) -> None:
    """Submits and appends without end; each line told is durable by then."""
    store = opened(home)
    epoch = store.raise_epoch("1")
    os.write(tell, f"epoch {epoch} {store.seq()}\n".encode())
    step = 0
    while True:
        step += 1
        seq = store.seq()
        key = f"{number}-{step}"
        commands = store.put_commands([new(a_submit(f"w-{key}"), key)], 1)
        events = [Released(WorkloadId(f"w-{key}"))] * 3
        workloads = [a_workload(f"w-{key}", order=seq)]
        batch = Batch(epoch, records_of(events, after=seq, epoch=epoch), workloads=workloads)
        appended = store.append(batch)
        (ack,) = commands.result()
        os.write(tell, f"ack {key} {ack.seq} {ack.name}\n".encode())
        appended.result()
        os.write(tell, f"seq {seq + 3}\n".encode())


def kill_one(home: Path, number: int, dice: random.Random) -> list[str]:
    """Forks a writer, kills it after some lines, and gives every line it told."""
    hear, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            write_until_killed(home, number, tell)
        finally:
            os._exit(1)
    os.close(tell)
    lines: list[str] = []
    with os.fdopen(hear) as told:
        for _ in range(dice.randrange(1, 25)):
            line = told.readline()
            if not line:
                break
            lines.append(line)
        os.kill(pid, signal.SIGKILL)
        lines += told.readlines()
    os.waitpid(pid, 0)
    return [line for line in lines if line.endswith("\n")]


def main() -> None:
    home, seed = Path(sys.argv[1]), sys.argv[2]
    dice = random.Random(seed)
    print(json.dumps([kill_one(home, number, dice) for number in range(KILLS)]))


if __name__ == "__main__":
    main()
