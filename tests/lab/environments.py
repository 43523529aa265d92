"""The environments that frameworks run in: outside the tree, made once, the same until asked anew.

Run as a program it makes those that aren't there yet. What the package index doesn't give, or what
has no room on the disk, is noted with the reason, and the tests that need it say that reason.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

CACHE = Path(os.environ.get("LAB_CACHE") or "~/.cache/stellwerk-lab").expanduser()
INSTALL_S = 1200


class Environment(NamedTuple):
    """A name, the packages, what they take on the disk, and the environment that they add to."""

    name: str
    packages: tuple[str, ...]
    gigabytes: int
    over: "Environment | None" = None

    @property
    def folder(self) -> Path:
        """Where it lies: another list of packages or another Python is another folder."""
        below = (self.over.folder.name,) if self.over else ()
        wanted = hashlib.sha256("\n".join((*self.packages, *below)).encode()).hexdigest()[:8]
        return CACHE / f"{self.name}-{sys.version_info[0]}.{sys.version_info[1]}-{wanted}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Where its packages lie."""
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return self.folder / "lib" / version / "site-packages"

    @property
    def missing(self) -> str:
        """Why it can't be used; empty if it can."""
        if (self.folder / ".complete").exists():
            return ""
        note = self.folder / ".missing"
        return note.read_text() if note.exists() else f"{self.name} was not made: run make lab"


# The index gives torch for Linux only with the CUDA libraries, and it doesn't load without them.
TRAINER = Environment("trainer", ("torch>=2.9,<3", "transformers>=5.20,<6", "accelerate>=1.10"), 7)
LIGHTNING = Environment(
    "lightning", ("pytorch-lightning>=2.5", "lightning-utilities", "torchmetrics"), 1, TRAINER
)
JAX = Environment("jax", ("jax>=0.6",), 1)
MPI = Environment("mpi", ("mpi4py>=4.1",), 1)
OPEN_MPI_5 = Environment("openmpi", ("openmpi>=5", "mpi4py>=4.1"), 1)
MPICH = Environment("mpich", ("mpich>=5", "mpi4py>=4.1"), 1)
RAY = Environment("ray", ("ray>=2.50",), 1)
HUB = Environment("hub", ("huggingface_hub>=2.4,<3", "datasets>=5.2,<6"), 1)
ALL = (TRAINER, LIGHTNING, JAX, MPI, OPEN_MPI_5, MPICH, RAY, HUB)


def make(one: Environment) -> None:
    """Makes an environment unless it is there; what goes wrong is written down beside it."""
    if (one.folder / ".complete").exists():
        return
    shutil.rmtree(one.folder, ignore_errors=True)
    one.folder.mkdir(parents=True)
    began = time.monotonic()
    trouble = _fill(one)
    if trouble:
        shutil.rmtree(one.folder, ignore_errors=True)
        one.folder.mkdir()
        (one.folder / ".missing").write_text(trouble)
        print(f"lab: left out: {trouble}", flush=True)
    else:
        (one.folder / ".complete").touch()
        print(f"lab: {one.name} was made in {time.monotonic() - began:.0f} s", flush=True)


def versions(one: Environment) -> str:
    """What an environment was filled with."""
    names = [re.split(r"[<>=]", package)[0] for package in one.packages]
    ask = (
        "import sys\nfrom importlib.metadata import version\n"
        "for name in sys.argv[1:]: print(name, version(name))"
    )
    said = subprocess.run(
        [str(one.python), "-c", ask, *names], capture_output=True, text=True, check=True
    )
    return ", ".join(said.stdout.splitlines())


def _fill(one: Environment) -> str:
    if one.over and one.over.missing:
        return one.over.missing
    free = shutil.disk_usage(one.folder).free // 10**9
    if free < one.gigabytes + 2:
        return f"{one.name} takes {one.gigabytes} GB, and {one.folder} has {free} GB of room"
    print(f"lab: making {one.name} ({one.gigabytes} GB) in {one.folder}", flush=True)
    install = [str(one.python), "-m", "pip", "install", "--quiet", "--no-input", *one.packages]
    if one.over:
        # What they need is there already, and would be fetched again.
        install.append("--no-deps")
    steps = (
        ("no environment can be made here", [sys.executable, "-m", "venv", str(one.folder)]),
        (f"the package index did not give {one.name}", install),
    )
    for trouble, step in steps:
        try:
            done = subprocess.run(
                step, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{one.name} was not to be had within {INSTALL_S // 60} minutes"
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            return f"{trouble}: {' '.join(said)}"
    if one.over:
        (one.site_packages / "over.pth").write_text(f"{one.over.site_packages}\n")
    return ""


def main() -> int:
    for one in ALL:
        make(one)
        if not one.missing:
            print(f"lab: {one.name} has {versions(one)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
