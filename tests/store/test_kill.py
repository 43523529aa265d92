"""A writer that is killed at any moment loses nothing that it has acknowledged."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.store import nursery
from tests.store.samples import a_submit, new, opened


def test_twenty_kills(tmp_path: Path) -> None:
    """Every acknowledged command and record is there, numbers have no gaps, epochs rise."""
    done = subprocess.run(
        [sys.executable, nursery.__file__, str(tmp_path), str(os.getpid())],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    lives = [[line.split() for line in lines] for lines in json.loads(done.stdout)]
    assert len(lives) == nursery.KILLS
    assert all(lives), done.stderr
    epochs = [int(life[0][1]) for life in lives]
    assert epochs == sorted(set(epochs))
    durable = 0
    for life in lives:
        assert int(life[0][2]) >= durable
        durable = max([durable, *(int(words[1]) for words in life if words[0] == "seq")])
    acked = {words[1]: words[2:] for life in lives for words in life if words[0] == "ack"}
    assert len(acked) > nursery.KILLS
    with opened(tmp_path) as store:
        assert store.seq() >= durable
        assert store.verify() == []
        commands = {one.key: one for one in store.take(0, 100_000)}
        assert [one.seq for one in commands.values()] == list(range(1, len(commands) + 1))
        for key, (seq, name) in acked.items():
            command = commands[key].command
            assert (str(commands[key].seq), getattr(command, "name", "")) == (seq, name)
            (again,) = store.put_commands([new(a_submit("w-new"), key)], 9).result()
            assert (again.repeated, again.id) == (True, f"w-{key}")
        rows = sum(store.counts().values())
        assert store.seq() == 3 * rows
