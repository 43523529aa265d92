"""Finds the project's files and what its pyproject.toml says."""

import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from tests.tidy.rules import Source

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".sh", ".txt", ".cfg", ""}
PARTS = ("src", "tests", "examples", "scripts", "bench", "docs", ".ci")
CASES = "tests/conformance/cases/"
"""Conformance cases say what other people write: their words aren't ours."""


@cache
def sources() -> tuple[Source, ...]:
    """Reads every text file of the project, tracked or not, but for what git ignores."""
    paths = sorted(path for path in _paths() if _is_ours(path))
    return tuple(Source(path, (ROOT / path).read_text(encoding="utf-8")) for path in paths)


def _paths() -> list[str]:
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return [path for path in listed.stdout.split("\0") if (ROOT / path).is_file()]
    return [
        path.relative_to(ROOT).as_posix()
        for part in PARTS
        for path in (ROOT / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]


def _is_ours(path: str) -> bool:
    at_the_root = "/" not in path
    wanted = at_the_root or path.startswith(tuple(f"{part}/" for part in PARTS))
    return (
        wanted
        and Path(path).suffix in TEXTS
        and not path.startswith(CASES)
        and path not in {"LICENSE", "constraints.txt"}
    )


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def entry_points() -> set[str]:
    project = pyproject()["project"]
    groups = [project["scripts"], *project.get("entry-points", {}).values()]
    return {target.partition(":")[0] for group in groups for target in group.values()}
