"""Kills the server so many times under all kinds of jobs, then looks whether anything is amiss.

SOAK_KILLS says how often (200), SOAK_SEED repeats the same dice. Where something is amiss the
folder is kept, and the exit status is 1.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from stellwerk.client import Client
from stellwerk.config import load
from tests.flows.person import Person
from tests.processes import wait_gone
from tests.soak import checks
from tests.soak.crowd import Crowd
from tests.soak.killer import Killer

WARM_JOBS_S = 12
ALL_END_S = 240


def main() -> int:
    kills = int(os.environ.get("SOAK_KILLS") or 200)
    seed = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(10**6))
    person = Person(Path(tempfile.mkdtemp(prefix="stw-soak-")))
    os.environ.clear()
    os.environ.update(person.env)
    print(f"soak: {kills} kills, seed {seed}", flush=True)
    try:
        problems = soak(person, kills, seed)
    except BaseException:
        person.leave()
        print(f"soak: broken off; everything is in {person.folder}", file=sys.stderr)
        raise
    person.leave()
    for problem in problems:
        print(f"  {problem}")
    if problems:
        print(f"soak: {len(problems)} things are amiss; everything is in {person.folder}")
        return 1
    shutil.rmtree(person.folder, ignore_errors=True)
    print("soak: passed")
    return 0


def soak(person: Person, kills: int, seed: int) -> list[str]:
    """The whole of it; gives the complaints."""
    said = person.folder / "said"
    said.mkdir()
    client = Client(settings=load(person.env))
    crowd = Crowd(client, str(said), seed)
    began = time.monotonic()
    crowd.work_until(lambda: time.monotonic() - began > WARM_JOBS_S)
    crowd.wait_for_all(ALL_END_S)
    first = _usage(person, crowd, client)
    killer = Killer(person, kills, seed)
    killer.start()
    crowd.work_until(lambda: _tell(killer, crowd) or killer.is_done)
    crowd.wait_for_all(ALL_END_S)
    last = _usage(person, crowd, client)
    print(
        f"soak: {killer.servers} servers killed ({killer.while_starting} of them before they "
        f"answered), {killer.agents} agents, {len(crowd.acknowledged)} workloads, "
        f"{time.monotonic() - began:.0f} s\n  at first: {first}\n  at last:  {last}",
        flush=True,
    )
    return _complaints(person, crowd, client, (first, last))


def _complaints(
    person: Person, crowd: Crowd, client: Client, usages: tuple[checks.Usage, checks.Usage]
) -> list[str]:
    said = person.folder / "said"
    found = list(checks.every_workload_ended_as_it_must(client, crowd.acknowledged, said))
    found += checks.usage_is_flat(*usages)
    server, agent = _pid(person, "server.json"), _pid(person, "runtime/agent.json")
    client.stop_server()
    client.close()
    wait_gone(server)
    os.kill(agent, signal.SIGTERM)
    wait_gone(agent)
    found += checks.nothing_is_left_over(person.folder)
    found += checks.the_store_agrees_with_itself(person.state, crowd.acknowledged)
    return found


def _usage(person: Person, crowd: Crowd, client: Client) -> checks.Usage:
    """At a quiet moment: the server answers, and its log has been carried over."""
    crowd.until_answered(client.server_status)
    time.sleep(2.5)
    server, agent = _pid(person, "server.json"), _pid(person, "runtime/agent.json")
    return checks.usage(person.state, server, agent)


def _pid(person: Person, card: str) -> int:
    return int(json.loads((person.state / card).read_text())["pid"])


def _tell(killer: Killer, crowd: Crowd) -> bool:
    """A line now and then, for whoever waits."""
    if time.monotonic() > _tell_after[0]:
        _tell_after[0] = time.monotonic() + 30
        print(f"  {killer.servers} kills, {len(crowd.acknowledged)} workloads", flush=True)
    return False


_tell_after = [0.0]

if __name__ == "__main__":
    sys.exit(main())
