"""The stand-in for the driver of NVIDIA's GPUs: a library in C, compiled where it is used."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("stand_in_nvml.c")
NO_COMPILER = "" if shutil.which("gcc") else "no gcc to compile the stand-in for NVML"


def compiled(folder: Path, name: str = "libstandin.so") -> str:
    """Where the library lies, which is made there; only where there is a compiler."""
    library = str(folder / name)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, str(SOURCE)], check=True)
    return library
