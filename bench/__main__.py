"""Runs the parts one after the other and prints the table."""

import argparse
import os
import sys
from collections.abc import Callable

from bench import bulk, calls, path, room, ssh, start, upload
from bench.peers.cache import Peers
from bench.table import Line, render

Part = Callable[[bool, Peers], list[Line]]
PARTS: dict[str, Part] = {
    "command": start.commands,
    "server": start.server,
    "path": path.one_job,
    "ssh": ssh.one_job,
    "room": room.looks,
    "runtime": room.beside_a_job,
    "many": bulk.many_short_jobs,
    "pending": bulk.many_pending,
    "memory": bulk.memory,
    "upload": upload.many_files,
    "calls": calls.many_calls,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--only", default="", metavar="WORD", help=f"of {', '.join(PARTS)}")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    peers = Peers()
    lines: list[Line] = []
    for name, part in PARTS.items():
        if given.only in name:
            print(f"{name} …", file=sys.stderr, flush=True)
            lines += part(given.quick, peers)
    print(render(lines))
    cores = len(os.sched_getaffinity(0))
    print(f"\n{cores} cores, load average {before:.1f} before and {os.getloadavg()[0]:.1f} after;")
    print("the home is empty but for a .bashrc where one is named, and everything else is warm.")
    for word in peers.left_out:
        print(f"left out: {word}")
    return 1 if any(line.is_over for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
