"""`make gpu`: what a real driver says, and jobs that share a real card.

Every step says what it saw. The status is 0 where all held, 1 where something didn't, and 2 where
this machine has no GPU that could be asked.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stellwerk.runtime import nvml
from tests.runtime.stand_in import NO_COMPILER, compiled

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDED = ROOT / "tests" / "runtime" / "recorded_gpus"
MIB, GIB = 2**20, 2**30
KEEP = "STAND_IN_GPUS,STAND_IN_PROCESSES"
LOOKS = 20

Page = dict[str, Any]


class Failed(Exception):
    """Something that must hold didn't."""


def say(line: str) -> None:
    """One line of what was seen."""
    print(line, flush=True)


def check(holds: bool, what: str) -> None:
    """Says that something holds, or ends with it."""
    if not holds:
        raise Failed(what)
    say(f"  ok    {what}")


def told_by(library: str) -> Page:
    """What a library says, asked in a process of its own."""
    asks = "import json; from stellwerk.runtime import nvml; print(json.dumps(nvml.devices()))"
    env = {**os.environ, "STELLWERK_NVML_LIBRARY": library}
    said = subprocess.run([sys.executable, "-c", asks], check=True, capture_output=True, env=env)
    found: Page = json.loads(said.stdout)
    return found


def beside_the_stand_in(facts: Page, library: str) -> None:
    """The real driver's answers have the form that the tests rely on."""
    if not library:
        say("  left out: no gcc to compile the stand-in")
        return
    (ours, *_), theirs = told_by(library)["gpus"], facts["gpus"][0]
    missing = sorted(set(ours) - set(theirs))
    check(not missing, f"the driver tells all that the stand-in tells {missing or ''}".rstrip())
    odd = [
        f"{name}: {type(theirs[name]).__name__}, not {type(ours[name]).__name__}"
        for name in sorted(ours)
        if None not in (ours[name], theirs[name]) and type(ours[name]) is not type(theirs[name])
    ]
    check(not odd, f"and in the same form {odd or ''}".rstrip())
    unknown = sorted(name for name in ours if theirs[name] is None and ours[name] is not None)
    say(f"  note  this driver doesn't tell: {', '.join(unknown) or 'nothing that it could'}")


def without_names(facts: Page) -> Page:
    """The facts as others may see them: no serial of a card, no process of anybody."""
    gpus = [
        {**gpu, "uuid": f"{str(gpu.get('uuid'))[:4]}000{at}", "processes": []}
        for at, gpu in enumerate(facts["gpus"])
    ]
    return {**facts, "gpus": gpus}


def record(facts: Page) -> None:
    """Writes what the driver said, for tests on machines without a GPU."""
    RECORDED.mkdir(exist_ok=True)
    name = f"{facts['gpus'][0].get('name')}-{facts['gpu_driver']}"
    path = RECORDED / (re.sub(r"[^a-z0-9.]+", "-", name.lower()) + ".json")
    path.write_text(json.dumps(without_names(facts), indent=1) + "\n", encoding="utf-8")
    say(f"  wrote {path.relative_to(ROOT)}")


def cost_of_looking() -> None:
    """A look every four seconds costs far less than half a percent of a core."""
    nvml.devices()
    before = time.process_time()
    for _ in range(LOOKS):
        nvml.devices()
    each_s = (time.process_time() - before) / LOOKS
    check(each_s / 4 < 0.005, f"a look costs {each_s * 1000:.1f} ms, {each_s / 4:.3%} of a core")


class Jobs:
    """A Stellwerk of its own with a home of its own."""

    def __init__(self, folder: Path, more: dict[str, str]) -> None:
        self.folder = folder
        home = folder / "home"
        home.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "STELLWERK_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder),
            "STELLWERK_CLAIMS": str(folder / "claims"),
            "STELLWERK_KEEP_ENV": KEEP,
            **more,
        }

    def stw(self, *words: str) -> str:
        """Runs the command line; raises where it fails."""
        command = [str(ROOT / ".venv" / "bin" / "stw"), *words]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=self.env, cwd=self.folder
        )
        if done.returncode:
            raise Failed(f"stw {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, name: str, asks_mib: int, first: int, then: int, seconds: int) -> None:
        """A job that asks for so much, takes ``first`` and later ``then`` MiB."""
        script = ["python3", str(HERE / "job.py"), str(first), str(then), str(seconds)]
        memory = f"{asks_mib}MiB"
        self.stw(
            "run", "-d", "--name", name, "--cpus", "0.1", "--gpu-memory", memory, "--", *script
        )

    def show(self, name: str) -> Page:
        """All about a job."""
        page: Page = json.loads(self.stw("show", name, "-o", "json"))
        return page

    def until(self, name: str, holds: Callable[[Page], object], what: str, limit_s: int) -> Page:
        """Waits until something is seen of a job."""
        ends = time.monotonic() + limit_s
        while not holds(page := self.show(name)):
            if time.monotonic() > ends:
                seen = {key: page[key] for key in ("phase", "usage", "reasons")}
                raise Failed(f"{what}, seen was {json.dumps(seen)}")
            time.sleep(0.5)
        say(f"  ok    {what}")
        return page


def held(page: Page) -> int:
    """What a job was seen to hold, in bytes."""
    return int((page["usage"] or {}).get("gpu_memory_bytes") or 0)


def share_a_card(jobs: Jobs, usable_mib: int, cards: int) -> None:
    """Two jobs share, a third has no room beside them; one takes too much and is stopped for it."""
    part = usable_mib // 20
    # A context takes some memory of its own, which counts as the job's.
    jobs.start("modest", 10 * part, first=4 * part, then=4 * part, seconds=150)
    jobs.start("greedy", 7 * part, first=4 * part, then=9 * part, seconds=150)
    for name in ("modest", "greedy"):
        jobs.until(name, lambda page: held(page) >= 4 * part * MIB, f"{name} holds its part", 60)
    devices = {jobs.show(name)["runs"][-1]["holds"] for name in ("modest", "greedy")}
    say(f"  note  they were given {' and '.join(sorted(devices))}")
    if cards == 1:
        jobs.start("large", 10 * part, first=1, then=1, seconds=1)
        page = jobs.until("large", lambda page: page["reasons"], "a third has to wait", 30)
        check(page["phase"] == "Pending", f"it waits: {page['reasons'][0]['sentence']}")
        jobs.stw("cancel", "large", "--now")
    jobs.until("greedy", lambda page: page["runs"][-1]["warning"], "who takes more is warned", 40)
    say(f"  note  {jobs.show('greedy')['runs'][-1]['warning']['sentence']}")


def stop_who_harms(jobs: Jobs, usable_mib: int) -> None:
    """Who takes so much that another can't get its own is stopped, and the other goes on."""
    part = usable_mib // 20
    jobs.stw("cancel", "modest", "greedy", "--now")
    for name in ("modest", "greedy"):
        jobs.until(name, lambda page: page["phase"] == "Cancelled", f"{name} is over", 30)
    jobs.start("quiet", 12 * part, first=part, then=part, seconds=100)
    jobs.start("harmful", 5 * part, first=part, then=13 * part, seconds=100)
    page = jobs.until("harmful", lambda page: page["phase"] == "Failed", "it is stopped", 60)
    check(page["reasons"][0]["code"] == "gpu_over_harms", page["reasons"][0]["sentence"])
    check(jobs.show("quiet")["phase"] == "Running", "the other goes on")


def try_all(folder: Path, stand_in: str, facts: Page, more: dict[str, str]) -> None:
    """Everything, on the first card that is free."""
    first = facts["gpus"][0]
    say(f"{first['name']}, {first['memory_bytes'] / GIB:.1f} GiB, driver {facts['gpu_driver']}")
    beside_the_stand_in(facts, stand_in)
    cost_of_looking()
    usable_mib = (first["memory_bytes"] - (first["memory_reserved_bytes"] or 0)) // MIB
    jobs = Jobs(folder, more)
    try:
        share_a_card(jobs, usable_mib, len(facts["gpus"]))
        stop_who_harms(jobs, usable_mib)
    finally:
        jobs.stw("cancel", "--all", "--now", "-y")
        jobs.stw("server", "stop")


def main(arguments: list[str]) -> int:
    """Tries it with the driver of this machine, or with the stand-in."""
    with tempfile.TemporaryDirectory(prefix="stw-gpu-") as name:
        folder = Path(name)
        stand_in = "" if NO_COMPILER else compiled(folder)
        more: dict[str, str] = {}
        if arguments == ["--stand-in"]:
            if not stand_in:
                say("make gpu: there is no gcc to compile the stand-in with")
                return 2
            more = {
                "STELLWERK_NVML_LIBRARY": stand_in,
                "STAND_IN_GPUS": "NVIDIA A100-SXM4-40GB,40,1",
                "STAND_IN_PROCESSES": str(folder / "processes"),
            }
            os.environ.update(more)
        facts = nvml.devices()
        usable = [gpu for gpu in facts["gpus"] if not gpu.get("trouble") and not gpu.get("mig")]
        if not usable:
            why = facts["gpu_trouble"] or "none of its GPUs can be used"
            say(f"make gpu: this machine has no GPU to try anything with: {why}")
            return 2
        if not more:
            record(facts)
        try:
            try_all(folder, stand_in, {**facts, "gpus": usable}, more)
        except Failed as failed:
            say(f"  FAILED {failed}")
            return 1
    say("all held")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
