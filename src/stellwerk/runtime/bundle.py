"""Packs this package into one file that any Python from 3.9 on runs, the same bytes each time.

The file keeps the names of the modules, so a job that puts it on its PYTHONPATH can import
`stellwerk.runtime.helper` where Stellwerk itself isn't installed.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

_PACKAGE = "stellwerk/runtime"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MAIN = b'''"""Starts the runtime."""

import sys

from stellwerk.runtime.__main__ import main

sys.exit(main())
'''


def build(target_dir: Path) -> Path:
    """Write `runtime-<first 12 digits of its hash>.pyz` if it isn't there yet; its path."""
    content = packed()
    target = target_dir / f"runtime-{hashlib.sha256(content).hexdigest()[:12]}.pyz"
    if not target.exists():
        target_dir.mkdir(parents=True, exist_ok=True)
        unfinished = target_dir / f".{target.name}.{os.getpid()}"
        unfinished.write_bytes(content)
        os.rename(unfinished, target)
    return target


def packed() -> bytes:
    """The bytes of the file: stored and not compressed, which differs between zlibs."""
    files = {"__main__.py": _MAIN, "stellwerk/__init__.py": b'"""Stellwerk beside a job."""\n'}
    here = Path(__file__).parent
    for source in sorted(here.glob("*.py")):
        files[f"{_PACKAGE}/{source.name}"] = source.read_bytes()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, files[name])
    return target.getvalue()
