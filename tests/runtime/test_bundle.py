"""The one file that travels."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stellwerk.runtime import VERSION, bundle
from tests.runtime.rig import ENDS, INTERPRETERS, result_of


def test_same_sources_same_file(tmp_path: Path) -> None:
    """The bytes depend on nothing but the sources, and an existing file is left alone."""
    first, second = bundle.build(tmp_path / "a"), bundle.build(tmp_path / "b" / "c")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    before = os.stat(first).st_mtime_ns
    assert bundle.build(tmp_path / "a") == first
    assert os.stat(first).st_mtime_ns == before
    assert os.listdir(tmp_path / "a") == [first.name]


def test_only_our_own_modules(tmp_path: Path) -> None:
    """Each source and what it compiles to, no test, nothing of the rest of Stellwerk."""
    with zipfile.ZipFile(bundle.build(tmp_path)) as archive:
        names = archive.namelist()
    sources = [name for name in names if name.endswith(".py")]
    assert sorted(names) == sorted(["stellwerk/", *sources, *(f"{name}c" for name in sources)])
    assert names[:2] == ["__main__.py", "__main__.pyc"]
    assert all(name.startswith("stellwerk/runtime/") for name in sources[1:])


def test_another_process_packs_the_same() -> None:
    """Whatever is loaded there and in whatever order its hashes are: a build has one digest."""
    program = (
        "import asyncio, email, hashlib\n"
        "from stellwerk.runtime import agent, bundle\n"
        "print(hashlib.sha256(bundle.packed()).hexdigest())"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == hashlib.sha256(bundle.packed()).hexdigest()


def test_what_was_compiled_is_used_without_a_look_at_its_source(tmp_path: Path) -> None:
    """This Python takes a module from the bundle as it was compiled."""
    program = (
        f"import sys; sys.path.insert(0, {str(bundle.build(tmp_path))!r})\n"
        "import stellwerk.runtime.claims as module; print(module.__file__)"
    )
    shown = result_of([sys.executable, "-I", "-S", "-c", program])
    assert shown.stdout.strip().endswith("claims.pyc")


@pytest.mark.parametrize("version", ENDS)
def test_each_python_reads_it(tmp_path: Path, version: str) -> None:
    """The oldest and the newest Python import every module from the file without a warning."""
    path = bundle.build(tmp_path)
    modules = sorted(p.stem for p in Path(bundle.__file__).parent.glob("*.py"))
    imports = "\n".join(f"import stellwerk.runtime.{m}" for m in modules if not m.startswith("__"))
    program = f"import sys; sys.path.insert(0, {str(path)!r})\n{imports}\n"
    command = [INTERPRETERS[version], "-I", "-S", "-W", "error", "-c", program]
    subprocess.run(command, check=True)
    shown = result_of([INTERPRETERS[version], "-I", "-S", str(path), "--version"])
    assert shown.stdout.strip() == VERSION
