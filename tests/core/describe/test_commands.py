"""A command is called after what it runs."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.commands import called


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python a.py", "a"),
        ("/usr/bin/python3.11 -u -X dev -W ignore src/train.py --lr 0.1", "train"),
        ("torchrun --nproc 2 train.py", "train"),
        ("torchrun --nproc-per-node=2 -m pkg.train --x 1", "train"),
        ("bash -c 'python a.py'", "bash"),
        ("bash -lc ls", "bash"),
        ("bash -e job.sh", "job"),
        ("sh", "sh"),
        ("python -m pkg.mod", "mod"),
        ("python -mpkg.mod -c x", "mod"),
        ("python -m pkg.__main__", "pkg"),
        ("python -c 'print(1)'", "python"),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py", "train"),
        ("python -m pdb", "pdb"),
        ("accelerate launch --num_processes 2 fit.py", "fit"),
        ("uv run --with torch python -m pkg.fit", "fit"),
        ("mpirun -n 4 python solve.py", "solve"),
        ("CUDA_VISIBLE_DEVICES=0 python eval.py", "eval"),
        ("env A=1 nohup nice -n 5 timeout 10m ./simulate.sh 3", "simulate"),
        ("env -u 'a b' -C /tmp python a.py", "a"),
        ("env -u 'a b' !", "env"),
        ("perl -pe s/a/b/", "perl"),
        ("Rscript fit.R", "fit"),
        ("./a.out", "a.out"),
        ("sleep 10", "sleep"),
        ("timeout 10", "timeout"),
        ("uv sync", "uv"),
        ("python", "python"),
        ("", ""),
    ],
)
def test_a_command_is_called_after_what_it_runs(command: str, name: str) -> None:
    """Not after the interpreter or launcher that runs it."""
    assert called(shlex.split(command)) == name


@given(st.lists(st.text(alphabet="-cm=p./ yenvthou1", max_size=12), max_size=6))
def test_every_command_has_a_name_from_its_words(argv: list[str]) -> None:
    """Whatever was typed; never a path."""
    name = called(argv)
    assert "/" not in name
    assert not name or any(name in word for word in argv)
