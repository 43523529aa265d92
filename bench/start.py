"""How long commands and the server take to start."""

import sys

from bench.home import a_home, cpu_ms, memory_mb, spent
from bench.peers.cache import Peers
from bench.table import Line, median


def commands(quick: bool, _peers: Peers) -> list[Line]:
    """Processor time of the two lightest commands, beside that of an empty Python."""
    repeat = 5 if quick else 15
    with a_home() as home:
        home.stw("server", "start")
        helps, lists, empty = [], [], []
        for _ in range(repeat):
            helps.append(home.stw("--help").cpu_ms)
            lists.append(home.stw("ps").cpu_ms)
            empty.append(spent([sys.executable, "-c", "pass"], home.env).cpu_ms)
    return [
        Line(f"{what}, processor time", median(given), "ms", target, min(given),
             "python -c pass", median(empty), min(empty))
        for what, given, target in (("stw --help", helps, 150), ("stw ps", lists, 200))
    ]  # fmt: skip


def server(quick: bool, _peers: Peers) -> list[Line]:
    """From nothing to a server that answers, through `stw server start`."""
    walls, cpus, sizes, imports = [], [], [], []
    for _ in range(2 if quick else 5):
        with a_home() as home:
            walls.append(home.stw("server", "start").wall_ms / 1000)
            pid = home.server_pid()
            cpus.append(cpu_ms(pid) / 1000)
            sizes.append(memory_mb(pid))
        libraries = "import litestar, sqlalchemy, uvicorn"
        imports.append(spent([sys.executable, "-c", libraries], home.env).cpu_ms / 1000)
    return [
        Line("server cold start", median(walls), "s", 2, min(walls)),
        Line("… its processor time", median(cpus), "s", None, min(cpus),
             "import of its libraries", median(imports), min(imports)),
        Line("… its memory", median(sizes), "MB", 150, min(sizes)),
    ]  # fmt: skip
