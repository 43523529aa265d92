"""Writes the server's small files of its own: private, durable, and all at once or not at all."""

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Puts content in the place of what is there. Raises OSError; then all is as before."""
    draft = path.with_name(f"{path.name}.new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
