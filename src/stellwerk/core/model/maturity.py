"""What Stellwerk works with, what each was tested against, and how: the table of `stw maturity`.

A line says no more than a test shows. ``how`` is one of

- ``real``: the program itself, started by the tests;
- ``stand-in``: a program of ours that speaks as the real one does;
- ``contract``: recorded input and output of the real one.
"""

from typing import Literal

from msgspec import Struct

How = Literal["real", "stand-in", "contract"]


class Integration(Struct, frozen=True):
    """One thing that Stellwerk works with. ``tests`` are paths from the project's root."""

    name: str
    does: str
    against: str
    how: How
    tests: tuple[str, ...]
    since: str = "0.1.0"
    limits: str = ""


INTEGRATIONS = (
    Integration(
        "this machine",
        "runs jobs as its user, adopts them after kill -9 of server and agent",
        "Linux 6.18, Debian 12, bash 5.2",
        "real",
        ("tests/flows", "tests/runtime", "tests/soak"),
    ),
    Integration(
        "Python beside a job",
        "agent, wrapper and helper on the interpreter that is there",
        "3.9, 3.10, 3.11, 3.12, 3.13",
        "real",
        ("tests/lab/test_pythons.py", "tests/runtime"),
    ),
    Integration(
        "SkyPilot task files",
        "read unchanged; what a job sees is what SkyPilot gives it",
        "SkyPilot 0.14.1",
        "contract",
        ("tests/conformance", "tests/core/describe"),
        limits="pipelines, job groups, services and pools are read, and refused at submit",
    ),
    Integration(
        "batch scripts",
        "the usual #SBATCH lines",
        "Slurm 22.05",
        "contract",
        ("tests/core/describe/test_sbatch.py",),
        limits="arrays and dependencies are refused",
    ),
    Integration(
        "Hugging Face Trainer",
        "saves by its just-in-time checkpoint when its run has to leave, and resumes",
        "transformers 5.24, accelerate 1.15, torch 2.15 on the CPU",
        "real",
        ("tests/lab/test_frameworks.py",),
    ),
    Integration(
        "torchrun",
        "its workers get the notice, not the launcher; two ranks save together and resume",
        "torch 2.15, gloo",
        "real",
        ("tests/lab/test_frameworks.py", "tests/runtime/test_stops.py"),
    ),
    Integration(
        "plain training loops",
        "one that takes no notice is ended after its grace and resumes from its last checkpoint",
        "torch 2.15 on the CPU; scikit-learn 1.9",
        "real",
        ("tests/lab/test_frameworks.py", "tests/examples"),
    ),
    Integration(
        "podman images",
        "a task's image from podman's store, without root and without a daemon",
        "podman 4.3",
        "real",
        ("tests/lab/test_podman.py", "tests/runtime/test_images.py"),
    ),
    Integration(
        "NVIDIA GPUs",
        "memory, use and processes by device through NVML",
        "a library of the tests with NVML's interface",
        "stand-in",
        ("tests/runtime/test_probe.py", "tests/runtime/test_gpus.py"),
    ),
    Integration(
        "SQLite",
        "journal, inbox and read models, durable at every step",
        "SQLite 3.40",
        "real",
        ("tests/store", "tests/soak"),
    ),
)
"""All of them, those that a new user meets first at the top."""
