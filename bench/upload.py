"""How long it takes to submit a work directory of very many small files for the first time."""

import os
import shutil
import time
from pathlib import Path

from bench.home import a_warm_home
from bench.peers.cache import Peers
from bench.table import Line

CONTENT = b"0123456789abcdef" * 64
TASK = "workdir: {top}\nrun: ls\n"
TARGET_S = 10


def many_files(quick: bool, _peers: Peers) -> list[Line]:
    """30,000 files of 1 kB, all different; beside it a copy of them that is flushed."""
    count = 3_000 if quick else 30_000
    with a_warm_home() as (home, client):
        top = home.folder / "work"
        _make(top, count)
        began = time.perf_counter()
        shutil.copytree(top, top.with_name("copy"))
        os.sync()
        copied = time.perf_counter() - began
        task = TASK.format(top=top)
        began = time.perf_counter()
        client.submit(text=task, hold=True, allow_large=True)
        first = time.perf_counter() - began
        began = time.perf_counter()
        client.submit(text=task, hold=True, allow_large=True)
        again = time.perf_counter() - began
    scale = count / 30_000
    return [
        Line(f"{count:,} files of 1 kB submitted", first, "s", TARGET_S * scale, None,
             "copied and flushed", copied),
        Line("… again, unchanged", again, "s"),
    ]  # fmt: skip


def _make(top: Path, count: int) -> None:
    for number in range(count):
        folder = top / f"{number // 250:03d}"
        if number % 250 == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}.txt").write_bytes(b"%08d" % number + CONTENT[8:])
