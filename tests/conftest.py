"""Gives every test a home of its own, and settings under which a result can be repeated.

No test ever sees the real home, the real state, or a variable of a job it happens to run in.
"""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

# Numeric libraries start a thread per core, and slow each other down when tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

hypothesis.settings.register_profile("here", deadline=None, max_examples=30)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=500)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")

FOREIGN_PREFIXES = ("STELLWERK_", "SKYPILOT_", "STW_")
KEPT = {"STELLWERK_CASES"}
"""Variables by which a person steers the tests themselves."""


def pytest_collection_finish() -> None:
    """Spares the garbage collector modules and tests, which stay: to walk them took a tenth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 10)


def pytest_sessionfinish() -> None:
    """Looks once for what nobody has closed, and spares the looks that follow the rest."""
    gc.collect()
    gc.freeze()


FOLDERS = ("home", "state", "run")
_unused: list[str] = []
"""Folders that a test was given and has left as they were; to make them anew takes its time."""


@pytest.fixture(autouse=True)
def home_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Points HOME, STELLWERK_HOME and the runtime directory into a short-lived folder.

    The folder's path is short, because a Unix socket's may have 107 bytes at most.
    """
    folder = _unused.pop() if _unused else _new_folder()
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES) and name not in KEPT:
            monkeypatch.delenv(name)
    for variable, name in zip(("HOME", "STELLWERK_HOME", "XDG_RUNTIME_DIR"), FOLDERS, strict=True):
        monkeypatch.setenv(variable, f"{folder}/{name}")
    monkeypatch.setenv("STELLWERK_CLAIMS", f"{folder}/claims")
    monkeypatch.setenv("STELLWERK_MACHINE_CONFIG", f"{folder}/machine.toml")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    if _is_as_new(folder):
        _unused.append(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_unconfigure() -> None:
    """Leaves no folder."""
    while _unused:
        shutil.rmtree(_unused.pop(), ignore_errors=True)


def _new_folder() -> str:
    folder = tempfile.mkdtemp(prefix="stw-")
    for name in FOLDERS:
        os.mkdir(f"{folder}/{name}", 0o700)
    return folder


def _is_as_new(folder: str) -> bool:
    """Whether a test has used none of it, and so has started nothing that still might."""
    try:
        return (
            sorted(os.listdir(folder)) == sorted(FOLDERS)
            and not any(os.listdir(f"{folder}/{name}") for name in FOLDERS)
            and {os.lstat(f"{folder}/{name}").st_mode for name in FOLDERS} == {0o40700}
        )
    except OSError:
        return False
