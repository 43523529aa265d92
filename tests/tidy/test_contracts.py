"""Holds the import contracts of pyproject.toml, and shows that each of them can be broken."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy import project

LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"

BREACHES = {
    "floors": ("core/model/ids.py", "import stellwerk.drivers.base"),
    "core-floors": ("core/model/ids.py", "import stellwerk.core.describe"),
    "core-is-pure": ("core/model/ids.py", "import time"),
    "light-start": ("cli/main.py", "import asyncio"),
    "runtime-alone": ("runtime/__init__.py", "import stellwerk.core"),
    "yaml-in-reader": ("core/model/ids.py", "import yaml"),
    "sqlalchemy-in-store": ("engine/clock.py", "import sqlalchemy"),
    "http-in-server": ("engine/clock.py", "import uvicorn"),
    "drivers-independent": ("drivers/local/__init__.py", "import stellwerk.drivers.simulated"),
    "ssh-in-driver": ("engine/clock.py", "import asyncssh"),
    "kubernetes-in-driver": ("engine/clock.py", "import lightkube"),
}
"""For each contract a line that breaks it, and the module to which the line is added."""


def lint_imports(folder: Path) -> tuple[str, dict[str, str]]:
    """Checks the sources under `folder`; gives the report, and KEPT or BROKEN per contract."""
    command = [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--no-logo"]
    done = subprocess.run(
        [*command, str(folder / "pyproject.toml")],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "COLUMNS": "400", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    report = done.stdout + done.stderr
    return report, dict(re.findall(r"^(.+?) (KEPT|BROKEN)", report, flags=re.MULTILINE))


def contracts() -> dict[str, str]:
    found = project.pyproject()["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in found}


def test_the_contracts_hold() -> None:
    """No import of the project goes against a contract."""
    report, verdicts = lint_imports(project.ROOT)
    assert verdicts == dict.fromkeys(contracts().values(), "KEPT"), report


def test_every_contract_can_be_broken(tmp_path: Path) -> None:
    """A forbidden import added for each contract breaks every one of them."""
    shutil.copy(project.ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        project.ROOT / "src",
        tmp_path / "src",
        ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
    )
    for module, line in BREACHES.values():
        path = tmp_path / "src/stellwerk" / module
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    report, verdicts = lint_imports(tmp_path)
    assert BREACHES.keys() == contracts().keys()
    assert verdicts == dict.fromkeys(contracts().values(), "BROKEN"), report
