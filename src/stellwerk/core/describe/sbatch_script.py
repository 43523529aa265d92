"""Decides what is put before the body of a batch script so that it runs without Slurm."""

from __future__ import annotations

import re

from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.sbatch_amounts import Amounts

_VARIABLE = re.compile(r"\$\{?(SLURM_[A-Z0-9_]+)")
_BEGINS = r"(?:^|[;&|(`]|\b(?:do|then|else|time|if|while|!)[ \t])[ \t]*"
_SRUN = re.compile(_BEGINS + r"(?:exec[ \t]+)?(srun)[ \t]", re.MULTILINE)
_EXEC_SRUN = re.compile(r"^[^#\n]*\bexec[ \t]+(srun)[ \t]", re.MULTILINE)
_KEPT_FLAGS = "eux"

_SRUN_FUNCTION = """\
srun() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --) shift; break ;;
      --*=*|--exclusive|--unbuffered|--label|--pty|--overlap|--exact|--quiet|--verbose) shift ;;
      --kill-on-bad-exit|--overcommit|--mpi-combine|-[ulvQOK]|-[A-Za-z]?*) shift ;;
      -*) shift; [ $# -eq 0 ] || shift ;;
      *) break ;;
    esac
  done
  "$@"
}
"""


def body_of(report: Report, text: str, flags: str, name: str, amounts: Amounts) -> str:
    """The script's lines behind the first, with what they need from Slurm before them."""
    body = text.split("\n", 1)[1] if "\n" in text else ""
    before = ""
    kept = "".join(flag for flag in flags if flag in _KEPT_FLAGS)
    if kept:
        before += f"set -{kept}\n"
    values = _values(name, amounts)
    for variable in dict.fromkeys(_VARIABLE.findall(body)):
        if variable in values:
            before += f"export {variable}={values[variable]}\n"
        elif not variable.startswith("SLURM_ARRAY_"):  # an array's elements are given these
            message = f"the script reads `${variable}`, which only Slurm sets"
            report.notice("spec/sbatch-variable", Node("scalar", 1, 1), "", message)
    starter = _SRUN.search(body)
    refused = starter if amounts.tasks > 1 else _EXEC_SRUN.search(body)
    if refused is not None:
        _refuse_starter(report, refused, amounts)
    return before + (_SRUN_FUNCTION if starter else "") + body


def _refuse_starter(report: Report, found: re.Match[str], amounts: Amounts) -> None:
    # The body begins in the second line.
    place = Node("scalar", 2 + found.string.count("\n", 0, found.start(1)), 1)
    if amounts.tasks > 1:
        message = f"`srun` would start {amounts.tasks} processes, which can't be done yet"
        remedy = "use `torchrun`, or `--ntasks 1`"
        report.problem("spec/sbatch-tasks", place, "", message, remedy)
    else:
        report.problem("spec/sbatch-exec", place, "", "`exec srun` needs Slurm", "leave out `exec`")


def _values(name: str, amounts: Amounts) -> dict[str, str]:
    job = "${SKYPILOT_INTERNAL_JOB_ID:-0}"
    cpus = str(amounts.tasks_per_node * amounts.cpus_per_task)
    tasks, nodes = str(amounts.tasks), str(amounts.nodes)
    gpus = str(int(amounts.selector.count if amounts.selector else 0))
    if amounts.accelerators:
        gpus = str(int(sum(amounts.accelerators.values())))
    return {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_JOB_NAME": f"'{name or 'job'}'",
        "SLURM_CPUS_PER_TASK": str(amounts.cpus_per_task),
        "SLURM_CPUS_ON_NODE": cpus,
        "SLURM_JOB_CPUS_PER_NODE": cpus,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": str(amounts.tasks_per_node),
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GPUS": gpus,
        "SLURM_GPUS_ON_NODE": gpus,
        "SLURM_GPUS_PER_NODE": gpus,
        "SLURM_SUBMIT_DIR": '"$PWD"',
        "SLURM_SUBMIT_HOST": '"$(hostname)"',
        "SLURM_NODELIST": '"$(hostname)"',
        "SLURM_JOB_NODELIST": '"$(hostname)"',
        "SLURMD_NODENAME": '"$(hostname)"',
        "SLURM_TMPDIR": '"${TMPDIR:-/tmp}"',
    }
