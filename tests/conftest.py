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


@pytest.fixture(autouse=True)
def home_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Points HOME, STELLWERK_HOME and the runtime directory into a short-lived folder.

    The folder's path is short, because a Unix socket's may have 107 bytes at most.
    """
    folder = tempfile.mkdtemp(prefix="stw-")
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES) and name not in KEPT:
            monkeypatch.delenv(name)
    for name, value in {
        "HOME": f"{folder}/home",
        "STELLWERK_HOME": f"{folder}/state",
        "XDG_RUNTIME_DIR": f"{folder}/run",
    }.items():
        os.mkdir(value, 0o700)
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STELLWERK_CLAIMS", f"{folder}/claims")
    monkeypatch.setenv("STELLWERK_MACHINE_CONFIG", f"{folder}/machine.toml")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
