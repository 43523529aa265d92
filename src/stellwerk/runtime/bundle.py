"""Packs this package into one file that any Python from 3.9 on runs, the same bytes each time.

Beside each module lies what this Python compiles it to, for to compile all of them is most of an
agent's start; another version passes that over, and reads the module itself.

The file keeps the names of the modules and is at the end of a job's PYTHONPATH, so that a job can
import `stellwerk.runtime.helper` and `stellwerk.runtime.training` where Stellwerk isn't installed.
`stellwerk` itself is no module in it: where Stellwerk is installed, that one counts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import zipfile
from functools import cache
from pathlib import Path

_PACKAGE = "stellwerk/runtime"
_NAMESPACE = "stellwerk"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MAIN = b'''"""Starts the runtime."""

import sys

from stellwerk.runtime.__main__ import main

sys.exit(main())
'''


def build(target_dir: Path) -> Path:
    """Write `runtime-<12 digits that tell its sources and Python>.pyz` where it isn't; its path."""
    told = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, content in _sources().items():
        told.update(b"%s %d\n%s" % (name.encode(), len(content), content))
    target = target_dir / f"runtime-{told.hexdigest()[:12]}.pyz"
    if not target.exists():
        target_dir.mkdir(parents=True, exist_ok=True)
        unfinished = target_dir / f".{target.name}.{os.getpid()}"
        unfinished.write_bytes(packed())
        os.rename(unfinished, target)
    return target


@cache
def packed() -> bytes:
    """The bytes of the file: stored and not compressed, which differs between zlibs."""
    files = _sources()
    files.update({f"{name}c": _compiled(name, files[name]) for name in sorted(files)})
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted([*files, f"{_NAMESPACE}/"]):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, files.get(name, b""))
    return target.getvalue()


def _sources() -> dict[str, bytes]:
    files = {"__main__.py": _MAIN}
    here = Path(__file__).parent
    for source in sorted(here.glob("*.py")):
        files[f"{_PACKAGE}/{source.name}"] = source.read_bytes()
    return files


def _compiled(name: str, source: bytes) -> bytes:
    """A module as this Python keeps it, valid whatever the time of its source.

    In a format of `marshal` without references, which hang on what else is loaded.
    """
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    unchecked = (1).to_bytes(4, "little")
    head = importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source)
    return head + marshal.dumps(code, 2)
