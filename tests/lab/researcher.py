"""Somebody who trains with a framework, and whose machine gives notice to their runs."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.flows.person import Person
from tests.lab.environments import TRAINER
from tests.runtime.rig import Client

PROGRAMS = Path(__file__).with_name("programs")
ENVS = "envs: {HF_HUB_OFFLINE: '1', OMP_NUM_THREADS: '1'}\n"


class Researcher(Person):
    """Runs the programs beside this file under Stellwerk."""

    def program(self, name: str, launch: str = "{bin}/python") -> str:
        """Writes a task that runs one of them; gives its file's name."""
        started = launch.format(bin=TRAINER.python.parent)
        more = f"resources: {{cpus: 1}}\n{ENVS}"
        return self.task(f"{started} {PROGRAMS}/{name}.py", name=name, more=more)

    def gang(self, name: str, launch: str, *, launcher: str, each: int = 0, envs: str = "") -> str:
        """Writes a task of two nodes that runs one of the programs; gives its file's name."""
        labels = {"launcher": launcher, "processes-per-node": each or ""}
        written = ", ".join(f"stellwerk/{key}: '{value}'" for key, value in labels.items() if value)
        more = (
            f"num_nodes: 2\nresources: {{cpus: 0.5, labels: {{{written}}}}}\n"
            f"envs: {{HF_HOME: {self.home}, OMP_NUM_THREADS: '1', {envs}}}\n"
        )
        return self.task(f"{launch} {PROGRAMS}/{name}.py", name=name, more=more)

    def give_notice(self, run: str, grace_ms: int, why: str = "preempt") -> None:
        """Does what the runtime does where a run has to leave its machine."""
        card = json.loads((self.state / "runtime" / "agent.json").read_text())
        agent = Client(card["socket"])
        agent.ask("stop", run=run, why=why, grace_ms=grace_ms)
        agent.close()

    def output(self, name: str, run: int) -> str:
        """What the first rank of a run has printed so far."""
        return self.stw("logs", name, "--run", str(run), "--rank", "0").stdout


def losses(output: str) -> dict[int, float]:
    """The loss of each step that was printed."""
    told = [line.split() for line in output.splitlines() if line.startswith("step ")]
    return {int(words[1]): float(words[3]) for words in told}


@contextmanager
def a_researcher() -> Iterator[Researcher]:
    """With an empty home; whatever they started is over afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="stw-lab-"))
    someone = Researcher(folder)
    try:
        yield someone
    finally:
        someone.leave()
        shutil.rmtree(folder, ignore_errors=True)
