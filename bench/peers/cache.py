"""Keeps the peers in an environment outside the tree, and asks their scripts for numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = {"submitit": "submitit", "hyperqueue": "hyperqueue"}
INSTALL_S = 300
RUN_S = 600


class Peers:
    """Installed when first asked for; ``left_out`` says what wasn't to be had, and why."""

    def __init__(self) -> None:
        cache = os.environ.get("BENCH_CACHE") or "~/.cache/stellwerk-bench"
        self._folder = Path(cache).expanduser() / f"python{sys.version_info[1]}"
        self._python = self._folder / "bin" / "python"
        self.left_out: list[str] = []

    def ask(self, peer: str, script: str, *words: str) -> dict[str, Any] | None:
        """Runs a script of this folder under a peer's environment and reads the JSON it prints."""
        if not self._has(peer):
            return None
        argv = [str(self._python), str(Path(__file__).with_name(script)), *words]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_S, check=True)
            answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        except subprocess.CalledProcessError as error:
            self.left_out.append(f"{peer}: {(error.stderr or '').strip().splitlines()[-1:]}")
            return None
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            self.left_out.append(f"{peer}: {error}")
            return None
        return answer

    def _has(self, peer: str) -> bool:
        mark = self._folder / f".{peer}"
        if mark.exists():
            return True
        try:
            if not self._python.exists():
                _run([sys.executable, "-m", "venv", str(self._folder)])
            _run([str(self._python), "-m", "pip", "install", "--quiet", PACKAGES[peer]])
        except (subprocess.SubprocessError, OSError) as error:
            self.left_out.append(f"{peer}: the package index did not give it ({error})")
            return False
        mark.touch()
        return True


def _run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=INSTALL_S)
