"""However a text within the bounds is made, reading it costs little work."""

import time
from collections.abc import Callable

import pytest

from stellwerk.core.describe.sbatch import read_batch
from stellwerk.core.describe.support import unsupported
from stellwerk.core.describe.tasks import read
from stellwerk.core.model.errors import SpecError

MANY = 9_000
LIMIT_S = 1.0
"""Twice of what it takes at most on a quiet machine."""


def many(pattern: str, count: int = MANY) -> str:
    """A pattern repeated with numbers, divided by commas."""
    return ", ".join(pattern.format(i) for i in range(count))


TEXTS = {
    "variables": f"envs: {{{many('A{0}: {0}')}}}\nrun: x",
    "bad variables": f"envs: {{{many('{0}: {0}')}}}\nrun: x",
    "unfilled": f"envs: {{{many('A{0}: x', 4000)}}}\nworkdir: '{many('$B{0}')}'\nrun: x",
    "secrets": f"secrets: [{many('secrets:A{0}')}]\nworkdir: '{'$A1 $A8999 $B ' * 50_000}'\nrun: x",
    "accelerators": f"resources: {{accelerators: [{many('K{0}')}]}}\nrun: x",
    "accelerator map": f"resources: {{accelerators: {{{many('K{0}: 1')}}}}}\nrun: x",
    "some accelerators": f"resources: {{accelerators: [{many('A10x{0}', 100)}]}}\nrun: x",
    "alternatives": f"resources: {{any_of: [{many('{{cpus: {0}}}')}]}}\nrun: x",
    "same alternatives": (
        f"resources: {{labels: {{{many('a{0}: b', 5000)}}}, any_of: [{many('{{}}', 5000)}]}}"
    ),
    "unknown keys": f"resources: {{{many('key{0}: 1')}}}\nrun: x",
    "unknown labels": f"resources: {{labels: {{{many('stellwerk/a{0}: b')}}}}}\nrun: x",
    "ports": f"resources: {{ports: [{many('{0}')}]}}\nrun: x",
    "mounts": f"file_mounts: {{{many('/a{0}: ./b')}}}\nrun: x",
    "bad mounts": f"file_mounts: {{{many('a{0}: ./b')}}}\nrun: x",
    "sources": f"file_mounts: {{/a: {{name: b, source: [{many('x/{0}')}]}}}}\nrun: x",
    "hooks": f"config: {{hooks: [{many('{{run: x}}', 6000)}]}}\nrun: x",
    "config": f"config: {{{many('kubernet{0}: 1')}}}\nrun: x",
    "documents": "---\n".join(["run: x\n"] * 6000),
    "group": "name: g\nexecution: parallel\nprimary_tasks: [" + many("t{0}", 5000) + "]\n---\n"
    + "---\n".join(f"name: u{i}\n" for i in range(4000)),
    "merges": f"a: &a {{{many('k{0}: 1', 100)}}}\nb: [{', '.join(['{<<: *a}'] * 400)}]",
    "script": "run: |\n" + "  $A ${B} `x`\n" * 100_000,
}  # fmt: skip

SCRIPTS = {
    "lines": "#!/bin/bash\n" + "#SBATCH --what=1 -c 2\n" * 80_000,
    "a long line": "#!/bin/bash\n#SBATCH " + "-c 1 " * 300_000,
    "srun": "#!/bin/bash\n#SBATCH -n 2\n" + "srun x\n" * 200_000,
    "one srun each": "#!/bin/bash\n" + "srun x\n" * 200_000,
    "variables": "#!/bin/bash\n" + "".join(f"echo $SLURM_A{i}\n" for i in range(80_000)),
}


def work(job: Callable[[], object]) -> float:
    """Seconds of work that it takes, whether it ends in a task or in problems."""
    began, found = time.process_time(), 0
    try:
        job()
    except SpecError as error:
        found = len(error.problems)
    assert found <= 101
    return time.process_time() - began


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_task_files(text: str) -> None:
    """Many of everything."""
    assert work(lambda: unsupported(read(text).task)) < LIMIT_S


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_scripts(text: str) -> None:
    """Many lines, long lines, many calls."""
    assert work(lambda: read_batch(text)) < LIMIT_S
