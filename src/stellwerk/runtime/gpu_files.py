"""Finds the files of the GPU driver that a job in an image must have from the machine.

They belong to the kernel's driver and must be of its very version, so no image brings them along.
"""

from __future__ import annotations

import os
import shutil

PLACE = "/usr/local/stellwerk"
"""Where they are shown inside of an image: libraries in `lib`, programs in `bin`."""

_LIBRARIES = (
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-",
    "libnvcuvid.so",
    "libnvoptix.so",
)
_PROGRAMS = ("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control")


def driver_files() -> dict[str, str]:
    """Where each is on this machine, by the place where a job in an image is to see it."""
    found = {f"{PLACE}/lib/{name}": path for name, path in _libraries().items()}
    for program in _PROGRAMS:
        path = shutil.which(program)
        if path is not None:
            found[f"{PLACE}/bin/{program}"] = os.path.realpath(path)
    return found


def _libraries() -> dict[str, str]:
    """The driver's libraries by name, as the dynamic linker of this machine would find them."""
    import subprocess

    linker = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if linker is None:
        return {}
    listed = subprocess.run(
        [linker, "-p"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    found: dict[str, str] = {}
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        # `libcuda.so.1 (libc6,x86-64) => /usr/lib/…/libcuda.so.1`; a 32-bit one names no machine.
        name, _, rest = line.strip().partition(" ")
        kind, _, path = rest.partition(" => ")
        if name.startswith(_LIBRARIES) and "," in kind and path:
            found.setdefault(name, os.path.realpath(path))
    return found
