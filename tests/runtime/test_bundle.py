"""The one file that travels."""

import os
import subprocess
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
    """Sources only, no test, no cache, nothing of the rest of Stellwerk."""
    with zipfile.ZipFile(bundle.build(tmp_path)) as archive:
        names = archive.namelist()
    assert names[0] == "__main__.py"
    assert all(name.startswith("stellwerk/runtime/") for name in names[2:])
    assert all(name.endswith(".py") for name in names)


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
