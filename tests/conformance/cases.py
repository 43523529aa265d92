"""Reads conformance cases. STELLWERK_CASES names another folder than the project's own."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests import yamls

FOLDER = Path(os.environ.get("STELLWERK_CASES") or Path(__file__).parent / "cases")

Case = dict[str, Any]


def load(folder: Path, files: Sequence[str]) -> Iterator[tuple[str, Case]]:
    """The cases of the files that are there, with the ids of their tests; `_meta` is the file's."""
    for stem in files:
        path = folder / f"{stem}.yaml"
        if path.is_file():
            data = yamls.read(path.read_text(encoding="utf-8"))
            meta = data.get("meta") or {}
            for case in data["cases"]:
                yield f"{stem}/{case['id']}", {**case, "_meta": meta}
