"""Keeps the start of the command line light: what it must not load, it doesn't load."""

import subprocess
import sys

import pytest

HEAVY = (
    "asyncio",
    "rich",
    "sqlalchemy",
    "litestar",
    "uvicorn",
    "yaml",
    "cryptography",
    "pathspec",
    "numpy",
    "cel_expr_python",
    "stellwerk.engine",
    "stellwerk.server",
    "stellwerk.store",
    "stellwerk.drivers",
)

PROBE = """
import atexit, sys
atexit.register(lambda: print("\\nloaded", *sorted(sys.modules), file=sys.stderr))
{statement}
"""

MAIN = "import sys; sys.argv = ['stw', *{arguments}]; from stellwerk.cli.main import main; main()"


def heavy_modules_after(statement: str) -> list[str]:
    """Runs a statement in a fresh interpreter and gives the heavy modules that it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.rpartition("\nloaded ")[2].split())
    assert {"sys", "atexit"} <= loaded
    return [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_the_command_line_starts_light(arguments: list[str]) -> None:
    """Help and version come without an event loop, a database, a server or a YAML reader."""
    assert heavy_modules_after(MAIN.format(arguments=arguments)) == []


def test_the_client_is_light() -> None:
    """`from stellwerk import Client` costs a notebook nothing of the server."""
    assert heavy_modules_after("from stellwerk import Client") == []


def test_a_heavy_module_is_seen() -> None:
    """The check itself notices what it looks for."""
    assert heavy_modules_after("import yaml, asyncio") == ["asyncio", "yaml"]
