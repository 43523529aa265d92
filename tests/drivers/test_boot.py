"""The program that puts the runtime on a machine: where it may lie."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from stellwerk.drivers.ssh import boot

ELSEWHERE = '"/var/tmp/stellwerk-%d" % os.getuid()'
IS_LOCAL = "not kind_of(top).startswith(far)"


def booted(top: Path, home: Path) -> dict[str, object]:
    """What it says where the home is on a network file system, with a folder for `/var/tmp/…`."""
    code = boot._BOOT
    assert ELSEWHERE in code
    assert IS_LOCAL in code
    code = code.replace(ELSEWHERE, repr(str(top))).replace(IS_LOCAL, "top == tops[1]")
    argv = [sys.executable, "-I", "-S", "-c", code, "mark", hashlib.sha256(b"").hexdigest()]
    done = subprocess.run(
        [*argv, "0", "key", "", "hand"],
        env={"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    told: dict[str, object] = json.loads(done.stdout.split(b"mark")[1].splitlines()[0])
    return told


def test_nothing_is_put_where_somebody_else_could_change_it(tmp_path: Path) -> None:
    """A folder in `/var/tmp` that others have made beforehand, or a link, is named and left."""
    top = tmp_path / "stellwerk-1000"
    told = booted(top, tmp_path)
    assert str(told["home"]).startswith(f"{top}/")
    assert top.stat().st_mode & 0o077 == 0
    link = tmp_path / "link"
    link.symlink_to(top)
    told = booted(link, tmp_path)
    assert (told["trouble"], told["place"]) == ("folder", str(link))
